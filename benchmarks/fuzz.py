"""Read damaged files by the hundred thousand: nothing but an Nnet3Error may come of it, soon and in little memory.

    python benchmarks/fuzz.py [--files 200000] [--seed 0] [--batch 5000] [--kinds graph,ARPA] [--without-memory]

Prints, for each kind of file, how many were read, how many of them were different, how many were refused and the most
memory that any took. Exit status 1, and the smallest example found, if one of them does anything else. What is done to
the files and how they are judged is in tests/fuzzing.py; a short version of this is tests/test_fuzz.py.
"""
from __future__ import annotations

import argparse
import collections
import hashlib
import logging
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from fuzz_samples import samples  # noqa: E402
from fuzzing import damaged_samples, fuzz_folder, judge, warm_up  # noqa: E402
from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402


class Tally:
    """What happened to the files of one kind."""

    def __init__(self) -> None:
        self.files = 0
        self.distinct: set[bytes] = set()
        self.errors: collections.Counter[str] = collections.Counter()


def run_batch(folder: Path, number: int, size: int, tallies: dict[str, Tally], kinds: list[str],
              trace_memory: bool) -> None:
    """Judge ``size`` files; AssertionError for one that fails, after hypothesis has made it small."""

    @seed(number)
    @settings(max_examples=size, deadline=None, database=None, phases=[Phase.generate, Phase.shrink],
              report_multiple_bugs=False,
              suppress_health_check=list(HealthCheck))
    @given(damaged_samples(kinds))
    def batch(damaged):    # type: ignore[no-untyped-def]
        sample, data = damaged
        tally = tallies[sample.kind]
        error = judge(sample, data, folder, trace_memory)
        tally.files += 1
        tally.distinct.add(hashlib.blake2b(sample.name.encode() + data, digest_size=8).digest())
        tally.errors["read" if error is None else type(error).__name__] += 1

    batch()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=200_000, help="how many damaged files (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first batch; each batch has the next one")
    parser.add_argument("--batch", type=int, default=5000, help="files per batch (default %(default)s)")
    parser.add_argument("--without-memory", action="store_true", help="do not measure memory: several times quicker")
    parser.add_argument("--kinds", default="", help="only of these kinds, with commas between them")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("error")    # a RuntimeWarning of numpy would be one more way to be silent about bad values
    tallies: dict[str, Tally] = collections.defaultdict(Tally)
    begun = time.perf_counter()
    kinds = [kind for kind in arguments.kinds.split(",") if kind]
    with fuzz_folder() as folder:
        warm_up(folder)
        for number in range(-(-arguments.files // arguments.batch)):
            run_batch(folder, arguments.seed + number, arguments.batch, tallies, kinds,
                      not arguments.without_memory)
            done = sum(tally.files for tally in tallies.values())
            print(f"{done} files in {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    print(f"{'kind':18}{'files':>9}{'different':>11}  outcome")
    for kind, tally in sorted(tallies.items()):
        outcome = ", ".join(f"{name} {count}" for name, count in tally.errors.most_common())
        print(f"{kind:18}{tally.files:9}{len(tally.distinct):11}  {outcome}")
    files, different = sum(t.files for t in tallies.values()), sum(len(t.distinct) for t in tallies.values())
    print(f"{files} damaged files ({different} different) of {len(samples())} good ones in "
          f"{time.perf_counter() - begun:.0f} s: nothing but Nnet3Error, no hang"
          f"{', no excess of memory' * (not arguments.without_memory)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
