"""Where the time of one command goes: a command run with timers around what it is made of.

    cpu_parts.clock RESULT STARTED PROGRAM ARGUMENTS...   (profile_text.py starts it)

runs PROGRAM in this process and writes what the timers counted to RESULT as JSON; STARTED is the time (of time.time)
at which the process was started. Times are exclusive: what a timer's inner timers count is not counted again.

Operations are timed as attributes of the ops object, which is how everything reaches them. What a step along the
natural gradient costs beyond the plain gradient's own product is told apart by the shapes of that product.
"""
from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

# (module, attribute or Class.method, kind); the kinds are explained in profile_text.py
PLACES = (
    ("nnet3py.compiler.cache", "CachingCompiler.compile", "compile"),
    ("nnet3py.runtime.binding", "BoundComputation._bind", "bind"),
    ("nnet3py.runtime.computer", "Computer.run", "overhead"),
    ("nnet3py.runtime.computer", "Computer.accept_input", "input and output"),
    ("nnet3py.runtime.computer", "Computer.output", "input and output"),
    ("nnet3py.training.max_change", "update_with_max_change", "max-change"),
    ("nnet3py.network.whole_model", "constrain_orthonormal", "orthonormal"),
    ("nnet3py.training.trainer", "MinibatchTrainer._apply_l2", "l2"),
    ("nnet3py.training.objectives", "compute_objective", "objective"),
    ("nnet3py.network.model_file", "read_nnet", "model files"),
    ("nnet3py.network.nnet", "Nnet.write", "model files"),
    ("nnet3py.network.inference", "prepare_for_test", "model files"),
    ("nnet3py.io.tables", "TableWriter.write", "reading and writing"),
)
GRADIENT = ("nnet3py.components.natural_gradient", "natural_gradient_step")
ITERATED = (("nnet3py.io.tables", "SequentialReader.__iter__", "reading and writing"),
            ("nnet3py.egs.example", "read_egs", "reading and writing"))
PRODUCTS = "products"       # the family of ops/table.py
CALIBRATION = 20_000        # calls that find out what a timer costs


