"""A model that scores frames, from whatever is given: a folder, an acoustic model, or a transition model alone."""
from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.decoding.options import DecoderOptions
from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.network.model_place import model_in, subsampling_beside
from nnet3py.option_fields import OptionValue, with_values
from nnet3py.option_file import checked_value
from nnet3py.recognition import option_tables as tables
from nnet3py.recognition.front_end import FrontEndOutput
from nnet3py.recognition.model_folder import ModelFolder, look_at_folder
from nnet3py.recognition.recognizer import Recognizer
from nnet3py.runtime.compute import compute

FRAMES_PER_CHUNK = 150
_CHAIN_SCALE = 1.0

Model = str | os.PathLike[str] | Recognizer | AcousticModel | TransitionModel


class Scorer:
    """Log-likelihoods of pdfs, with what belongs to them.

    Attributes
    ----------
    folder : what is known of the model's files; None if none were given
    transitions : the transition model
    model : the acoustic model; None for a transition model alone
    """

    def __init__(self, model: Model, graph_file: str | None = None) -> None:
        """``graph_file``: in place of the folder's own. Nnet3Error for a folder without an acoustic model."""
        self.folder: ModelFolder | None = None
        if isinstance(model, str | os.PathLike | Recognizer):
            self.folder = _folder(model, graph_file)
            if not self.folder.model:
                raise Nnet3Error(f"{self.folder.path}: {'; '.join(self.folder.missing)}")
            model = read_model(self.folder.model)
        if not isinstance(model, AcousticModel | TransitionModel):
            raise UsageError(f"expected a model folder, an acoustic model or a transition model, found "
                             f"{type(model).__name__}", "nnet3py.read_model('final.mdl') reads an acoustic model")
        self.model = model if isinstance(model, AcousticModel) else None
        self.transitions = model.transition_model if isinstance(model, AcousticModel) else model

    @property
    def input_dim(self) -> int:
        """Columns of features; 0 where the network is not known."""
        return 0 if self.model is None else self.model.nnet.input_dim("input")

    @property
    def frame_subsampling_factor(self) -> int:
        """Frames of features for each row of log-likelihoods."""
        return 1 if self.model is None else subsampling_beside(self.model.nnet.path)

    def acoustic_scale(self, given: float | None = None) -> float:
        """What is given, else what the folder says, else what Kaldi's scripts take for such a model.

        UsageError for a number that is not above 0.
        """
        if given is None and self.folder is not None and "acoustic-scale" in self.folder.options:
            given = float(self.folder.options["acoustic-scale"])
        if given is None:
            given = float(tables.LOOPED["acoustic-scale"]) if self.has_priors else _CHAIN_SCALE
        if not 0.0 < given < float("inf"):
            raise UsageError(f"acoustic_scale={given:g}: expected a number above 0")
        return float(given)

    @property
    def has_priors(self) -> bool:
        """Whether the model has priors, which a chain model has not."""
        return self.model is not None and len(self.model.priors) > 0

    def options(self, given: DecoderOptions | Mapping[str, OptionValue] | None) -> DecoderOptions:
        """How wide the search is."""
        if isinstance(given, DecoderOptions):
            return given
        values = dict(self.folder.options) if self.folder is not None else {}
        for name, value in (given or {}).items():
            key = name.replace("_", "-")
            values[key] = checked_value(key, str(value), tables.DECODING)
        return with_values(DecoderOptions(), values)

    def log_likes(self, given: np.ndarray | FrontEndOutput, ivector: np.ndarray | None, device: str) -> np.ndarray:
        """Log-likelihoods with the priors divided out, (frames, pdfs), as they are given or from features.

        Parameters
        ----------
        given : log-likelihoods, float (frames, pdfs); or features, float (frames, dim), if that is another number of
            columns; or what a front end made of a sound
        ivector : float (ivector dim,), for features alone

        Raises ShapeError for another number of columns.
        """
        if isinstance(given, FrontEndOutput):
            return self._compute(given.features, given.ivector if ivector is None else ivector, device)
        matrix = np.asarray(given)
        num_pdfs, input_dim = self.transitions.num_pdfs, self.input_dim
        if matrix.ndim != 2 or matrix.shape[1] not in (num_pdfs, input_dim):
            features = f", or features of dimension {input_dim}" if input_dim else ""
            raise ShapeError(f"expected log-likelihoods (frames, {num_pdfs}){features}, found an array of shape "
                             f"{matrix.shape}", "of a sound: nnet3py.Recognizer(folder).transcribe('a.wav')"
                             if matrix.ndim < 2 else "the model must be that of the graph and of the arrays")
        return matrix if matrix.shape[1] == num_pdfs else self._compute(matrix, ivector, device)

    def _compute(self, feats: np.ndarray, ivector: np.ndarray | None, device: str) -> np.ndarray:
        if self.model is None:
            raise UsageError("a transition model computes nothing of features", "give an acoustic model")
        output = compute(self.model, feats, ivector, frames_per_chunk=FRAMES_PER_CHUNK, device=device,
                         frame_subsampling_factor=self.frame_subsampling_factor)
        if not self.has_priors:
            return output
        if self.model.priors.size != output.shape[1]:
            raise ShapeError(f"the model has {self.model.priors.size} priors, its network {output.shape[1]} outputs",
                             "set them with nnet3-am-adjust-priors")
        return output - np.log(self.model.priors)


def _folder(model: str | os.PathLike[str] | Recognizer, graph_file: str | None) -> ModelFolder:
    if not isinstance(model, Recognizer):
        return look_at_folder(_place_of(os.fspath(model)), graph_file)
    return model.folder if graph_file is None else look_at_folder(model.folder.path, graph_file)


def _place_of(path: str) -> str:
    """The folder of a published model where its acoustic model is given."""
    above = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    return above if os.path.isfile(path) and os.path.abspath(path) == model_in(above) else path
