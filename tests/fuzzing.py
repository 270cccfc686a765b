"""Damaged files for the fuzz test, and the judge of what reading them does.

Whatever a file, a config or a specifier holds, reading it returns or raises an Nnet3Error, soon, and without asking for
more memory than a few times the file. What is damaged: ``fuzz_samples.py``; how: ``fuzz_mutations.py``.
"""
from __future__ import annotations

import contextlib
import signal
import tempfile
import tracemalloc
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from fuzz_mutations import MUTATIONS
from fuzz_samples import Sample, samples
from hypothesis import strategies as st

from nnet3py.errors import FormatError, Nnet3Error

SECONDS = 10                # of computing; reading a few kilobytes takes milliseconds
SECONDS_BY_THE_CLOCK = 120  # for what waits, and for a busy machine
TIMES_THE_FILE = 20         # text of two bytes may stand for a Python number of 32 and an array element of 8
SLACK = 4 << 20             # bytes that reading anything may take: buffers, a component's fixed state
CONFIG_MEMORY = 512 << 20   # bytes beyond what the process has when it reads a config, whose dimensions are requests

WEIGHTS = {"model": 12, "config": 5, "examples": 4, "matrices": 2, "cache": 2}    # kinds of many forms come more often
# kinds in which no "|" can start a command
NO_COMMANDS = ("model", "matrices", "examples", "FST", "cache", "graph", "ARPA", "const-ARPA", "windows",
               "FST types", "n-gram graph", "symbol tables", "look-ahead graph")


def _strange_integer() -> st.SearchStrategy[int]:
    return st.integers(0, 2**32 - 1)


def damaged_samples(only: Collection[str] = ()) -> st.SearchStrategy[tuple[Sample, bytes]]:
    """A sample and its content after one to four mutations. Commands are never made of it: no ``|`` in names.

    ``only``: of these kinds; empty: of all.
    """
    steps = st.lists(st.tuples(st.sampled_from(MUTATIONS), _strange_integer(), _strange_integer()),
                     min_size=1, max_size=4)
    return st.tuples(_weighted_samples(only), steps).map(lambda drawn: (drawn[0], mutated(*drawn)))


def _weighted_samples(only: Collection[str]) -> st.SearchStrategy[Sample]:
    """A sample: first its kind, then which of that kind."""
    by_kind: dict[str, list[Sample]] = {}
    for sample in samples():
        if not only or sample.kind in only:
            by_kind.setdefault(sample.kind, []).append(sample)
    kinds = [kind for kind in by_kind for _ in range(WEIGHTS.get(kind, 1))]
    return st.sampled_from(kinds).flatmap(lambda kind: st.sampled_from(by_kind[kind]))


def mutated(sample: Sample, steps: list[tuple[Callable[[bytes, int, int], bytes], int, int]]) -> bytes:
    """The sample's content after these mutations."""
    data = sample.data
    for mutation, a, b in steps:
        data = mutation(data, a, b)
    return data if sample.kind in NO_COMMANDS else data.replace(b"|", b"!")


# -- the judge -------------------------------------------------------------------------------------------------------


class Hang(BaseException):
    """Reading took longer than it may."""


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    """Raises Hang in the block after too many seconds; where there are no alarms (Windows), no limit."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: Any) -> None:
        raise Hang

    alarms = ((signal.SIGPROF, signal.ITIMER_PROF, SECONDS), (signal.SIGALRM, signal.ITIMER_REAL, SECONDS_BY_THE_CLOCK))
    before = [signal.signal(number, stop) for number, _, _ in alarms]
    for _, timer, seconds in alarms:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(alarms, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


@contextlib.contextmanager
def memory_limit(size: int) -> Iterator[None]:
    """Requests of memory that would take ``size`` bytes more than now fail in the block (on Linux)."""
    try:
        import resource

        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def judge(sample: Sample, data: bytes, folder: Path, trace_memory: bool = True) -> Nnet3Error | None:
    """Read the content: returns the error that was rightly raised, or None; AssertionError for anything else.

    Without ``trace_memory`` it is quicker, and memory is only limited.
    """
    path = folder / "fuzzed"
    path.write_bytes(data)
    error: Nnet3Error | None = None
    peak = 0
    if trace_memory:
        tracemalloc.start()
    try:
        with time_limit(), memory_limit(CONFIG_MEMORY):
            value = sample.read(data, path)
            peak = tracemalloc.get_traced_memory()[1]
            if sample.use is not None:
                sample.use(value)
    except Nnet3Error as found:
        error = found
    except Hang:
        raise AssertionError(f"{sample.name}: reading took longer than {SECONDS} s") from None
    except Exception as found:
        raise AssertionError(f"{sample.name}: {type(found).__name__} instead of an Nnet3Error: {found}") from found
    finally:
        peak = peak or tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if sample.kind not in ("config", "edits"):
        allowed = TIMES_THE_FILE * max(len(data), len(sample.data)) + SLACK
        if peak > allowed:      # zeros that nobody has written to are counted, although they take no memory yet
            peak = min(peak, touched_memory(sample, data, path))
        assert peak <= allowed, f"{sample.name}: {peak} bytes of memory for a file of {len(data)}"
    if error is not None:
        assert error.message.strip(), f"{sample.name}: an error without a message"
        if isinstance(error, FormatError) and sample.kind == "model":
            assert error.path == str(path) and error.offset is not None, f"{sample.name}: no place in: {error}"
    return error


def touched_memory(sample: Sample, data: bytes, path: Path) -> int:
    """The most memory that reading really takes, in bytes; where the system does not tell (not Linux), as good as 0."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        before = _resident_peak()
    except OSError:
        return 0
    with contextlib.suppress(Nnet3Error):
        sample.read(data, path)
    return _resident_peak() - before


def _resident_peak() -> int:
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def warm_up(folder: Path) -> None:
    """Read every sample as it is: good ones are accepted, and what is imported on first use does not count later."""
    for sample in samples():
        if sample.kind != "script":
            found = judge_untimed(sample, folder)
            assert found is None or sample.kind == "specifier", f"{sample.name}: {found}"


def judge_untimed(sample: Sample, folder: Path) -> Nnet3Error | None:
    """Read a sample as it is, with no limits."""
    path = folder / "fuzzed"
    path.write_bytes(sample.data)
    try:
        sample.read(sample.data, path)
    except Nnet3Error as error:
        return error
    return None


@contextlib.contextmanager
def fuzz_folder() -> Iterator[Path]:
    """A folder for the damaged files, in memory where there is such a place."""
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield Path(folder)
