"""Sound at another speed or volume, for more variety in training. Kaldi: ``utils/data/perturb_data_dir_speed.sh``."""
from __future__ import annotations

import zlib
from fractions import Fraction

import numpy as np

from nnet3py.errors import UsageError
from nnet3py.feat.resample import resample

_FINEST = 1000                  # the largest denominator of the fraction that stands for a speed
SLOWEST, FASTEST = 0.1, 10.0


def with_speed(samples: np.ndarray, speed: float) -> np.ndarray:
    """Sound played faster or slower, pitch included.

    Parameters
    ----------
    samples : float32 (channels, samples)
    speed : 1 is as it is, 1.1 a tenth faster

    Returns
    -------
    float32 (channels, samples), of 1 / ``speed`` as many samples, rounded up

    Raises
    ------
    UsageError : a speed that is not between 0.1 and 10
    """
    if not SLOWEST <= speed <= FASTEST:
        raise UsageError(f"a speed must be between {SLOWEST:g} and {FASTEST:g}, not {speed:g}",
                         "1 is the speed as it is")
    fraction = Fraction(speed).limit_denominator(_FINEST)
    if fraction == 1:
        return samples
    return np.stack([resample(channel, fraction.numerator, fraction.denominator) for channel in samples])


def random_volume(seed: int, key: str, least: float, largest: float) -> np.float32:
    """A factor between ``least`` and ``largest``, which depends only on the seed and the utterance's key."""
    rng = np.random.Generator(np.random.Philox([seed, zlib.crc32(key.encode())]))
    return np.float32(rng.uniform(least, largest))
