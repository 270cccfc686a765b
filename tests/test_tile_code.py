"""The machine code that LLVM makes of tiles (nnet3py/engine/tiles.py), also for processors that are not here."""
from __future__ import annotations

import re

import pytest
from llvmlite import binding, ir

from nnet3py.engine import tiles
from nnet3py.engine.processor import AVX2, AVX512, NEON

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
PROCESSORS = [(AVX512, X86, "skylake-avx512"), (AVX512, X86, "znver4"), (AVX2, X86, "haswell"), (AVX2, X86, "znver3"),
              (NEON, ARM, "generic"), (NEON, ARM, "neoverse-n1"), (NEON, ARM, "apple-m1")]
FUSED = {AVX512: r"\tvfn?m\w*add\w*ps\t.*%zmm\d", AVX2: r"\tvfn?m\w*add\w*ps\t.*%ymm\d", NEON: r"\tfmla\tv\d+\.4s, .*"}
STACK = {X86: r"\(%r[sb]p", ARM: r"\[(?:sp|x29)"}
MOVES = {X86: r"\tvmov\w+\t%[yz]mm\d+, %[yz]mm\d+", ARM: r"\tmov\tv\d+\.16b, v\d+\.16b"}


def assembly(monkeypatch: pytest.MonkeyPatch, kind: str, triple: str, name: str) -> str:
    """Of the whole tile of that kind of processor, compiled as numba compiles."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    try:
        target = binding.Target.from_triple(triple)
    except RuntimeError as error:
        pytest.skip(f"this LLVM makes no code for {triple}: {error}")
    vector, rows, vectors = tiles.SHAPES[kind]
    monkeypatch.setattr(tiles, "VECTOR", vector)
    monkeypatch.setattr(tiles, "_VECTOR_TYPE", ir.VectorType(ir.FloatType(), vector))
    module = ir.Module("tile")
    module.triple = triple
    tiles._define_tile(module, rows, vectors).linkage = "external"
    machine = target.create_target_machine(cpu=name, opt=3)
    parsed = binding.parse_assembly(str(module))
    options = binding.create_pipeline_tuning_options(speed_level=3)
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    return str(machine.emit_assembly(parsed))


def loop_of(text: str) -> list[str]:
    """The instructions of the one loop: from a label to the jump back to it."""
    loops = [match[0].splitlines() for match in re.finditer(
        r"^(\.LBB\w+):(?:(?!^\.LBB).*\n)*?\t(?:j|b\.|cbnz|tbnz)\w*\t(?:.*, )?\1$", text, re.MULTILINE)]
    assert len(loops) == 1
    return loops[0]


@pytest.mark.parametrize("kind, triple, name", PROCESSORS)
def test_a_tile_stays_in_registers(monkeypatch: pytest.MonkeyPatch, kind: str, triple: str, name: str) -> None:
    """Two products are added to each vector of the tile, and none goes to the stack or to another register."""
    loop = loop_of(assembly(monkeypatch, kind, triple, name))
    _, rows, vectors = tiles.SHAPES[kind]
    assert sum(bool(re.match(FUSED[kind], line)) for line in loop) == 2 * rows * vectors
    assert not [line for line in loop if re.search(STACK[triple], line) or re.match(MOVES[triple], line)]


def test_a_tile_that_is_too_large_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other test would say of 8 x 4 vectors, which 32 registers cannot hold with what is multiplied."""
    monkeypatch.setitem(tiles.SHAPES, NEON, (4, 8, 4))
    loop = loop_of(assembly(monkeypatch, NEON, ARM, "generic"))
    assert [line for line in loop if re.search(STACK[ARM], line)]


@pytest.mark.parametrize("kind", tiles.SHAPES)
def test_a_tile_has_no_more_rows_than_a_vector_has_numbers(kind: str) -> None:
    """Copies of a left matrix are made of squares of a vector's size, of which a tile's rows are a part."""
    vector, rows, _ = tiles.SHAPES[kind]
    assert rows <= vector
