"""benchmarks/listing.py: our optimized command lists are no longer than Kaldi's and hold no more memory."""
from __future__ import annotations

from pathlib import Path

import listing
import pytest
from paths import DATA, ROOT

LIST = """matrix m1(3, 2), m2(3, 2), m3(4, 5)
c0: m1 = user input [for node: 'input']
c1: [no-op-permanent]
c2: m3 = undefined(4,5)
c3: m3.set(0) [dim = 4 x 5];
c4: m3(0:2, 0:1).CopyRows(1, m1[0, 1, 2])
c5: m2.swap(m1) [dim = 3 x 2]
c6: a.Propagate(NULL, m3(0:2, 0:1), &m2)
c7: m3(0:2, 0:1) = m2
c8: m3(0:2, 0:1) += 0.5 * m2
c9: m3 = []
c10: output m2 to user [for node: 'output']
"""


def test_kinds_and_memory_of_a_list() -> None:
    assert dict(listing.kinds(LIST)) == dict.fromkeys(
        ("accept", "other", "alloc", "set", "rows", "swap", "propagate", "copy", "add", "dealloc", "provide"), 1)
    assert listing.peak_memory(LIST) == 4 * (3 * 2 + 4 * 5)


@pytest.mark.parametrize("folder", listing.cases(DATA), ids=lambda folder: folder.name)
def test_no_larger_than_kaldis(folder: Path) -> None:
    totals, peaks, counts = listing.compare(folder)
    assert totals[0] <= totals[1] and peaks[0] <= peaks[1]
    assert all(counts[0][kind] == counts[1][kind] for kind in ("propagate", "backprop", "accept", "provide"))


def test_the_table_of_all_cases_is_kept() -> None:
    table = (ROOT / "benchmarks" / "results" / "listing.txt").read_text(encoding="utf-8").splitlines()
    assert table[-1] == f"{len(table) - 2} cases. More commands than Kaldi: none. More memory: none."
    assert len(table) > len(listing.cases(DATA))
