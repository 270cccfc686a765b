"""The C library's random numbers, and what the tools do with them."""
from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nnet3py.feat.sound import random_volume
from nnet3py.random_sequence import RAND_MAX, CRandom, philox, shuffled, unsigned

GLIBC_UNSEEDED = [1804289383, 846930886, 1681692777, 1714636915, 1957747793, 424238335, 719885386]
GLIBC_SEED_42 = [71876166, 708592740, 1483128881]


def test_the_sequence_is_that_of_glibc():
    random = CRandom()
    assert [random.draw() for _ in GLIBC_UNSEEDED] == GLIBC_UNSEEDED
    random, zero = CRandom(42), CRandom(0)
    assert [random.draw() for _ in GLIBC_SEED_42] == GLIBC_SEED_42
    assert zero.draw() == GLIBC_UNSEEDED[0]


def test_integers_and_probabilities():
    random = CRandom()
    drawn = [random.integer(3, 6) for _ in range(4000)]
    assert sorted(set(drawn)) == [3, 4, 5, 6]
    assert all(abs(drawn.count(v) - 1000) < 150 for v in set(drawn))      # 150: more than five standard deviations
    assert random.integer(5, 5) == 5
    untouched = CRandom()
    assert not untouched.happens(0.0) and untouched.happens(1.0)
    assert untouched.draw() == GLIBC_UNSEEDED[0]
    assert abs(sum(random.happens(0.25) for _ in range(4000)) - 1000) < 150
    assert sum(random.happens(1e-9) for _ in range(2000)) == 0
    assert 0 <= random.draw() <= RAND_MAX


def test_uniform_numbers():
    random = CRandom()
    drawn = [random.uniform() for _ in range(4000)]
    assert drawn[0] == float(np.float32(GLIBC_UNSEEDED[0] / RAND_MAX))
    assert 0 < min(drawn) < 0.01 and 0.99 < max(drawn) < 1 and abs(np.mean(drawn) - 0.5) < 0.025   # five deviations


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 200), st.integers(0, 10))
def test_shuffles_are_permutations(count, seed):
    order = shuffled(count, seed)
    assert sorted(order) == list(range(count))
    assert order == shuffled(count, seed)


def test_large_shuffles_use_one_number_per_swap():
    count = 70000
    assert sorted(shuffled(count, 1)) == list(range(count))


def test_philox_repeats():
    assert np.array_equal(philox(3).integers(0, 100, 10), philox(3).integers(0, 100, 10))


def test_negative_seeds_are_taken_as_kaldi_takes_them_and_others_stay() -> None:
    assert philox(-1).random() == philox(2**64 - 1).random() != philox(1).random()
    assert philox(7).random() == np.random.Generator(np.random.Philox(7)).random()
    assert np.random.default_rng(unsigned(7)).random() == np.random.default_rng(7).random()
    assert random_volume(-3, "a", 0.5, 2.0) != random_volume(3, "a", 0.5, 2.0)
