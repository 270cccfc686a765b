"""Good content of every kind of file that is read, with what reads it, for the fuzz test."""
from __future__ import annotations

import contextlib
import functools
import io
import struct
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from compiler_cases import read_request
from component_configs import CONFIGS
from fst_cases import FITTING, TRANSDUCER, WORDS, trigram, written
from lattice_cases import LATTICE_DATA
from lattice_fuzzing import lattice_archives, read_words
from lattice_fuzzing import use as use_lattices
from paths import DATA
from wrong_input_cases import good_files

import nnet3py
from nnet3py.acoustic_model import read_model
from nnet3py.cli.fst.graph_files import read_graph
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.components.registry import COMPONENT_MODULES, component_class
from nnet3py.config_line import ConfigLine
from nnet3py.decoding.composed_graphs import LookaheadGraph
from nnet3py.decoding.lookahead import GrammarTables, write_lookahead
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.egs.chain_example import CHAIN_EXAMPLE, SUPERVISION
from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE
from nnet3py.egs.example import EXAMPLE
from nnet3py.errors import Nnet3Error
from nnet3py.formats.foreign_files import WAVE, has_stream_size, read_duration, read_wave, write_wave
from nnet3py.formats.holders import FLOAT_MATRIX, GENERAL_MATRIX, INT_VECTOR, POSTERIOR
from nnet3py.formats.lda_stats import LdaStats
from nnet3py.fst import operations
from nnet3py.fst.arpa import Warner, WordIds, read_arpa
from nnet3py.fst.arpa_graph import Sentence, arpa_graph
from nnet3py.fst.const_arpa import ConstArpa, build_const_arpa
from nnet3py.fst.openfst import compose, determinize_star, minimize_encoded, to_openfst
from nnet3py.fst.operations import push_special, without_local_epsilons
from nnet3py.fst.text import (
    TextForm,
    fst_of_text,
    info_text,
    read_symbols,
    symbols_of,
    symbols_text,
    text_of_fst,
    with_symbols,
)
from nnet3py.graphs.context import expand_context, read_windows
from nnet3py.graphs.hmms import add_self_loops, hmm_transducer
from nnet3py.hmm.topology import HmmTopology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object
from nnet3py.io.specifiers import parse_range, parse_rspecifier, parse_wspecifier, split_range
from nnet3py.io.tables import SequentialReader, write_table
from nnet3py.io.tokens import TokenWriter
from nnet3py.model_info import info
from nnet3py.network.edits import apply_edits
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.transducers import COMPACT_KINDS, CONST_KINDS
from nnet3py.transducers.fst_text import read_fst, read_fst_file, write_fst


@dataclass(frozen=True)
class Sample:
    """Good content of one kind, and what reads it; ``read`` is given the bytes and a file that holds them.

    ``use`` does something with what was read, which may take more memory than reading.
    """

    kind: str
    name: str
    data: bytes
    read: Callable[[bytes, Path], Any]
    use: Callable[[Any], None] | None = None


def _read_model(data: bytes, path: Path) -> Any:
    return read_nnet(str(path))


def _use_model(nnet: Any) -> None:
    with contextlib.suppress(Nnet3Error):    # a network whose context depends on t, say, can be written all the same
        info(nnet)
    for binary in (True, False):
        nnet.write_to(TokenWriter(io.BytesIO(), binary))


def _read_acoustic_model(data: bytes, path: Path) -> None:
    model = read_model(str(path))
    model.write_to(TokenWriter(io.BytesIO(), True))


def _read_config(data: bytes, path: Path) -> None:
    nnet = Nnet.from_config(data.decode("utf-8", "surrogateescape"), path=str(path))
    nnet.config_lines(include_dims=True)


def _apply_edits(data: bytes, path: Path) -> None:
    apply_edits(_edited_network().copy(), data.decode("utf-8", "surrogateescape"))


@functools.cache
def _edited_network() -> Any:
    return Nnet.from_config(good_files()["config"].decode())


def _read_specifier(data: bytes, path: Path) -> None:
    for parse in (parse_rspecifier, parse_wspecifier, split_range, lambda text: parse_range(text, 2)):
        with contextlib.suppress(Nnet3Error):
            parse(data.decode("utf-8", "surrogateescape"))


