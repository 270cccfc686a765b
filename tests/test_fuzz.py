"""Damaged files of every kind, some hundreds of them; benchmarks/fuzz.py runs hundreds of thousands."""
from __future__ import annotations

import pytest
from fuzz_mutations import MUTATIONS
from fuzz_samples import samples
from fuzzing import damaged_samples, fuzz_folder, judge, warm_up
from hypothesis import HealthCheck, given, settings

from nnet3py.components.registry import COMPONENT_MODULES

EXAMPLES = 500


@pytest.fixture(scope="module")
def folder():
    with fuzz_folder() as path:
        warm_up(path)
        yield path


def test_every_component_type_has_a_sample():
    names = {sample.name for sample in samples()}
    assert {f"{kind}0 binary" for kind in COMPONENT_MODULES} <= names
    assert {sample.kind for sample in samples()} >= {
        "model", "acoustic model", "config", "edits", "specifier", "script", "matrices", "examples", "labels",
        "posteriors", "tree", "topology", "transition model", "FST", "LDA statistics", "cache", "graph",
        "FST lines", "symbols", "windows", "ARPA", "const-ARPA",
        "FST types", "n-gram graph", "symbol tables", "look-ahead graph"}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_every_mutation_changes_something(mutation):
    assert any(mutation(sample.data, 12345 + a, 678 + a) != sample.data for sample in samples()[:20] for a in range(5))


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(damaged_samples())
def test_nothing_but_an_nnet3_error(folder, damaged):
    sample, data = damaged
    judge(sample, data, folder)
