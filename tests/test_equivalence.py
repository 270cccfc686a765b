"""Outputs, derivatives, gradients and statistics do not depend on how a request was compiled."""
from __future__ import annotations

import platform
from datetime import date
from time import perf_counter

import pytest
from compiler_cases import product, request
from equivalence import LIMITS, SWITCHES, VARIANTS, check_case
from paths import ROOT
from random_cases import KINDS, Case, case

from nnet3py.compiler.generate import generate_computation
from nnet3py.errors import CheckError
from nnet3py.network.nnet import Nnet

NUM_CASES = 17 * 31      # all kinds alike, 500 at least
NUM_QUICK = 17 * 3       # in the tests that are always run
RESULTS = ROOT / "benchmarks" / "results" / "equivalence.txt"


def show(one: Case, wrong: list[str]) -> str:
    return "\n".join([f"{one.kind}:", one.text, str(one.request), *wrong])


@pytest.mark.parametrize("number", range(NUM_QUICK))
def test_a_few_random_networks(number: int) -> None:
    one = case(number)
    wrong = check_case(one)
    assert not wrong, show(one, wrong)


@pytest.mark.slow
def test_all_random_networks() -> None:
    """All cases; leaves how many there were, and how long they took, in benchmarks/results."""
    start = perf_counter()
    failed, kinds, num_computations, networks = [], dict.fromkeys(KINDS, 0), 0, set()
    for number in range(NUM_CASES):
        one = case(number)
        counts: list[int] = []
        try:
            wrong = check_case(one, counts)
        except CheckError as error:
            wrong = [str(error)]
        kinds[one.kind] += 1
        num_computations += sum(counts)
        networks.add(one.text)
        if wrong:
            failed.append(show(one, wrong))
    seconds = perf_counter() - start
    RESULTS.write_text("\n".join([
        f"$ python -m pytest -m slow tests/test_equivalence.py   # {date.today()}, Python {platform.python_version()}",
        f"{NUM_CASES} requests to {len(networks)} random networks: {len(failed)} with a difference; {seconds:.0f} s",
        f"each without optimisation and in {len(VARIANTS) + 4 + 2 * len(LIMITS)} other ways (every one of "
        f"{len(SWITCHES)} options alone, and all but it; shortcut and full compilation; limits of derivative times), "
        f"the checker after every pass: {num_computations} different command lists were run",
        "kinds: " + ", ".join(f"{kind} {count}" for kind, count in kinds.items())]) + "\n")
    assert not failed, "\n\n".join(failed)


def test_overlapping_dim_ranges_that_change_one_row() -> None:
    """The same row of a derivative, by two names, twice in one command: it must not be set twice instead of added."""
    nnet = Nnet.from_config("""
        input-node name=input dim=2
        component name=a type=NaturalGradientAffineComponent input-dim=2 output-dim=2
        component-node name=a component=a input=Sum(input, IfDefined(Offset(a, -1)))
        dim-range-node name=d input-node=a dim-offset=0 dim=2
        output-node name=output input=Sum(Switch(a, d), Offset(d, 1))
        """, seed=1)
    asked = request(product([0], range(4)), product([0], range(3)), True, True)
    computation = generate_computation(nnet, asked)
    wrong = check_case(Case("overlapping dim-ranges", "", nnet, asked, computation))
    assert not wrong, wrong
