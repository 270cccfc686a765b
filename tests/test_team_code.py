"""nnet3py/engine/team_code.py: in every order of the threads' steps each row is done once, and nobody is lost."""
from __future__ import annotations

import random

import pytest
from team_model import World, explore, stepwise, walk

MOST_STATES = 400_000
WALKS = 200
MOST_STEPS = 100_000
ONE_JOB = ((2,),)               # of one caller, of two chunks
TWO_JOBS = ((2, 2),)            # of one caller, of two chunks each
MISTAKES = {
    "nobody waits for workers": ("    _wait_for_workers()\n", ""),
    "who waits gives up": ("    while peek(GATE) & INSIDE:\n        give_way()\n", ""),
    "the gate stays open": ("while not swap(GATE, gate, gate & ~OPEN):", "while not swap(GATE, gate, gate):"),
    "chunks are taken unseen": ("if swap(CHUNKS, left, left + 1):", "if poke(CHUNKS, left + 1) is None:"),
    "more are woken than sleep": ("range(min(sleeping, most))", "range(most)"),
    "who wakes up himself stays counted": ("if swap(SLEEPING, sleeping, sleeping - 1):", "if sleeping:"),
}


def test_all_orders_of_a_caller_and_a_worker() -> None:
    functions = stepwise()
    assert explore(lambda: World(functions, ONE_JOB, 1), MOST_STATES) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("jobs, workers", [(TWO_JOBS, 1), (((2,), (2,)), 1), (((2, 2, 2),), 1)])
def test_all_orders_of_more(jobs: tuple[tuple[int, ...], ...], workers: int) -> None:
    functions = stepwise()
    assert explore(lambda: World(functions, jobs, workers), 10 * MOST_STATES) > 1000


@pytest.mark.parametrize("jobs, workers", [(((3, 2),), 2), (((2, 2), (3,)), 2), (((4, 1),), 3)])
@pytest.mark.parametrize("walks", [WALKS, pytest.param(50 * WALKS, marks=pytest.mark.slow)])
def test_orders_of_several_workers(jobs: tuple[tuple[int, ...], ...], workers: int, walks: int) -> None:
    """Some of them, at random: all are too many."""
    functions, choose = stepwise(), random.Random(walks)
    for _ in range(walks):
        walk(World(functions, jobs, workers), choose, MOST_STEPS)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str) -> None:
    """The same with a line changed: the exploration would notice."""
    functions = stepwise(MISTAKES[mistake])
    with pytest.raises(AssertionError):
        explore(lambda: World(functions, TWO_JOBS, 1), MOST_STATES)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_at_random(mistake: str) -> None:
    functions, choose = stepwise(MISTAKES[mistake]), random.Random(1)
    with pytest.raises(AssertionError):
        for _ in range(20 * WALKS):
            walk(World(functions, ((2, 2), (3,)), 2), choose, MOST_STEPS)
