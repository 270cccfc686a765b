"""The card in place of a card: that it notices what a real one would punish, and that networks compute on it."""
from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from card_driver import CAPTURING, IMPLICIT, LEGACY, Driver
from card_hardware import ILLEGAL, INVALID, Refused
from cuda_checks import check_ptx

TESTS = Path(__file__).resolve().parent


class Calls:
    """The driver's functions as a program calls them; ``status`` is what the last one returned."""

    def __init__(self) -> None:
        self.driver, self.status = Driver(), 0

    def __call__(self, name: str, *args: int) -> None:
        self.status = self.driver.callbacks[name](*args)

    def made(self, name: str, *args: int) -> int:
        """What a function writes to its first argument."""
        result = ctypes.c_size_t()
        self(name, ctypes.addressof(result), *args)
        assert self.status == 0
        return result.value

    def on_card(self, address: int) -> int:
        """The byte that is there now, whatever waits."""
        return int(self.driver.memory.part(address, 1)[0])


@pytest.fixture
def call() -> Calls:
    return Calls()


def pinned(call: Calls, size: int = 4) -> np.ndarray:
    """Memory of the host that copies use later."""
    address = call.made("cuMemHostAlloc", size, 0)
    return np.frombuffer((ctypes.c_ubyte * size).from_address(address), np.uint8)


def test_a_copy_from_pinned_memory_reads_it_later(call: Calls) -> None:
    source, dst, stream = pinned(call), call.made("cuMemAlloc", 4), call.made("cuStreamCreate", 1)
    source[:] = 1
    call("cuMemcpyHtoDAsync", dst, source.ctypes.data, 4, stream)
    source[:] = 2
    assert call.on_card(dst) == 255, "nobody has waited"
    call("cuStreamSynchronize", stream)
    assert call.on_card(dst) == 2


def test_a_copy_from_other_memory_has_read_it(call: Calls) -> None:
    source, dst, stream = np.ones(4, np.uint8), call.made("cuMemAlloc", 4), call.made("cuStreamCreate", 1)
    call("cuMemcpyHtoDAsync", dst, source.ctypes.data, 4, stream)
    source[:] = 2
    call("cuStreamSynchronize", stream)
    assert call.on_card(dst) == 1


def test_a_copy_to_pinned_memory_comes_when_its_event_is_waited_for(call: Calls) -> None:
    target, src, stream = pinned(call), call.made("cuMemAlloc", 4), call.made("cuStreamCreate", 1)
    event = call.made("cuEventCreate", 0)
    call("cuMemsetD8Async", src, 3, 4, stream)
    call("cuMemcpyDtoHAsync", target.ctypes.data, src, 4, stream)
    call("cuEventRecord", event, stream)
    call("cuMemsetD8Async", src, 4, 4, stream)
    assert target[0] == 255
    call("cuEventSynchronize", event)
    assert (target[0], call.on_card(src)) == (3, 3), "what came after the event still waits"


def test_a_stream_that_waits_for_another(call: Calls) -> None:
    src, first, second = call.made("cuMemAlloc", 4), call.made("cuStreamCreate", 1), call.made("cuStreamCreate", 1)
    event, dst = call.made("cuEventCreate", 0), call.made("cuMemAlloc", 4)
    call("cuMemsetD8Async", src, 5, 4, first)
    call("cuEventRecord", event, first)
    call("cuStreamWaitEvent", second, event, 0)
    call("cuMemcpyDtoDAsync", dst, src, 4, second)
    call("cuStreamSynchronize", second)
    assert call.on_card(dst) == 5


def test_memory_that_is_not_allocated_is_refused(call: Calls) -> None:
    address = call.made("cuMemAlloc", 8)
    call("cuMemsetD8", address, 0, 9)
    assert call.status == ILLEGAL
    call("cuMemFree", address)
    call("cuMemsetD8", address, 0, 8)
    assert call.status == ILLEGAL
    call("cuMemFree", address)
    assert call.status == INVALID


def test_what_may_not_be_captured(call: Calls) -> None:
    address, stream = call.made("cuMemAlloc", 4), call.made("cuStreamCreate", 1)
    unpinned = np.zeros(4, np.uint8)
    call("cuStreamBeginCapture", stream, 2)
    for name, args, status in (("cuStreamSynchronize", (stream,), CAPTURING),
                               ("cuStreamBeginCapture", (stream, 2), CAPTURING),
                               ("cuMemcpyDtoHAsync", (unpinned.ctypes.data, address, 4, stream), CAPTURING),
                               ("cuMemsetD8", (address, 0, 4), IMPLICIT), ("cuMemFree", (address,), IMPLICIT),
                               ("cuMemsetD8Async", (address, 0, 4, LEGACY), IMPLICIT)):
        call(name, *args)
        assert call.status == status, name


