"""Speaker vectors of segments, computed by an x-vector model besides the acoustic model. vosk: ``SpkModel``."""
from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnet3py.decoding.lattice_decoder import LatticeDecoder
from nnet3py.errors import Nnet3Error, ShapeError, within
from nnet3py.feat.cmvn import normalize_sliding
from nnet3py.feat.speech import SpeechFeatures, speech_options
from nnet3py.formats.matrices import read_matrix, read_vector
from nnet3py.io.object_files import read_object
from nnet3py.ivectors.scoring import Plda
from nnet3py.network.model_file import read_nnet
from nnet3py.option_file import read_conf
from nnet3py.recognition import options as tables
from nnet3py.recognition.pipeline import FeatureStream
from nnet3py.runtime.options import XvectorOptions
from nnet3py.runtime.xvectors import XvectorComputer

_FILES = CONF, NETWORK, MEAN, TRANSFORM = "mfcc.conf", "final.ext.raw", "mean.vec", "transform.mat"
PLDA = "plda"                  # an optional file
_WINDOW = 300                  # frames over which the mean is computed
_LEAST_FRAMES = 50
_LONGEST_LOOK_BACK = 500       # last decoded frames of a segment that are used


class SpeakerVector(NamedTuple):
    """The speaker vector of a segment, float32 (dim,), and the number of frames from which it was computed.
    """

    vector: np.ndarray
    num_frames: int


@dataclass(frozen=True, eq=False)
class SpeakerModel:
    """An x-vector model: features, network and whitening; any number of streams share it."""

    path: str                 # folder of the model
    features: SpeechFeatures  # computes the network's input
    # mean, transform: float32 (output dim,) and (dim, output dim), for whitening the network's output
    mean: np.ndarray
    transform: np.ndarray
    plda: Plda | None  # for comparing vectors; None if the folder has no file ``plda``
    _computer: XvectorComputer = field(repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SpeakerModel:
        """Read a folder with mfcc.conf, final.ext.raw, mean.vec and transform.mat.

        Raises Nnet3Error for missing files, which are named, or an invalid file; ShapeError for files that do not fit
        each other.
        """
        folder = os.fspath(path)
        missing = [name for name in _FILES if not os.path.isfile(os.path.join(folder, name))]
        if missing:
            raise Nnet3Error(f"{folder} is no folder of a speaker model: there is no {', '.join(missing)}",
                             "give the folder of a speaker model, such as vosk-model-spk")
        conf, network, mean_path, transform_path = (os.path.join(folder, name) for name in _FILES)
        with within(conf):
            values = {**read_conf(conf, tables.of_features("mfcc")), "dither": 0.0, "allow-downsample": True}
            values.pop("output-format", None)
            features = SpeechFeatures(speech_options("mfcc", values))
        mean, transform = read_object(mean_path, read_vector), read_object(transform_path, read_matrix)
        with within(network):
            computer = XvectorComputer(read_nnet(network), XvectorOptions(min_chunk_size=1))
        io = computer._chunks.io
        if io.input_dim != features.dim:
            raise ShapeError(f"{folder}: {CONF} makes {features.dim} features, but the network takes {io.input_dim}",
                             "are all files of one model?")
        if len(mean) != io.output_dim or transform.shape[1] != len(mean):
            raise ShapeError(f"{folder}: the network makes vectors of {io.output_dim} numbers, but {MEAN} has "
                             f"{len(mean)} numbers, {TRANSFORM} {transform.shape[1]} columns",
                             "are all files of one model?")
        path_of_plda = os.path.join(folder, PLDA)
        plda = read_object(path_of_plda, Plda.read) if os.path.isfile(path_of_plda) else None
        if plda is not None and plda.dim != len(transform):
            raise ShapeError(f"{path_of_plda} is for vectors of {plda.dim} numbers, {TRANSFORM} makes {len(transform)}")
        return cls(folder, features, mean, transform, plda, computer)

    def vector(self, frames: np.ndarray) -> np.ndarray:
        """Return the vector of one speaker's frames, float32 (dim,), of length √dim; frames are (frames, features).

        vosk: Recognizer::GetSpkVector.
        """
        vector: np.ndarray = self.vectors(frames, [(0, len(frames))])[0]
        return vector

    def vectors(self, frames: np.ndarray, pieces: Sequence[tuple[int, int]]) -> np.ndarray:
        """Return the x-vectors of pieces of a sound, float32 (pieces, dim), scaled to length √dim.

        ``frames`` are the features of the whole sound, (frames, features dim); ``pieces`` are (first frame, frame after
        the last). From each frame the mean of the three seconds around it is subtracted, also beyond a piece.
        """
        normalized = normalize_sliding(frames, _WINDOW, center=True)
        with self._lock:
            computed = np.stack([self._computer.compute(normalized[begin:end]) for begin, end in pieces])
        vectors = (computed - self.mean) @ self.transform.T
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        scales = np.sqrt(vectors.shape[1]) / np.where(lengths > 0, lengths, np.sqrt(vectors.shape[1]))
        return (vectors * scales).astype(np.float32)


class SpeakerStream:
    """A computer of speaker vectors for the segments of one stream.

    ``model``: SpeakerModel. ``is_silence``: bool (transition-ids + 1,), whether a transition-id is silence.
    ``frame_subsampling_factor``: frames of features for each decoded frame.
    """

    def __init__(self, model: SpeakerModel, is_silence: np.ndarray, frame_subsampling_factor: int) -> None:
        self._model, self._is_silence, self._subsampling = model, is_silence, frame_subsampling_factor
        self._features = FeatureStream(model.features)
        self._frames: list[np.ndarray] = []
        self._first = 0                    # number of the first frame in the list

    def accept_waveform(self, samples: np.ndarray, rate: float) -> None:
        """Take samples, float32 (samples,) of the range of 16 bits, ``rate`` of them a second."""
        self._frames.append(self._features.accept(samples, rate))

    def segment_vector(self, search: LatticeDecoder, first_frame: int) -> SpeakerVector | None:
        """Return the speaker vector of the current segment, which began with decoded frame ``first_frame``.

        None if the best path of ``search``, the segment's search, has less than half a second of speech. Frees the
        memory of earlier segments.
        """
        frames = np.concatenate(self._frames) if self._frames else np.zeros((0, self._model.features.dim), np.float32)
        frames = frames[first_frame * self._subsampling - self._first:]
        self._frames, self._first = [frames], first_frame * self._subsampling
        path = search.best_path(True) if search.num_frames else None
        if path is None:
            return None
        said = ~self._is_silence[path.alignment]
        said[:max(0, len(said) - _LONGEST_LOOK_BACK)] = False
        chosen = np.repeat(said, self._subsampling)[:len(frames)]
        frames = frames[:len(chosen)][chosen]
        if len(frames) < _LEAST_FRAMES:
            return None
        return SpeakerVector(self._model.vector(frames), len(frames))
