"""The folder of a language model, as Kaldi's scripts for rescoring look for it (exp/rnnlm)."""
from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from nnet3py.errors import FormatError, UsageError
from nnet3py.formats.matrices import read_matrix, write_matrix
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.streams import write_text
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.rnnlm.training.features import Feature, word_feature_lines
from nnet3py.rnnlm.training.vocabulary import Vocabulary

FINAL = "final"
_STATE = "train_rnnlm.json"      # what the training was given, and how far it has come


class TrainingFolder:
    """Reads and writes the files.

    Parameters
    ----------
    path : made if it is missing

    Raises
    ------
    UsageError : the folder cannot be made
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        try:
            (self.path / "config").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make the folder {path} ({error.strerror})") from None

    def write_words(self, vocabulary: Vocabulary, features: list[Feature], values: Any, layers: str) -> None:
        """Write all that is there before training: words, their features and special ones, and the network's layers."""
        for place in ("words.txt", "config/words.txt"):
            vocabulary.table.write(str(self.path / place))
        options = vocabulary.option_lines()
        self._write("special_symbol_opts.txt", " ".join(options) + "\n")          # Kaldi's scripts paste this one
        self._write("special_symbol_opts.conf", "\n".join(options) + "\n")        # vosk reads this one
        self._write("config/oov.txt", f"{vocabulary.unknown}\n" if vocabulary.unk >= 0 else "\n")
        self._write("config/features.txt", "".join(f"{number}\t{feature.line()}\n"
                                                   for number, feature in enumerate(features)))
        self._write("config/xconfig", layers)
        self._write("unigram_probs.txt", "".join(f"{number} {prob:.6g}\n"
                                                 for number, prob in enumerate(vocabulary.probs())))
        self._write("word_feats.txt", word_feature_lines(values))

    def _write(self, name: str, text: str) -> None:
        write_text(str(self.path / name), text)

    def write_model(self, name: str, nnet: Nnet, embedding: np.ndarray) -> None:
        """Write ``NAME.raw`` and ``feat_embedding.NAME.mat``."""
        write_object(self.path / f"feat_embedding.{name}.mat", lambda writer: write_matrix(writer, embedding))
        nnet.write(str(self.path / f"{name}.raw"))

    def read_model(self, name: str) -> tuple[Nnet, np.ndarray]:
        """What :meth:`write_model` wrote."""
        embedding = read_object(str(self.path / f"feat_embedding.{name}.mat"), read_matrix)
        return read_nnet(str(self.path / f"{name}.raw")), embedding

    def remove_model(self, name: str) -> None:
        """Remove these files, if they are there."""
        for file in (f"{name}.raw", f"feat_embedding.{name}.mat"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path / file)

    # -- what resumes ------------------------------------------------------------------------------------------------

    def read_state(self) -> dict[str, Any] | None:
        """What an earlier training wrote by :meth:`write_state`; None if there was none."""
        path = self.path / _STATE
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            raise FormatError(f"expected what a training wrote ({error})", path=str(path),
                              hint="remove the folder to train anew") from None

    def write_state(self, state: dict[str, Any]) -> None:
        """Write how far the training has come."""
        self._write(_STATE, json.dumps(state, indent=1) + "\n")
