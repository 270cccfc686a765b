"""From arrays to words: log-likelihoods or features of a whole utterance, decoded. Kaldi: latgen-faster-mapped."""
from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.advice import arguments_elsewhere
from nnet3py.conf_file import checked_value
from nnet3py.decoding.decoder import Decoder
from nnet3py.decoding.decoder_options import DecoderOptions
from nnet3py.decoding.decoding_graph import DecodingGraph
from nnet3py.decoding.lattice_decoder import Graph
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.scaling import Scales, scaled
from nnet3py.network.model_place import model_in, subsampling_beside
from nnet3py.option_fields import OptionValue, with_values
from nnet3py.recognition import option_tables as tables
from nnet3py.recognition.front_end import FrontEndOutput
from nnet3py.recognition.model_folder import ModelFolder, look_at_folder
from nnet3py.recognition.recognizer import Recognizer, read_decoding_graph
from nnet3py.runtime.compute import ComputeOptions, UtteranceComputer
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import Fst

FRAMES_PER_CHUNK = 150
_CHAIN_SCALE = 1.0

Model = str | os.PathLike[str] | AcousticModel | TransitionModel
GraphOrFile: TypeAlias = "Graph | Fst | str | os.PathLike[str]"


@dataclass(frozen=True, eq=False)
class DecodedText:
    """What was recognised in an utterance.

    Attributes
    ----------
    words : their names; their numbers where the names are not known
    word_ids : int32 (words,), their numbers
    transition_ids : int32 (frames,), of the best path
    graph_cost, acoustic_cost : of the best path; the acoustic cost is scaled
    lattice : the alternatives within the lattice beam, one path for each sequence of words; its acoustic costs are
        without the acoustic scale, as Kaldi writes it
    reached_final : whether the best path ends where the graph lets utterances end
    """

    words: tuple[str, ...]
    word_ids: NDArray[np.int32] = field(repr=False)
    transition_ids: NDArray[np.int32] = field(repr=False)
    graph_cost: float
    acoustic_cost: float
    lattice: CompactLattice = field(repr=False)
    reached_final: bool

    @property
    def text(self) -> str:
        """The words, with blanks between them."""
        return " ".join(self.words)


@arguments_elsewhere(
    beam_or_max_active_or_lattice_beam="options={'beam': 13}", scale_or_acwt="acoustic_scale=", fst_or_hclg="graph=",
    ivectors="ivector=", feats_or_features="they come second: decode(folder, feats)")
def decode(model: Model | Recognizer, log_likes: np.ndarray | FrontEndOutput, graph: GraphOrFile | None = None, *,
           ivector: np.ndarray | None = None, options: DecoderOptions | Mapping[str, OptionValue] | None = None,
           acoustic_scale: float | None = None, words: str | os.PathLike[str] | SymbolTable | None = None,
           device: str = "cpu") -> DecodedText:
    """The words of an utterance, from the network's outputs or from features.

    Parameters
    ----------
    model : a model folder, a recognizer, an acoustic model or its file; or, for log-likelihoods, only its transition
        model
    log_likes : float (frames, pdfs), log-likelihoods without the acoustic scale, with the priors divided out: outputs
        of :func:`compute` for a chain model, of :class:`UtteranceComputer` with priors for others. Or features, float
        (frames, dim of the network's input), if that is another number of columns; or what :func:`front_end` made of
        a sound
    graph : HCLG, in memory or a file (HCLr.fst with Gr.fst beside it, too); None: the model folder's own
    ivector : float (ivector dim,), for features alone
    options : of the search, or some of them by Kaldi's names, such as ``{"beam": 13}``; what is not given is as the
        folder says, else as :class:`DecoderOptions` begins
    acoustic_scale : of the log-likelihoods; None: as the folder says, else 1 for a model without priors, 0.1 with
    words : the names of words; None: the folder's, or words.txt beside the graph
    device : ``cpu`` or ``cuda``, for the network

    Returns
    -------
    DecodedText : the words of the best path, and the lattice

    Raises
    ------
    ShapeError : arrays of another number of columns than model and graph have
    Nnet3Error : files that are missing or do not fit each other; no path through the graph is left
    """
    parts = _Parts(model.folder.path if isinstance(model, Recognizer) else model, graph, words)
    if isinstance(log_likes, FrontEndOutput):
        log_likes, ivector = parts.compute(log_likes.features, log_likes.ivector if ivector is None else ivector,
                                           device), None
    matrix = np.asarray(log_likes)
    num_pdfs, input_dim = parts.transitions.num_pdfs, parts.input_dim
    if matrix.ndim != 2 or matrix.shape[1] not in (num_pdfs, input_dim):
        features = f", or features of dimension {input_dim}" if input_dim else ""
        raise ShapeError(f"expected log-likelihoods (frames, {num_pdfs}){features}, found an array of shape "
                         f"{matrix.shape}", "of a sound: nnet3py.Recognizer(folder).transcribe('a.wav')"
                         if matrix.ndim < 2 else "the model must be that of the graph and of the arrays")
    if matrix.shape[1] != num_pdfs:
        matrix = parts.compute(matrix, ivector, device)
    scale = parts.acoustic_scale() if acoustic_scale is None else float(acoustic_scale)
    if not 0.0 < scale < float("inf"):
        raise UsageError(f"acoustic_scale={scale:g}: expected a number above 0")
    decoder = Decoder(parts.graph, parts.transitions, parts.options(options))
    decoded = decoder.decode((matrix * np.float32(scale)).astype(np.float32))
    if decoded is None:
        raise Nnet3Error("no path through the graph is left", "a wider beam may keep one")
    lattice = scaled(decoder.determinize(decoded).lattice, Scales(1.0, 1.0 / scale))
    return DecodedText(parts.names(decoded.words), decoded.words, decoded.alignment, decoded.graph_cost,
                       decoded.acoustic_cost, lattice, decoded.reached_final)


