"""Outputs, derivatives, gradients and statistics do not depend on how a request was compiled."""
from __future__ import annotations

import platform
from datetime import date
from time import perf_counter

import numpy as np
import pytest
from compiler_cases import product, request
from equivalence import LIMITS, SWITCHES, VARIANTS, check_case
from paths import ROOT
from random_cases import KINDS, Case, case

from nnet3py.compiler.computation import CommandType
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.optimize.passes import optimization_steps
from nnet3py.compiler.shortcut import decompose
from nnet3py.errors import CheckError
from nnet3py.network.nnet import Nnet

NUM_CASES = 17 * 31      # all kinds alike, 500 at least
NUM_FEW = 17 * 3         # of which there is something of everything
QUICK = [number for number in range(NUM_FEW) if (number + number // len(KINDS)) % 3 == 0]     # each kind once
IN_PLACE = {CommandType.PROPAGATE: 2, CommandType.BACKPROP: 4}      # the first of two arguments that may be the same
FORMS = {"shortcut": (True, False), "model": (True, False), "back": (True, False), "inputs": (1, 2), "outputs": (1, 2),
         "equal": (True, False), "x": (0, 1), "sequences": (1, 2, 3, 4), "step": (1, 2, 3)}
RESULTS = ROOT / "benchmarks" / "results" / "equivalence.txt"


def show(one: Case, wrong: list[str]) -> str:
    return "\n".join([f"{one.kind}:", one.text, str(one.request), *wrong])


@pytest.mark.parametrize("number", [number if number in QUICK else pytest.param(number, marks=pytest.mark.slow)
                                    for number in range(NUM_FEW)])
def test_a_few_random_networks(number: int) -> None:
    one = case(number)
    wrong = check_case(one)
    assert not wrong, show(one, wrong)


def test_the_few_cases_are_of_many_kinds() -> None:
    """Every command type but those of loops occurs, and every form of request that is compiled in a way of its own."""
    commands, forms = set(), set()
    for number in range(NUM_FEW):
        one = case(number)
        last = list(optimization_steps(one.computation, one.nnet, OptimizeOptions(fuse="none")))[-1][1]
        commands |= {(c.type, c.type in IN_PLACE and c.args[IN_PLACE[c.type]] == c.args[IN_PLACE[c.type] + 1])
                     for c in (*one.computation.commands, *last.commands)}
        asked, rows = one.request, one.request.outputs[0].indexes
        lengths = np.unique(rows[:, 0], return_counts=True)[1]
        forms |= {("shortcut", decompose(asked) is not None), ("model", asked.need_model_derivative),
                  ("back", asked.needs_derivatives()), ("inputs", len(asked.inputs)), ("outputs", len(asked.outputs)),
                  ("equal", bool((lengths == lengths[0]).all())), ("x", int(rows[:, 2].max())),
                  ("sequences", len(lengths)), ("step", int(np.diff(np.unique(rows[:, 1])).min(initial=9)))}
    assert {kind for kind, _ in commands} == set(CommandType) - {
        CommandType.FUSED, CommandType.NO_OPERATION, CommandType.NO_OPERATION_LABEL, CommandType.GOTO_LABEL}
    assert {(kind, True) for kind in IN_PLACE} <= commands
    assert forms >= {(name, value) for name, values in FORMS.items() for value in values}


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
        f"each without optimization and in {len(VARIANTS) + 4 + 2 * len(LIMITS)} other ways (every one of "
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
