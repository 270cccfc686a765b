"""Kaldi's reference cases of all component types, whole networks: outputs, derivatives, updates and statistics."""
from __future__ import annotations

import pytest
from case_runs import differences
from component_cases import CASES, Draws, read_components
from paths import DATA

from nnet3py.components.registry import COMPONENT_MODULES
from nnet3py.ops import get_ops

FLOAT32 = 5e-6          # of the largest value: sums of some tens of terms in another order
GRADIENT = {"batch-norm": 3e-4}       # of a bias before batch normalization, which is 0: all of it is rounding
STATISTIC = 2e-6        # float32 averages of sums in another order
UPDATE = 1e-3           # of the change, which is about 1e-3 of the parameters, themselves rounded by 6e-8
NETWORK_UPDATE = 1e-2   # natural gradient amplifies rounding
# Of pieces of 3 rows, which determine no estimate of rank 5, whose rest is then random; and see GRADIENT.
FAR = {"composite": 1e-2, "batch-norm": 1e-2}
# Kaldi's self-repair was random, or it read memory that nobody had written; or no update was asked for.
WITHOUT_UPDATE = {"clip-gradient", "lstm-nonlinearity-dropout", *(f"statistics-pooling-small-variance-{i}"
                                                                   for i in (1, 2, 3))}
# case -> what Kaldi drew for its gradient and for its update: statistics are stored if it is at most 0.5. In the others
# all statistics are kept, and nothing is repaired.
DRAWN = {"gru-nonlinearity": [0.4, 0.4], "gru-nonlinearity-full": [0.6, 0.4], "output-gru-nonlinearity": [0.6, 0.4]}


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_kaldis_numbers(case: str, optimize: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get_ops("cpu"), "random", Draws([1] * 40, DRAWN.get(case, [0.6] * 2)))
    found = differences(CASES / case, optimize=optimize)
    assert found.output is not None and found.output < FLOAT32
    assert found.input_deriv is not None and found.input_deriv < FLOAT32
    assert found.gradient and max(found.gradient.values()) < GRADIENT.get(case, FLOAT32)
    assert bool(found.update) == (case not in WITHOUT_UPDATE)
    assert max(found.update.values(), default=0.0) < FAR.get(case, UPDATE)
    if case == "composite":
        found.statistics.pop("c update")     # of which pieces of its rows Kaldi kept them was random
    assert max(found.statistics.values(), default=0.0) < STATISTIC


@pytest.mark.parametrize("name", ["net-tdnn", "net-lstm", "rnn-simple", "multi-input-output"])
@pytest.mark.parametrize(("optimize", "shortcut"), [(True, True), (False, False)])
def test_kaldis_numbers_of_whole_networks(name: str, optimize: bool, shortcut: bool) -> None:
    found = differences(DATA / "nets" / name, optimize=optimize, shortcut=shortcut)
    values = (found.output, found.input_deriv, *found.gradient.values())
    assert found.gradient and max(value for value in values if value is not None) < FLOAT32     # None: it is constant
    assert found.update and max(found.update.values()) < NETWORK_UPDATE


def test_the_cases_are_of_all_types() -> None:
    types = {type(component).__name__ for path in CASES.iterdir()
             for component, _ in read_components(path / "nnet.raw").values()}
    assert set(COMPONENT_MODULES) - types == {"FixedAffineComponent", "FixedScaleComponent", "FixedBiasComponent",
                                              "ConstantComponent", "DropoutMaskComponent"}
