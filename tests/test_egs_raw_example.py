"""nnet3py/egs/raw_example.py: random orders and subsets; tests/test_skim.py has walking over bytes."""
from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from nnet3py.egs.make import UtteranceSplitter
from nnet3py.egs.options import SplitOptions
from nnet3py.egs.raw_example import shuffle, shuffle_with_buffer, subset

# Keys in tools/get-egs-uncompressed of the reference material: Kaldi's choice of 30 examples out of 2856.
KALDI_SUBSET = [
    "en-029-belinda-07-93", "en-029-belinda-04-108", "en-029-ed-01-128", "en-029-belinda-00-152",
    "en-029-belinda-07-159", "en-029-ed-00-90", "en-029-belinda-02-155", "en-029-belinda-05-228",
    "en-029-ed-02-183", "en-029-belinda-07-3", "en-029-belinda-00-161", "en-029-belinda-03-21",
    "en-029-belinda-06-95", "en-029-belinda-04-259", "en-029-ed-03-40", "en-029-ed-03-49", "en-029-belinda-00-18",
    "en-029-belinda-04-4", "en-029-belinda-03-238", "en-029-belinda-05-63", "en-029-belinda-03-124",
    "en-029-belinda-06-161", "en-029-belinda-04-143", "en-029-belinda-04-46", "en-029-belinda-03-319",
    "en-029-belinda-05-112", "en-029-belinda-07-88", "en-029-ed-02-91", "en-029-ed-02-264", "en-029-belinda-06-39",
]
LENGTHS = [202, 155, 232, 346, 277, 229, 242, 206, 236, 274, 288, 162]
NAMES = [*(f"en-029-belinda-{i:02}" for i in range(8)), *(f"en-029-ed-{i:02}" for i in range(4))]


def test_kaldis_own_choice_and_order():
    splitter = UtteranceSplitter(SplitOptions.parse("1"))
    keys = [f"{name}-{chunk.first_frame}" for name, length in zip(NAMES, LENGTHS, strict=True)
            for chunk in splitter.chunks(length)]
    assert subset(keys, 30) == (KALDI_SUBSET, 2856)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 100), st.integers(0, 30), st.integers(0, 3))
def test_nothing_is_lost_or_invented(count, size, seed):
    items = list(range(count))
    assert sorted(shuffle(items, seed)) == items
    assert sorted(shuffle_with_buffer(items, size + 1)) == items
    kept, seen = subset(items, size, seed)
    assert seen == count and len(set(kept)) == len(kept) == min(size, count) and set(kept) <= set(items)
    assert sorted(kept) == sorted(subset(items, size, seed, randomize_order=False)[0])


def test_seeds():
    items = list(range(50))
    assert list(shuffle(items, 1)) == list(shuffle(items, 1)) != list(shuffle(items, 2))
    assert list(shuffle_with_buffer(items, 10)) != items