def _table(holder: Any, form: str = "ark") -> Callable[[bytes, Path], None]:
    def read(data: bytes, path: Path) -> None:
        with SequentialReader(f"{form}:{path}", holder) as reader:
            for _, value in reader:
                holder.write(TokenWriter(io.BytesIO(), True), value)

    return read


def _object(kind: Any) -> Callable[[bytes, Path], None]:
    def read(data: bytes, path: Path) -> None:
        value = read_object(str(path), kind.read)
        if hasattr(value, "write"):
            value.write(TokenWriter(io.BytesIO(), True))

    return read


def _read_fst(data: bytes, path: Path) -> None:
    fst = read_object(str(path), read_fst)
    write_fst(TokenWriter(io.BytesIO(), True), fst)


def _read_graph(data: bytes, path: Path) -> None:
    """Read a graph as the programs on graphs do, and do to it what they do, but nothing that may never end."""
    fst = read_graph(str(path))
    info_text(fst)
    list(text_of_fst(fst, TextForm()))
    for change in (operations.arc_sorted, operations.in_top_order, operations.reversed_fst, operations.closure,
                   operations.sums_of_states,
                   without_local_epsilons, push_special, lambda one: operations.union(one, one), _determinized,
                   lambda one: expand_context(one, 2, 1, [31, 32, 33, 34], keep_outputs=True),
                   lambda one: add_self_loops(one, _transitions("graphs"))):
        with contextlib.suppress(Nnet3Error), warnings.catch_warnings():
            change(fst)


def _determinized(fst: Any) -> None:
    if fst.num_arcs:
        graph = to_openfst(fst)
        determinize_star(graph, use_log=True, max_states=200)
        minimize_encoded(graph)
        compose(fst, fst)


@functools.cache
def _transitions(folder: str) -> TransitionModel:
    return read_object(str(DATA / folder / "trans.mdl"), TransitionModel.read)


def _compile_fst(data: bytes, path: Path) -> None:
    words = read_symbols(DATA / "graphs" / "words.txt")
    for form in (TextForm(), TextForm(inputs=words), TextForm(acceptor=True)):
        with contextlib.suppress(Nnet3Error):
            list(text_of_fst(fst_of_text(data, form), form))


def _read_symbols(data: bytes, path: Path) -> None:
    symbols_text(read_symbols(path))


def _read_windows(data: bytes, path: Path) -> None:
    hmm_transducer(read_windows(str(path)), read_object(str(DATA / "graphs" / "tree"), ContextDependency.read),
                   _transitions("graphs"))


def _read_arpa(data: bytes, path: Path) -> None:
    ids = {b"<eps>": 0, b"<s>": 1, b"</s>": 2}
    model = read_arpa(str(path), WordIds(ids, grow=True), Warner(0))
    for backoff in (0, 3):
        arpa_graph(model, Sentence(1, 2, backoff), Warner(0))


def _read_arpa_of_numbers(data: bytes, path: Path) -> None:
    build_const_arpa(read_arpa(str(path), WordIds(None), Warner(0)), 16, 17)


def _read_const_arpa(data: bytes, path: Path) -> None:
    model = ConstArpa.read(path)
    for word in range(-1, 20):
        model.log_prob([16, word, word], word)
        model.state([3, word])


def _read_fst_type(data: bytes, path: Path) -> None:
    """Read an FST of any type, with its tables of symbols, and use it as a G that is looked into where it lies."""
    with contextlib.suppress(Nnet3Error):
        GrammarTables.read(path).to_fst()
    with contextlib.suppress(Nnet3Error):
        table = SymbolTable.of_fst_file(path)
        if table is not None:
            table.text(list(table.names))
            for name in table.names.values():
                table[name]
    fst = read_fst_file(path)
    info_text(fst)
    list(text_of_fst(fst, TextForm()))
    symbols_of(fst)


