"""Small random models, lattices and supervisions of discriminative training."""
from __future__ import annotations

import numpy as np
from paths import DATA

from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.egs.discriminative_example import DiscriminativeSupervision
from nnet3py.transducers.fst import NO_WEIGHT, Fst

FOLDER = DATA / "discriminative"      # Kaldi's; see its README.md


def model(name: str = "am.mdl") -> AcousticModel:
    """Kaldi's small model of 5 phones and 10 pdfs: transition-ids 2 pdf + 1 and 2 pdf + 2 share a pdf."""
    return read_model(FOLDER / name)


def lattice(rng: np.random.Generator, num_frames: int, width: int = 3) -> Fst:
    """A random lattice of ``width`` states in each frame but the first and the last.

    Two arcs, of different transition-ids, lead from each to each of the next frame.
    """
    layers = [[0], *[list(range(1 + width * t, 1 + width * (t + 1))) for t in range(num_frames - 1)]]
    layers.append([1 + width * (num_frames - 1)])
    arcs = [(source, target) for here, there in zip(layers[:-1], layers[1:], strict=True) for source in here
            for target in there for _ in range(2)]
    sources, nexts = (np.array(ends, np.int32) for ends in zip(*arcs, strict=True))
    num_states = layers[-1][-1] + 1
    weights = rng.uniform(0.0, 2.0, (len(arcs), 2)).astype(np.float32)
    finals = np.full((num_states, 2), NO_WEIGHT, np.float32)
    finals[-1] = rng.uniform(0.0, 2.0, 2)
    ids = (1 + 2 * rng.integers(0, 10, len(arcs)) + np.arange(len(arcs)) % 2).astype(np.int32)
    starts = np.searchsorted(sources, np.arange(num_states + 1)).astype(np.int64)
    return Fst(0, finals, starts, ids, ids.copy(), weights, nexts, "lattice4")


def supervision(rng: np.random.Generator, num_frames: int, weight: float = 1.0) -> DiscriminativeSupervision:
    """One sequence with a random lattice, and an alignment that need not lie in it."""
    alignment = rng.integers(1, 21, num_frames).astype(np.int32)
    return DiscriminativeSupervision(alignment, lattice(rng, num_frames), weight, 1, num_frames)


def log_probs(rng: np.random.Generator, rows: int, pdfs: int = 10) -> np.ndarray:
    """float32 (rows, pdfs): random log-probabilities."""
    values = rng.standard_normal((rows, pdfs))
    result: np.ndarray = (values - np.log(np.exp(values).sum(axis=1, keepdims=True))).astype(np.float32)
    return result
