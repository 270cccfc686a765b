"""Histories that are cut: which are taken for one, and what stands for them."""
from __future__ import annotations

from nnet3py.rnnlm.histories import CutHistories

BOS = 9


def test_the_first_one_stands_for_all() -> None:
    histories = CutHistories(BOS, 3)
    first = histories.after(histories.after(0, 1), 2)           # <s> 1 2
    other = histories.after(histories.after(histories.after(0, 3), 1), 2)     # <s> 3 1 2
    assert first == other and histories.sequences[first] == (1, 2)
    assert histories.words[first] == 2 and histories.sequences[histories.parents[first]] == (BOS, 1)
    assert histories.number_of((1, 2)) == first and histories.number_of((2, 1)) is None
    assert len(histories) == len(histories.sequences) == len(histories.words) == 5


def test_the_beginning_counts() -> None:
    histories = CutHistories(BOS, 2)
    assert histories.sequences == [(BOS,)] and histories.parents == [-1]
    one = histories.after(0, 1)
    assert histories.sequences[one] == (1,) and histories.after(histories.after(0, 2), 1) == one


def test_nothing_is_kept_or_nothing_is_cut() -> None:
    nothing = CutHistories(BOS, 1)
    assert nothing.after(0, 5) == nothing.after(nothing.after(0, 4), 3) == 1 and nothing.sequences == [(BOS,), ()]
    everything = CutHistories(BOS, 0)
    number = 0
    for word in range(1, 30):
        number = everything.after(number, word)
    assert everything.sequences[number] == (BOS, *range(1, 30)) and everything.longer((1,), 2) == (1, 2)