def test_a_graph_does_again_what_was_captured(call: Calls) -> None:
    source, dst, stream = pinned(call), call.made("cuMemAlloc", 4), call.made("cuStreamCreate", 1)
    call("cuStreamBeginCapture", stream, 2)
    call("cuMemcpyHtoDAsync", dst, source.ctypes.data, 4, stream)
    graph = ctypes.c_size_t()
    call("cuStreamEndCapture", stream, ctypes.addressof(graph))
    executable = call.made("cuGraphInstantiateWithFlags", graph.value, 0)
    call("cuStreamSynchronize", stream)
    assert call.on_card(dst) == 255, "it was not run"
    for value in (7, 8):
        source[:] = value
        call("cuGraphLaunch", executable, stream)
        call("cuStreamSynchronize", stream)
        assert call.on_card(dst) == value


@pytest.mark.parametrize("wrong", ["count", "place", None])
def test_a_launchs_arguments(call: Calls, wrong: str | None) -> None:
    from nnet3py.engine.kinds import kinds_of

    kernels, address = call.driver.kernels, call.made("cuMemAlloc", 24)
    numbers: list[Any] = [ctypes.c_int64(n) for n in (0, 0, 6, 4, address, 2, 3, 12, 4)] + [ctypes.c_float(0.5)]
    if wrong:
        numbers[2 if wrong == "count" else 4].value += 4
    params = (ctypes.c_void_p * len(numbers))(*map(ctypes.addressof, numbers))

    def read() -> list[Any]:
        found = kernels.arguments(kinds_of("mat f32"), ctypes.addressof(params))
        kernels.check(found)
        return found

    if wrong:
        with pytest.raises(Refused, match="24|10 elements|not allocated"):
            read()
    else:
        assert read() == [("array", address - call.driver.memory.start, (2, 3), (12, 4), "<f4"), np.float32(0.5)]


def output_of(*words: str) -> str:
    """What Python prints, in a process of its own that may have a card."""
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("the driver's library is made for Linux, by a C compiler")
    from nnet3py.ops.cuda import elementwise
    check_ptx(elementwise, "copy_mat", (7, 5))       # skips where there is no NVVM
    done = subprocess.run(
        [sys.executable, *words], cwd=TESTS.parent, capture_output=True, text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        | {"PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_on_the_card(*words: str) -> tuple[int, int, int]:
    """Tests that passed, kernels that were launched, and launches of graphs."""
    printed = output_of("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "card_driver", "-p",
                        "gpu_device", *words)
    passed, kernels, graphs = (int(re.search(pattern, printed)[1]) for pattern in (      # type: ignore[index]
        r"(\d+) passed", r"kernels launched: (\d+)", r"graphs: (\d+)"))
    return passed, kernels, graphs


def test_training_on_the_card() -> None:
    """With numba's real CUDA target: compiled kernels, copies that come late, graphs."""
    passed, kernels, graphs = run_on_the_card("tests/test_trainer.py", "tests/test_chain_trainer.py", "-k",
                                              "fade or seed_makes or masks or changing or improves_the_objective")
    assert passed >= 10 and kernels >= 25 and graphs >= 90


TRAINING = """
import sys
sys.path.append("benchmarks")
import card_driver
card = card_driver.install()
from gpu_parts.nets import TINY, minibatch, tdnnf
from nnet3py import Nnet
from nnet3py.training.trainer import NnetTrainer
from nnet3py.training.options import TrainerOptions
nnet = Nnet.from_config(tdnnf(TINY), seed=1)
trainer = NnetTrainer(nnet, TrainerOptions(device="cuda"))
for number in range(6):
    before = card.calls["cuStreamSynchronize"], card.num_graph_launches
    trainer.train(minibatch(nnet, TINY, number))
    waiting = sum(len(stream.waiting) for stream in card.streams.values())
    counted = trainer.objectives["output"].total_weight if trainer.objectives else 0
    print(card.calls["cuStreamSynchronize"] - before[0], card.num_graph_launches - before[1], waiting, counted)
trainer.synchronize()
print(trainer.objectives["output"].total_weight)
"""


def test_a_minibatch_does_not_wait_for_the_card() -> None:
    """Once its graphs are there: it is queued, and the numbers of the one before are read meanwhile."""
    *_, last, end = output_of("-c", TRAINING).splitlines()
    synchronized, graphs, waiting, counted = map(float, last.split())
    assert synchronized == 0 and 1 <= graphs <= 4 and waiting > 10
    assert counted / float(end) == 5 / 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["computer", "trainer", "chain_trainer", "batch", "xvectors", "diagnostics"])
def test_networks_on_the_card(name: str) -> None:
    passed, kernels, graphs = run_on_the_card(f"tests/test_{name}.py")
    assert passed >= 5 and kernels >= 7 and graphs >= 5