class _Parts:
    """What is needed for decoding, from what is given."""

    def __init__(self, model: Model, graph: GraphOrFile | None, words: str | os.PathLike[str] | SymbolTable | None
                 ) -> None:
        self._folder: ModelFolder | None = None
        graph_file = os.fspath(graph) if isinstance(graph, str | os.PathLike) else None
        if isinstance(model, str | os.PathLike):
            self._folder = look_at_folder(_place_of(os.fspath(model)), graph_file)
            if not self._folder.model:
                raise Nnet3Error(f"{self._folder.path}: {'; '.join(self._folder.missing)}")
            model = read_model(self._folder.model)
        self._model = model if isinstance(model, AcousticModel) else None
        self.transitions = model.transition_model if isinstance(model, AcousticModel) else model
        if graph_file is not None and self._folder is None:
            self.graph: Graph | Fst = DecodingGraph.read(graph_file, self.transitions)
        elif isinstance(graph, str | os.PathLike) or graph is None:
            self.graph = self._graph_of_folder()
        else:
            self.graph = graph
        self._words = self._table(words, graph_file)

    def _graph_of_folder(self) -> Graph:
        if self._folder is None:
            raise UsageError("there is no graph to search", "give graph=, or the folder of a model that has one")
        if not self._folder.graph:
            raise Nnet3Error(f"{self._folder.path}: {'; '.join(self._folder.missing)}", "give graph=")
        return read_decoding_graph(self._folder, self.transitions)

    def _table(self, words: str | os.PathLike[str] | SymbolTable | None,
               graph_file: str | None) -> SymbolTable | None:
        if isinstance(words, SymbolTable):
            return words
        path = os.fspath(words) if words is not None else self._folder.words if self._folder is not None else ""
        if not path and graph_file is not None:
            beside = os.path.join(os.path.dirname(graph_file), "words.txt")
            path = beside if os.path.isfile(beside) else ""
        return SymbolTable.read(path) if path else None

    @property
    def input_dim(self) -> int:
        """Columns of features; 0 where the network is not known."""
        return 0 if self._model is None else self._model.nnet.input_dim("input")

    def names(self, numbers: np.ndarray) -> tuple[str, ...]:
        """The names of words."""
        if self._words is None:
            return tuple(map(str, numbers.tolist()))
        table = self._words
        return tuple(table.text([number]) for number in numbers.tolist())

    def acoustic_scale(self) -> float:
        """What the folder says, else what Kaldi's scripts take for such a model."""
        if self._folder is not None and "acoustic-scale" in self._folder.options:
            return float(self._folder.options["acoustic-scale"])
        has_priors = self._model is not None and len(self._model.priors)
        return float(tables.LOOPED["acoustic-scale"]) if has_priors else _CHAIN_SCALE

    def options(self, given: DecoderOptions | Mapping[str, OptionValue] | None) -> DecoderOptions:
        """How wide the search is."""
        if isinstance(given, DecoderOptions):
            return given
        values = dict(self._folder.options) if self._folder is not None else {}
        for name, value in (given or {}).items():
            key = name.replace("_", "-")
            values[key] = checked_value(key, str(value), tables.DECODING)
        return with_values(DecoderOptions(), values)

    def compute(self, feats: np.ndarray, ivector: np.ndarray | None, device: str) -> np.ndarray:
        """Log-likelihoods of features, with the priors divided out, float32 (frames, pdfs)."""
        if self._model is None:
            raise UsageError("a transition model computes nothing of features", "give an acoustic model")
        factor = subsampling_beside(self._model.nnet.path)
        computer = UtteranceComputer(self._model.nnet, ComputeOptions(
            frame_subsampling_factor=factor, frames_per_chunk=FRAMES_PER_CHUNK), self._model.priors, device)
        return computer.compute(feats, ivector)


def _place_of(path: str) -> str:
    """The folder of a published model where its acoustic model is given."""
    above = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    return above if os.path.isfile(path) and os.path.abspath(path) == model_in(above) else path
