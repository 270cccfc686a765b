"""Noise in features: cepstra become mel energies, noise is added, and mel energies become cepstra again."""
from __future__ import annotations

import zlib

import numpy as np

from nnet3py.xconfig.single import inverse_cosine_transform, lifter_coefficients

LIFTER = 22.0           # --cepstral-lifter of compute-mfcc-feats, its default


def to_log_mel(cepstra: np.ndarray) -> np.ndarray:
    """float64 (frames, dim) for cepstra (frames, dim); there must be as many cepstra as mel bins."""
    return cepstra @ _to_log_mel_matrix(cepstra.shape[1]).T


def to_cepstra(log_mel: np.ndarray) -> np.ndarray:
    """float64 (frames, dim) for log mel energies (frames, dim)."""
    return np.linalg.solve(_to_log_mel_matrix(log_mel.shape[1]), log_mel.T).T


def _to_log_mel_matrix(dim: int) -> np.ndarray:
    return np.array(inverse_cosine_transform(dim, dim, lifter_coefficients(LIFTER, dim)))


def noise_energies(num_frames: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """float64 (frames, dim): mel energies of noise of random color, whose level drifts.

    A bin's energy is a sum over the frequencies in it, of which the upper bins have more: they fluctuate less.
    """
    position = np.arange(dim) / dim
    color = rng.normal(0, 2) * position
    for ripple in (1, 2, 3):
        color += rng.normal(0, 1 / ripple) * np.cos(np.pi * ripple * position + rng.uniform(0, 2 * np.pi))
    seconds = np.arange(num_frames) / 100
    drift = 0.5 * np.sin(2 * np.pi * rng.uniform(0.2, 2) * seconds + rng.uniform(0, 2 * np.pi))
    shape = 1 + 15 * position**2
    return np.exp(color + drift[:, None]) * rng.gamma(shape, 1 / shape, (num_frames, dim))


def add_noise(cepstra: np.ndarray, snr: float, rng: np.random.Generator) -> np.ndarray:
    """float32 (frames, dim): ``cepstra`` with noise ``snr`` decibels below the speech, averages over all frames."""
    log_mel = to_log_mel(cepstra.astype(np.float64))
    noise = noise_energies(*log_mel.shape, rng)
    speech = np.exp(log_mel)
    noise *= speech.sum() / noise.sum() * 10 ** (-snr / 10)
    return to_cepstra(np.log(speech + noise)).astype(np.float32)


def utterance_rng(seed: int, name: str) -> np.random.Generator:
    """Randomness that depends on the seed and the utterance's name only, not on the order of utterances."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])