class Clock:
    """Exclusive times by kind and name, of one thread; operations of other threads are counted as background.

    A record holds calls, seconds, and work: the operations of products, the bytes of elementwise operations' matrices.
    """

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[float]] = {}    # by kind and name
        self._inner = [0.0]             # seconds of the timers inside each open one; the outermost is the process
        self._thread = threading.get_ident()
        self._gradients: list[tuple[int, int, set[int]]] = []    # of open steps: rows, output dim, dims of the parts
        self.num_commands = 0
        self.num_timers = 0
        self.arena_bytes = 0
        self.bytes_before = 0       # held at most before anything was run

    def add(self, kind: str, name: str, seconds: float, work: float = 0.0) -> None:
        """Count a call."""
        record = self.records.setdefault((kind, name), [0, 0.0, 0.0])
        record[0] += 1
        record[1] += seconds
        record[2] += work

    def timed(self, function: Callable[..., Any], label: Callable[..., tuple[str, str, float]]) -> Callable[..., Any]:
        """``function`` with a timer; ``label`` gives kind, name and work for its arguments."""
        def call(*args: Any, **named: Any) -> Any:
            if threading.get_ident() != self._thread:
                return self._in_background(function, label, args, named)
            kind, name, work = label(*args, **named)
            self._inner.append(0.0)
            self.num_timers += 1
            start = time.perf_counter()
            try:
                return function(*args, **named)
            finally:
                elapsed = time.perf_counter() - start
                self.add(kind, name, elapsed - self._inner.pop(), work)
                self._inner[-1] += elapsed
        return call

    def _in_background(self, function: Callable[..., Any], label: Callable[..., tuple[str, str, float]],
                       args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        start = time.perf_counter()
        result = function(*args, **named)
        self.add("background", label(*args, **named)[1], time.perf_counter() - start)
        return result

    def iterated(self, function: Callable[..., Iterable[Any]], kind: str, name: str) -> Callable[..., Iterator[Any]]:
        """A function that gives an iterator, with a timer around each of its steps."""
        end = object()

        def call(*args: Any, **named: Any) -> Iterator[Any]:
            step = self.timed(lambda steps: next(steps, end), lambda steps: (kind, name, 0.0))
            steps = iter(function(*args, **named))
            while (item := step(steps)) is not end:
                yield item
        return call

    # -- operations ------------------------------------------------------------------------------------------------

    def operation(self, name: str, family: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """An operation with a timer."""
        label = self._product_label if family == PRODUCTS else self._other_label
        return self.timed(function, lambda *args, **named: label(name, args, named))

    def _product_label(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[str, str, float]:
        dst, spliced = args[0], name == "spliced_affine"
        m, n = (dst.shape[0], dst.shape[1]) if len(dst.shape) == 2 else (dst.shape[0], 1)
        k = args[3].shape[1] if spliced else args[1].size // m if m else 0
        kind = "natural gradient" if self._gradients and not self._is_gradient(m, n, k) else "products"
        flags = () if spliced else (
            *args[5:7], *(named.get(flag, False) for flag in ("trans_a", "trans_b")[max(len(args) - 5, 0):]))
        return kind, f"{name} {m} x {k} x {n} {''.join('NT'[bool(flag)] for flag in flags)}", 2.0 * m * n * k

    def _other_label(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[str, str, float]:
        if self._gradients:
            return "natural gradient", name, 0.0
        return "elementwise", name, sum(arg.nbytes for arg in args if getattr(arg, "ndim", 0) == 2)

    def _is_gradient(self, m: int, n: int, k: int) -> bool:
        """Whether a product has the shape of the gradient's own: output dim x rows x the dim of a part."""
        rows, dim_out, dims = self._gradients[-1]
        return k == rows and ((m == dim_out and n in dims) or (n == dim_out and m in dims))

    def gradient_step(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``natural_gradient_step`` with a timer; it notes the shape of the plain gradient."""
        inside = self.timed(function, lambda *args, **named: ("natural gradient", "between its operations", 0.0))

        def call(*args: Any, **named: Any) -> Any:
            parts, dy = args[6], args[7]
            self._gradients.append((dy.shape[0], dy.shape[1], {part.shape[1] for part in parts}))
            try:
                return inside(*args, **named)
            finally:
                self._gradients.pop()
        return call

    # -- the whole -------------------------------------------------------------------------------------------------

    def cost_of_timers(self) -> float:
        """Seconds that a timer adds to what is around it, found by calling nothing many times."""
        other = Clock()
        nothing = other.operation("nothing", "", lambda *args: None)
        start = time.perf_counter()
        for _ in range(CALIBRATION):
            nothing(None, None, 1.0)
        return max((time.perf_counter() - start - other.records["elementwise", "nothing"][1]) / CALIBRATION, 0.0)


def install(clock: Clock) -> None:
    """Put timers in; imports are timed as well, so this is done before nnet3py is imported."""
    import builtins

    def label(name: str, *args: Any, **named: Any) -> tuple[str, str, float]:
        return "imports", name.split(".")[0] or "relative", 0.0

    plain, timed = builtins.__import__, clock.timed(builtins.__import__, label)

    def importing(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        is_new = level > 0 or name not in sys.modules
        return (timed if is_new else plain)(name, globals, locals, fromlist, level)

    builtins.__import__ = importing
    layer, step = import_module(GRADIENT[0]), GRADIENT[1]      # before the layers take it from there
    setattr(layer, step, clock.gradient_step(getattr(layer, step)))
    for module, path, kind in PLACES:
        owner, attribute, function = find(module, path)
        setattr(owner, attribute, clock.timed(function, _constant(kind, path)))
    for module, path, kind in ITERATED:
        owner, attribute, function = find(module, path)
        setattr(owner, attribute, clock.iterated(function, kind, path))
    _install_operations(clock)
    _install_counter(clock)


def find(module: str, path: str) -> tuple[Any, str, Callable[..., Any]]:
    """The owner, name and value of a function of a module, or of a method of one of its classes."""
    owner: Any = import_module(module)
    *outer, attribute = path.split(".")
    for name in outer:
        owner = getattr(owner, name)
    return owner, attribute, getattr(owner, attribute)


def _constant(kind: str, name: str) -> Callable[..., tuple[str, str, float]]:
    return lambda *args, **named: (kind, name, 0.0)


def _install_operations(clock: Clock) -> None:
    from nnet3py.ops.cpu import CpuOps
    from nnet3py.ops.table import FAMILY_OF

    load = clock.timed(CpuOps.__getattr__, _constant("kernels", "found and loaded"))

    def get(self: Any, name: str) -> Any:
        operation = load(self, name)
        if name in FAMILY_OF:
            operation = clock.operation(name, FAMILY_OF[name], operation)
            setattr(self, name, operation)
        return operation

    CpuOps.__getattr__ = get   # type: ignore[method-assign]


def _install_counter(clock: Clock) -> None:
    """Count the calls of the stages that are run; note the memory held before, and the largest arena."""
    from nnet3py.runtime.computer import Computer

    timed_run = Computer.run

    def run(self: Any) -> None:
        clock.bytes_before = clock.bytes_before or peak_bytes()
        timed_run(self)
        clock.num_commands += len(self._stage.calls)
        clock.arena_bytes = max(clock.arena_bytes, self._bound.arena.buffer.nbytes)

    Computer.run = run   # type: ignore[method-assign]


def peak_bytes() -> int:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Run a command and write what was counted."""
    result, started, program, *words = sys.argv[1:]
    start = time.time() - float(started)
    clock = Clock()
    cost = clock.cost_of_timers()
    install(clock)
    from nnet3py import log
    from nnet3py.cli.main import collect_rarely, load

    collect_rarely()
    log.set_program(program)
    status = load(program).execute(words)
    total = time.time() - float(started)
    rows = [(kind, name, *record) for (kind, name), record in clock.records.items()]
    peak = {"before": clock.bytes_before, "end": peak_bytes(), "arena": clock.arena_bytes}
    Path(result).write_text(json.dumps({"total": total, "start": start, "commands": clock.num_commands, "rows": rows,
                                        "timers": clock.num_timers, "cost": cost, "memory": peak}), encoding="utf-8")
    sys.exit(status or 0)


if __name__ == "__main__":
    main()
