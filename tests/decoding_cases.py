"""The digits recognizer of ``data/decoding``, whose lattices were made by latgen-faster-mapped; damaged files."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from io_samples import read_table
from paths import DATA as _DATA

from nnet3py.errors import Nnet3Error
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object

DATA = _DATA / "decoding"
MODEL = read_object(DATA / "trans.mdl", TransitionModel.read)
DISAMBIG = [int(number) for number in (DATA / "disambig_tid.int").read_text().split()]


def table(name: str, holder: Any = FLOAT_MATRIX) -> list[Any]:
    """The values of an archive."""
    return list(read_table(f"ark:{DATA / name}.ark", holder).values())


LIKES: list[np.ndarray] = table("loglikes")


def count_refused(content: bytes, path: Path, use: Callable[[], object], count: int) -> int:
    """Damage a file ``count`` times, and use it; the number of times that this ends with an Nnet3Error."""
    rng, refused = np.random.default_rng(0), 0
    for _ in range(count):
        damaged = bytearray(content[:int(rng.integers(1, len(content)))] if rng.random() < 0.3 else content)
        for place in rng.integers(0, len(damaged), 3):
            damaged[place] = int(rng.integers(0, 256))
        path.write_bytes(damaged)
        try:
            use()
        except Nnet3Error:
            refused += 1
    return refused
