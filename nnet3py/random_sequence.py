"""Random numbers as in Kaldi's example tools: ``rand`` of glibc and ``std::shuffle`` of libstdc++.

With these numbers, the choice of examples for a subset, their order, and the cuts of utterances are equal to Kaldi's.
Where Kaldi takes a seed from a random device, :func:`philox` is used instead, so that runs can be repeated.
Kaldi: ``Rand``, ``RandInt``, ``WithProb`` of ``kaldi-math.h``.
"""
from __future__ import annotations

import math
import random
import struct
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

RAND_MAX = 2147483647
_LAGS = (3, 31)                 # lags of glibc's additive feedback generator
_WARM_UP = 310                  # numbers that are discarded after seeding
_SEED_OFFSET = 27437            # added to the seed in Kaldi's RandomState
_MULTIPLIER, _INCREMENT = 1103515245, 12345      # of glibc's rand_r
_FLOAT32 = struct.Struct("<f")
_RARE = 128                     # for a probability below 1/128, a number is drawn twice or more, as in Kaldi's WithProb


def float32(number: float) -> float:
    """Return a number rounded to float32."""
    return _FLOAT32.unpack(_FLOAT32.pack(number))[0]


class CRandom:
    """Generator of the same integers as glibc's ``rand()`` after ``srand(seed)``; 1 is the seed without ``srand``."""

    def __init__(self, seed: int = 1) -> None:
        value = seed if seed else 1
        state = [value]
        for _ in range(_LAGS[1] - 1):
            value = 16807 * value % RAND_MAX
            state.append(value)
        self._state = deque(state, maxlen=_LAGS[1])
        for _ in range(_LAGS[0]):
            self._state.append(self._state[0])
        for _ in range(_WARM_UP):
            self.draw()

    def state(self) -> np.ndarray:
        """Return the generator's state: its last 31 values, the oldest first, uint32 (31,).

        The next value is the sum of elements 0 and 28; :meth:`draw` returns its upper 31 bits.
        """
        import numpy as np

        return np.array(self._state, dtype=np.uint32)

    def draw(self) -> int:
        """Draw an integer from 0 to RAND_MAX."""
        state = self._state
        value = (state[-_LAGS[0]] + state[0]) & 0xFFFFFFFF
        state.append(value)
        return value >> 1

    def uniform(self) -> float:
        """Draw a float32 uniformly between 0 and 1. Kaldi: RandUniform."""
        return float32((self.draw() + 1.0) / (RAND_MAX + 2.0))

    def normal(self) -> float:
        """Draw a normally distributed float32. Kaldi: RandGauss."""
        radius = math.sqrt(-2.0 * math.log(self.uniform()))
        return float32(radius * math.cos(2.0 * math.pi * self.uniform()))

    def normal_matrix(self, num_rows: int, num_cols: int) -> np.ndarray:
        """Draw normally distributed float32 (num_rows, num_cols), by ``rand_r`` with a drawn seed. Kaldi: SetRandn."""
        import numpy as np

        pairs = (num_cols + 1) // 2
        drawn = _rand_r((self.draw() + _SEED_OFFSET) & 0xFFFFFFFF, 2 * pairs * num_rows)
        uniform = ((drawn + 1.0) / (RAND_MAX + 2.0)).astype(np.float32).astype(np.float64).reshape(num_rows, pairs, 2)
        radius, angle = np.sqrt(-2.0 * np.log(uniform[..., 0])), 2.0 * np.pi * uniform[..., 1]
        both = np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=-1)
        return both.reshape(num_rows, 2 * pairs)[:, :num_cols].astype(np.float32)

    def integer(self, low: int, high: int) -> int:
        """Draw an integer from ``low`` to ``high``, both included; if they are equal, no random number is used."""
        return low if low == high else low + self.draw() % (high + 1 - low)

    def happens(self, probability: float) -> bool:
        """Return True with the given probability; for 0 and 1 no random number is used."""
        if probability in (0.0, 1.0):
            return probability == 1.0
        while probability * RAND_MAX < _RARE:
            if self.draw() >= RAND_MAX // _RARE:
                return False
            probability *= _RARE
        return self.draw() < float32((RAND_MAX + 1.0) * float32(probability))

    def count(self, mean: float) -> int:
        """Round ``mean`` up or down at random, so that the expected value of the result is ``mean``."""
        number = 0
        while mean > 1.0:
            number += 1
            mean -= 1.0
        return number + self.happens(mean)


def _rand_r(seed: int, count: int) -> np.ndarray:
    """Return the first ``count`` numbers of glibc's ``rand_r`` for a seed, int64 (count,)."""
    import numpy as np

    steps = 3 * count
    factors = np.cumprod(np.full(steps, _MULTIPLIER, dtype=np.uint32), dtype=np.uint32)
    sums = np.cumsum(np.concatenate(([1], factors[:-1])).astype(np.uint32), dtype=np.uint32)
    states = factors * np.uint32(seed) + np.uint32(_INCREMENT) * sums
    high = (states >> np.uint32(16)).reshape(count, 3).astype(np.int64)
    return ((high[:, 0] % 2048) << 20) ^ ((high[:, 1] % 1024) << 10) ^ (high[:, 2] % 1024)


def _mersenne_twister(seed: int) -> random.Random:
    """Return a generator whose ``getrandbits(32)`` are the numbers of ``std::mt19937(seed)``.

    Matsumoto and Nishimura, "Mersenne Twister", 1998.
    """
    state = [seed & 0xFFFFFFFF]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + i) & 0xFFFFFFFF)
    words = random.Random()   # the standard library's: numpy.random takes 10 ms to import
    words.setstate((3, (*state, 624), None))
    return words


def shuffled(count: int, seed: int) -> list[int]:
    """Return the permutation of 0 … count-1 that ``std::shuffle`` makes with ``mt19937(seed)``.

    As libstdc++ does, two positions are drawn from one random number where their product fits.
    """
    words = _mersenne_twister(seed)

    def below(bound: int) -> int:
        scaling = 0xFFFFFFFF // bound
        while True:
            value = words.getrandbits(32) // scaling
            if value < bound:
                return value

    order = list(range(count))

    def swap(i: int, j: int) -> None:
        order[i], order[j] = order[j], order[i]

    if count and 0xFFFFFFFF // count < count:
        for i in range(1, count):
            swap(i, below(i + 1))
        return order
    start = 1
    if count and count % 2 == 0:
        swap(1, below(2))
        start = 2
    for i in range(start, count, 2):
        first, second = divmod(below((i + 1) * (i + 2)), i + 2)
        swap(i, first)
        swap(i + 1, second)
    return order


def unsigned(seed: int) -> int:
    """Return a seed for numpy's generators, which refuse the negative ones that Kaldi's programs accept."""
    return seed % 2**64


def philox(seed: int = 0) -> np.random.Generator:
    """Return numpy's Philox generator, for random numbers that need not be equal to Kaldi's."""
    import numpy as np

    return np.random.Generator(np.random.Philox(unsigned(seed)))
