"""The --minibatch-size rules."""
from __future__ import annotations

import pytest

from nnet3py.egs.minibatch_size import MinibatchSizes
from nnet3py.errors import Nnet3Error


def test_one_rule():
    sizes = MinibatchSizes("64,32,7")
    assert [sizes.size(15, n, ended=False) for n in (63, 64, 70)] == [0, 64, 64]
    assert [sizes.size(15, n, ended=True) for n in (100, 63, 31, 6, 0)] == [64, 32, 7, 0, 0]


def test_ranges():
    sizes = MinibatchSizes("1:64")
    assert sizes.size(1, 63, ended=False) == 0 and sizes.size(1, 63, ended=True) == 63
    sizes = MinibatchSizes("16,64:128")
    assert [sizes.size(1, n, ended=True) for n in (200, 100, 64, 63, 15)] == [128, 100, 64, 16, 0]


def test_the_rule_of_the_closest_size():
    sizes = MinibatchSizes("128=64,32/256=40,16")
    assert sizes.rule(100).eg_size == 128 and sizes.rule(300).eg_size == 256
    assert sizes.rule(192).eg_size == 128                # as near to both: the first
    assert sizes.size(250, 40, ended=False) == 40


@pytest.mark.parametrize("text", ["", "0", "64-128", "5:3", "a", "64,", "1=2/3", "=4", "1=", "1=2/1=3", "1:64:128",
                                  "-1", "1=2=3", " 64"])
def test_malformed_rules(text):
    with pytest.raises(Nnet3Error, match="minibatch-size") as caught:
        MinibatchSizes(text)
    assert caught.value.exit_code == 255
