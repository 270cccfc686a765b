"""Networks of many nodes: the time to read and compile them grows no worse than n log n, as benchmarks/ measure it."""
from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from paths import ROOT
from scripts import load

SMALL, LARGE = 400, 2400
RUNS = 3                     # of each size, the quickest of which counts
# Of what n log n allows for six times as many nodes. Quadratic growth would be near five times that; a machine with
# other work, caches and the collector of garbage make some of the rest.
MOST = 3.0
LEAST_SECONDS = 0.3          # that the large one takes, for a growth to count: less is mostly what is there once


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return load(ROOT / "benchmarks" / "large_networks.py")


@pytest.mark.slow          # on a machine that others use, times of small networks say little
@pytest.mark.parametrize("kind", ["chain", "layers", "ring", "branches"])
def test_time_grows_with_the_nodes(kind: str, benchmark: ModuleType, tmp_path: Path) -> None:
    benchmark.seconds(kind, 50, str(tmp_path))           # what is imported and made once
    small, large = ({what: min(run[what] for run in runs) for what in runs[0]}
                    for runs in ([benchmark.seconds(kind, size, str(tmp_path)) for _ in range(RUNS)]
                                 for size in (SMALL, LARGE)))
    grown = benchmark.growth(small, large, LARGE / SMALL, LARGE)
    assert not {what: one for what, one in grown.items() if one > MOST and large[what] > LEAST_SECONDS}