def _read_lookahead(which: str) -> Callable[[bytes, Path], None]:
    """HCLr and Gr, one of them being the file: what a decoder composes of them."""
    def read(data: bytes, path: Path) -> None:
        other = path.with_name("other")
        other.write_bytes(_lookahead_files()["Gr" if which == "HCLr" else "HCLr"])
        files = (path, other) if which == "HCLr" else (other, path)
        LookaheadGraph.read(*files, _DISAMBIG, _transitions("decoding")).for_decoder().expand_first(_COMPOSED)

    return read


_DISAMBIG = [int(number) for number in (DATA / "decoding" / "disambig_tid.int").read_text().split()]
_COMPOSED = 300        # states


@functools.cache
def _lookahead_files() -> dict[str, bytes]:
    stream = io.BytesIO()
    write_lookahead(TokenWriter(stream, binary=True), read_fst_file(DATA / "decoding" / "HCL.fst"))
    return {"HCLr": stream.getvalue(), "Gr": written(trigram(3, words=10), "ngram")}


def _fst_type_samples() -> list[Sample]:
    found = [Sample("FST types", kind, written(FITTING[kind.partition("_")[2]], kind), _read_fst_type)
             for kind in COMPACT_KINDS]
    found += [Sample("FST types", kind, written(TRANSDUCER, kind), _read_fst_type) for kind in CONST_KINDS]
    ngrams = [with_symbols(trigram(seed), *tables) for seed, tables in enumerate(
        [(None, None), (WORDS, None), (None, WORDS), (WORDS, WORDS)])]
    found += [Sample("n-gram graph", f"n-gram model {number}", written(fst, "ngram"), _read_fst_type)
              for number, fst in enumerate(ngrams)]
    many = {f"w{number}".encode(): number for number in range(300)}
    tables = {"dense": with_symbols(TRANSDUCER, many, WORDS), "sparse": with_symbols(TRANSDUCER, WORDS, None)}
    found += [Sample("symbol tables", f"{name} {kind}", written(fst, kind), _read_fst_type)
              for name, fst in tables.items() for kind in ("vector", "const")]
    return [*found, *(Sample("look-ahead graph", name, data, _read_lookahead(name))
                      for name, data in _lookahead_files().items())]


def _graph_samples() -> list[Sample]:
    folder = DATA / "graphs"
    found = [Sample("graph", name, (folder / name).read_bytes(), _read_graph)
             for name in ("LG.fst", "HCLG.fst", "G-symbols.fst", "Ha.fst")]
    for kind, name, read in (("FST lines", "L_disambig.txt", _compile_fst), ("symbols", "words.txt", _read_symbols),
                             ("windows", "ilabels", _read_windows), ("ARPA", "bigram.arpa", _read_arpa),
                             ("ARPA", "trigram.int.arpa", _read_arpa_of_numbers),
                             ("const-ARPA", "G.carpa", _read_const_arpa)):
        found.append(Sample(kind, name, (folder / name).read_bytes(), read))
    return found


CACHED_CASES = ("tdnn-component", "dropout-test-mode", "statistics-pooling")    # with several kinds of row tables


def _read_cache(case: str) -> Callable[[bytes, Path], None]:
    """What a damaged cache lets pass is run, with rows of ones: a command must not reach beyond its matrices."""
    def read(data: bytes, path: Path) -> None:
        compiler, request = _compiler(case)
        compiler.read_cache(str(path))
        computation = compiler.compile(request)
        computer = nnet3py.Computer(computation, compiler.nnet, update=compiler.nnet.as_gradient())
        derivs = [spec for spec in request.outputs if spec.has_deriv]
        for specs, dim_of in ((request.inputs, compiler.nnet.input_dim), (derivs, compiler.nnet.output_dim)):
            for spec in specs:
                computer.accept_input(spec.name, np.ones((len(spec.indexes), dim_of(spec.name)), dtype=np.float32))
            computer.run()

    return read


def _compiler(case: str) -> Any:
    """A compiler with nothing in its cache, and the request of a case."""
    folder = DATA / "cases" / case
    return CachingCompiler(nnet3py.read_nnet(str(folder / "nnet.raw"))), read_request(folder / "request.txt")


def _cache(case: str, folder: Path) -> bytes:
    compiler, request = _compiler(case)
    compiler.compile(request)
    compiler.write_cache(str(folder / "cache"))
    return (folder / "cache").read_bytes()


