"""The thread team's own source, run in all orders in which its threads' steps can follow each other.

The functions of ``engine/team_code.py`` become generators that stop before each step on memory that the threads share:
each peek, poke, add and swap, which are one atomic step in compiled code, too, each byte through the pipe, and the
beginning and the end of each chunk of work. A state is the shared memory with the places and variables of all threads;
:func:`explore` visits every state that can be reached, and says what is wrong in any; :func:`walk` follows one order,
for worlds of too many states.
"""
from __future__ import annotations

import ast
import inspect
import random
from array import array
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nnet3py.engine import team_code

STEPS = ("peek", "poke", "add", "swap", "relax", "give_way", "read_byte", "write_byte", "call_part")
FUNCTIONS = ("_chunk_size", "_run_shared", "_share", "_wait_for_workers", "_wake", "_run_chunk",
             "_take_first", "_take_last", "_enter", "_sleep", "serve")
STAYS = 0.5                 # how likely the thread of a step takes the next one, too, in a walk
UNITS = 2                   # rows of a chunk; each row's work is enough for a thread
Step = tuple[Any, ...]


class _Stepwise(ast.NodeTransformer):
    """Calls of STEPS become yields of what is called, calls of FUNCTIONS go on inside them."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in STEPS:
            return ast.Yield(ast.Tuple([ast.Constant(name), *node.args], ast.Load()))
        return ast.YieldFrom(node) if name in FUNCTIONS else node


def stepwise(change: tuple[str, str] = ("", "")) -> dict[str, Any]:
    """The functions as generators; in their source the first text of ``change`` is replaced by the second."""
    source = inspect.getsource(team_code)
    assert change[0] in source
    tree = ast.parse(source.replace(*change) if change[0] else source)
    body: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in FUNCTIONS:
            node.decorator_list = []
            body.append(_Stepwise().visit(node))
    names = {name: value for name, value in vars(team_code).items() if isinstance(value, int)}
    names.update(LEAST_WORK=1, _part_of=team_code._part_of.py_func)
    exec(compile(ast.fix_missing_locations(ast.Module(body, [])), team_code.__file__, "exec"), names)
    return names


@dataclass
class World:
    """What the threads share, and who they are: ``jobs`` of each caller, in chunks, and some workers."""

    functions: dict[str, Any]
    jobs: tuple[tuple[int, ...], ...]
    num_workers: int
    words: dict[int, int] = field(default_factory=dict)
    bytes_in_pipe: int = 0
    done: dict[tuple[int, int], int] = field(default_factory=dict)      # how often a job's chunk was done
    threads: list[Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.words = dict.fromkeys(range(64), 0)
        self.words[team_code.WATCH] = 1
        self.words[team_code.LIMIT], self.words[team_code.WORKERS] = 1 + self.num_workers, self.num_workers
        callers = [Thread(self, self._call(number, jobs)) for number, jobs in enumerate(self.jobs)]
        self.threads = callers + [Thread(self, self.functions["serve"](i)) for i in range(self.num_workers)]

    def _call(self, number: int, jobs: tuple[int, ...]) -> Generator[Step, Any, None]:
        """What a caller does: one job after the other, each of which must be done when its call returns."""
        for place, chunks in enumerate(jobs):
            job = 100 * (number + 1) + place
            per_thread = -(-chunks // (1 + self.num_workers))
            yield from self.functions["_share"](job, job, chunks * UNITS, 4, UNITS, per_thread)
            yield ("returned", job, sum(count for (one, _), count in self.done.items() if one == job))

    def key(self) -> int:
        """What tells states apart: two of some millions share these 64 bits once in millions of explorations."""
        return hash((tuple(self.words.values()), self.bytes_in_pipe, frozenset(self.done.items()),
                     tuple(thread.key() for thread in self.threads)))


class Thread:
    """A generator and the step that it takes next."""

    def __init__(self, world: World, generator: Generator[Step, Any, None]) -> None:
        self.world, self.generator = world, generator
        self.received: dict[tuple[str, int], Any] = {}      # by place: what may lie on the frame's stack of values
        self.next: Step | None = None
        self._advance(None)

    def _frames(self) -> list[Any]:
        frames, generator = [], self.generator
        while generator is not None and generator.gi_frame is not None:
            frames.append(generator.gi_frame)
            generator = generator.gi_yieldfrom      # type: ignore[assignment]
        return frames

    def _advance(self, value: Any) -> None:
        frames = self._frames()
        if frames and self.next is not None:
            self.received[frames[-1].f_code.co_name, frames[-1].f_lasti] = value
        try:
            self.next = self.generator.send(value)
        except StopIteration:
            self.next = None
        alive = {frame.f_code.co_name for frame in self._frames()}
        self.received = {place: what for place, what in self.received.items() if place[0] in alive}

    def key(self) -> Hashable:
        """Where it is, and all that it knows."""
        frames = tuple((frame.f_code.co_name, frame.f_lasti, tuple(
            (name, value) for name, value in frame.f_locals.items() if isinstance(value, int)))
            for frame in self._frames())
        return frames, frozenset(self.received.items()), self.next

    def can_go_on(self) -> bool:
        """False for who has ended, and who waits for a byte."""
        return self.next is not None and (self.next[0] != "read_byte" or self.world.bytes_in_pipe > 0)

    def step(self) -> None:
        """Take the next step; AssertionError if that breaks what the team promises."""
        world, words = self.world, self.world.words
        assert self.next is not None
        kind, *args = self.next
        value: Any = None
        if kind == "peek":
            value = words[args[0]]
        elif kind == "poke":
            words[args[0]] = args[1]
        elif kind == "add":
            value, words[args[0]] = words[args[0]], words[args[0]] + args[1]
        elif kind == "swap":
            value = words[args[0]] == args[1]
            if value:
                words[args[0]] = args[2]
        elif kind == "write_byte":
            world.bytes_in_pipe += 1
        elif kind == "read_byte":
            value = 1
            world.bytes_in_pipe -= 1
        elif kind == "call_part":
            function, arguments, first, last = args
            assert function == arguments, f"a chunk of job {function} with the arguments of job {arguments}"
            self.next = ("end_part", function, first, last)
            return
        elif kind == "end_part":
            job, first, last = args
            for unit in range(first, last):
                assert (job, unit) not in world.done, f"row {unit} of job {job} is done twice"
                world.done[job, unit] = 1
        elif kind == "returned":
            job, count = args
            wanted = world.jobs[job // 100 - 1][job % 100] * UNITS
            assert count == wanted, f"job {job} returned with {count} of {wanted} rows done"
        self._advance(value)


def explore(make: Callable[[], World], most_states: int) -> int:
    """Visit every state that can be reached; their number.

    Raises AssertionError for a state that breaks a promise, or from which the callers cannot come to their end.
    """
    numbers: dict[int, int] = {}
    steps = array("l")                       # from one state to another, one pair after the other
    ends: list[int] = []
    pending: list[tuple[tuple[int, ...], int]] = [((), -1)]       # the threads that took the steps so far; the state

    def number_of(world: World) -> tuple[int, bool]:
        key = world.key()
        is_new = key not in numbers
        if is_new:
            numbers[key] = len(numbers)
            assert len(numbers) <= most_states, "more states than expected"
            if all(thread.next is None for thread in world.threads[:len(world.jobs)]):
                ends.append(numbers[key])
                _check_sleepers(world)
        return numbers[key], is_new

    while pending:
        path, last = pending.pop()
        world = make()
        for number in path:
            world.threads[number].step()
        here, is_new = number_of(world)
        if last >= 0:
            steps.extend((last, here))
        while is_new:
            choices = [i for i, thread in enumerate(world.threads) if thread.can_go_on()]
            if not choices:
                break
            pending += [((*path, i), here) for i in choices[1:]]
            world.threads[choices[0]].step()
            path, last = (*path, choices[0]), here
            here, is_new = number_of(world)
            steps.extend((last, here))
    before, after = np.array(steps).reshape(-1, 2).T
    reached = np.zeros(len(numbers), bool)
    reached[ends] = True
    while (new := before[reached[after] & ~reached[before]]).size:
        reached[new] = True
    lost = np.count_nonzero(~reached)
    assert lost == 0, f"{lost} states have no way to the end"
    return len(numbers)


def walk(world: World, choose: random.Random, most_steps: int) -> None:
    """Take steps at random until the callers have come to their end and the workers sleep.

    A thread takes several steps on end now and then, as threads do. Raises AssertionError as :func:`explore` does.
    """
    last = 0
    for _ in range(most_steps):
        choices = [i for i, thread in enumerate(world.threads) if thread.can_go_on()]
        if not choices:
            assert all(thread.next is None for thread in world.threads[:len(world.jobs)]), "the callers wait for ever"
            _check_sleepers(world)
            return
        last = last if last in choices and choose.random() < STAYS else choose.choice(choices)
        world.threads[last].step()
    raise AssertionError(f"no end after {most_steps} steps")


def _check_sleepers(world: World) -> None:
    """When all workers sleep, the count of sleepers is theirs: else one of them would never be woken."""
    asleep = [thread.next is not None and thread.next[0] == "read_byte" for thread in world.threads[len(world.jobs):]]
    if all(asleep):
        known = world.words[team_code.SLEEPING] + world.bytes_in_pipe
        assert known == len(asleep), f"{len(asleep)} workers sleep, {known} of which can be woken"