def _both_forms(kind: str, path: Path, holder: Any) -> list[Sample]:
    """The archive as it is, and as text."""
    with tempfile.TemporaryDirectory() as folder, SequentialReader(f"ark:{path}", holder) as reader:
        write_table(f"ark,t:{folder}/text", holder, reader)
        text = Path(folder, "text").read_bytes()
    return [Sample(kind, name, data, _table(holder)) for name, data in (
        (f"{path.name} binary", path.read_bytes()), (f"{path.name} text", text))]


def _read_wave(data: bytes, path: Path) -> None:
    """The sound, how long it is, and whether its header says so; and what was read can be written."""
    has_stream_size(data[:4096])
    with contextlib.suppress(Nnet3Error):
        read_object(str(path), read_duration)
    wave = read_object(str(path), read_wave)
    assert wave.samples.size and np.isfinite(wave.samples).all()
    write_wave(TokenWriter(io.BytesIO(), True), wave)


def _wave_bytes(code: int, bits: int, channels: int = 1, order: str = "<", size: int | None = None,
                chunks: bytes = b"", extra: bytes = b"") -> bytes:
    """A WAVE file of random samples; ``size`` is what it says of them and of itself, if not the truth."""
    width = channels * bits // 8
    rng = np.random.default_rng(bits + channels)
    if code == 3:
        samples = rng.uniform(-1, 1, 60 * channels).astype(f"{order}f{bits // 8}").tobytes()
    else:
        samples = rng.bytes(60 * width)
    form = struct.pack(f"{order}HHIIHH", 0xFFFE if extra else code, channels, 16000, 16000 * width, width, bits) + extra
    body = (b"WAVEfmt " + struct.pack(f"{order}I", len(form)) + form + chunks
            + b"data" + struct.pack(f"{order}I", len(samples) if size is None else size) + samples)
    whole = struct.pack(f"{order}I", len(body) if size is None else size)
    return (b"RIFF" if order == "<" else b"RIFX") + whole + body


def _wave_samples() -> list[Sample]:
    extra = struct.pack("<HHIH", 22, 16, 3, 1) + b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"
    chunks = b"LIST\x07\0\0\0INFOISF\0fact\x04\0\0\0\x3c\0\0\0"
    long = b"ds64" + struct.pack("<IQQQI", 28, 300, 120, 60, 0)
    files = {f"{bits} bits": _wave_bytes(1, bits) for bits in (8, 16, 24, 32)}
    files |= {f"float {bits}": _wave_bytes(3, bits) for bits in (32, 64)}
    files |= {f"RIFX {bits}": _wave_bytes(1, bits, 2, ">") for bits in (16, 24)}
    files |= {f"stream {size:x}": _wave_bytes(1, 16, size=size) for size in (0, 0x7FFFFFFF, 0xFFFFFFFF)}
    files |= {"stereo": _wave_bytes(1, 16, 2), "extensible": _wave_bytes(1, 16, 2, extra=extra),
              "extra chunks": _wave_bytes(1, 16, chunks=chunks), "cut": _wave_bytes(1, 16)[:-31],
              "RF64": b"RF64" + _wave_bytes(1, 16, size=0xFFFFFFFF, chunks=long)[4:]}
    found = [Sample("wave", name, data, _read_wave) for name, data in files.items()]
    archive = b"".join(b"u%d " % number + files[name] for number, name in enumerate(("16 bits", "8 bits", "stereo")))
    return [*found, Sample("wave", "archive", archive, _table(WAVE))]


_EDITS = b"""set-learning-rate name=a* learning-rate=0.01
set-learning-rate-factor name=o learning-rate-factor=0.5
rename-node old-name=bn new-name=b2
remove-output-nodes name=extra*
set-dropout-proportion name=* proportion=0.5
apply-svd name=a bottleneck-dim=2 shrinkage-threshold=0.9
reduce-rank name=o rank=3
convert-to-fixed-affine name=o
remove-orphans
"""
_SPECIFIERS = ("ark,s,cs,t:a/b.ark", "scp,p:feats.scp", "ark,scp:a.ark,b.scp", "ark:gzip -c x |", "scp,bg,o:x[0:5]",
               "ark,t,f:-", "[0:5,3:7]", "x.ark:1234[1:2]", "none")


def every_type_config() -> Iterator[tuple[str, str]]:
    """(name, config) for each form of each component type: a network of that one component."""
    for type_name in sorted(set(CONFIGS) & set(COMPONENT_MODULES)):
        for number, line in enumerate(CONFIGS[type_name]):
            component = component_class(type_name).from_config(ConfigLine(line), np.random.default_rng(0))
            yield f"{type_name}{number}", (f"input-node name=input dim={component.input_dim}\n"
                                           f"component name=c type={type_name} {line}\n"
                                           "component-node name=c component=c input=input\n"
                                           "output-node name=output input=c\n")


@functools.cache
def samples() -> tuple[Sample, ...]:
    """Every kind of file, in binary and in text where it has both."""
    files = good_files()
    found = [Sample("config", "config", files["config"], _read_config), Sample("edits", "edits", _EDITS, _apply_edits)]
    found += [Sample("specifier", text, text.encode(), _read_specifier) for text in _SPECIFIERS]
    for name, config in every_type_config():
        found.append(Sample("config", name, config.encode(), _read_config))
        for binary in (True, False):
            stream = io.BytesIO(b"\0B" if binary else b"")
            stream.seek(0, io.SEEK_END)
            Nnet.from_config(config).write_to(TokenWriter(stream, binary))
            found.append(Sample("model", f"{name} {'binary' if binary else 'text'}", stream.getvalue(), _read_model,
                                _use_model))
    found += [Sample("model", name, files[name], _read_model, _use_model) for name in ("raw", "raw.txt")]
    found.append(Sample("acoustic model", "mdl", files["mdl"], _read_acoustic_model))
    found += [Sample("matrices", name, files[name], _table(GENERAL_MATRIX)) for name in ("feats", "cfeats")]
    found.append(Sample("matrices", "feats.txt", files["feats.txt"], _table(FLOAT_MATRIX)))
    found += [Sample("examples", name, files[name], _table(EXAMPLE)) for name in ("egs", "uegs", "megs", "egs.txt")]
    found.append(Sample("labels", "ali", files["ali"], _table(INT_VECTOR)))
    found.append(Sample("posteriors", "post", files["post"], _table(POSTERIOR)))
    found.append(Sample("tree", "tree", files["tree"], _object(ContextDependency)))
    found.append(Sample("topology", "topo", files["topo"], _object(HmmTopology)))
    found.append(Sample("transition model", "trans.mdl", files["trans.mdl"],
                        _object(TransitionModel)))
    found += _both_forms("examples", DATA / "egs" / "chain.ark", CHAIN_EXAMPLE)
    found += _both_forms("examples", DATA / "egs" / "sup.ark", SUPERVISION)
    found += _both_forms("examples", DATA / "egs" / "discriminative.ark", DISCRIMINATIVE_EXAMPLE)
    found.append(Sample("FST", "den.fst", (DATA / "io" / "den.fst").read_bytes(), _read_fst))
    found.append(Sample("LDA statistics", "lda.acc", (DATA / "io" / "lda.acc").read_bytes(),
                        _object(LdaStats)))
    with tempfile.TemporaryDirectory() as folder:
        found += [Sample("cache", case, _cache(case, Path(folder)), _read_cache(case)) for case in CACHED_CASES]
    script = "".join(f"u{i} {DATA / 'io' / name}{part}\n" for i, (name, part) in enumerate(
        [("feats.ark", ":5"), ("feats.ark", ":5[0:3]"), ("absent.ark", "")])).encode()
    found.append(Sample("script", "scp", script, _table(GENERAL_MATRIX, "scp")))
    for name, data, read in lattice_archives():
        found.append(Sample("lattices", name, data, read, use_lattices))
    found += [Sample("words' phones", name, (LATTICE_DATA / "data" / name).read_bytes(), read_words)
              for name in ("word_boundary.int", "align_lexicon.int")]
    return tuple(found + _graph_samples() + _fst_type_samples() + _wave_samples())
