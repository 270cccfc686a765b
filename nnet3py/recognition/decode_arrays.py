"""From arrays to words: log-likelihoods or features of a whole utterance, decoded. Kaldi: latgen-faster-mapped."""
from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnet3py.advice import arguments_elsewhere
from nnet3py.decoding.decoding_graph import DecodingGraph
from nnet3py.decoding.lattice_decoder import Decoder, Graph
from nnet3py.decoding.options import DecoderOptions
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.lattices.scaling import Scales, scaled
from nnet3py.option_fields import OptionValue
from nnet3py.recognition.front_end import FrontEndOutput
from nnet3py.recognition.recognizer import read_decoding_graph
from nnet3py.recognition.scorer import Model, Scorer
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import Fst

GraphOrFile: TypeAlias = "Graph | Fst | str | os.PathLike[str]"


@dataclass(frozen=True, eq=False)
class DecodedText:
    """What was recognized in an utterance.

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
def decode(model: Model, log_likes: np.ndarray | FrontEndOutput, graph: GraphOrFile | None = None, *,
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
    parts = _Parts(model, graph, words)
    matrix = parts.log_likes(log_likes, ivector, device)
    scale = parts.acoustic_scale(acoustic_scale)
    decoder = Decoder(parts.graph, parts.transitions, parts.options(options))
    decoded = decoder.decode((matrix * np.float32(scale)).astype(np.float32))
    if decoded is None:
        raise Nnet3Error("no path through the graph is left", "a wider beam may keep one")
    lattice = scaled(decoder.determinize(decoded).lattice, Scales(1.0, 1.0 / scale))
    return DecodedText(parts.names(decoded.words), decoded.words, decoded.alignment, decoded.graph_cost,
                       decoded.acoustic_cost, lattice, decoded.reached_final)


class _Parts(Scorer):
    """What is needed for decoding, from what is given."""

    def __init__(self, model: Model, graph: GraphOrFile | None, words: str | os.PathLike[str] | SymbolTable | None
                 ) -> None:
        graph_file = os.fspath(graph) if isinstance(graph, str | os.PathLike) else None
        super().__init__(model, graph_file)
        if graph_file is not None and self.folder is None:
            self.graph: Graph | Fst = DecodingGraph.read(graph_file, self.transitions)
        elif isinstance(graph, str | os.PathLike) or graph is None:
            self.graph = self._graph_of_folder()
        else:
            self.graph = graph
        self._words = self._table(words, graph_file)

    def _graph_of_folder(self) -> Graph:
        if self.folder is None:
            raise UsageError("there is no graph to search", "give graph=, or the folder of a model that has one; "
                             "decode_phones needs none")
        if not self.folder.graph:
            raise Nnet3Error(f"{self.folder.path}: {'; '.join(self.folder.missing)}", "give graph=; decode_phones "
                             "needs none")
        return read_decoding_graph(self.folder, self.transitions)

    def _table(self, words: str | os.PathLike[str] | SymbolTable | None,
               graph_file: str | None) -> SymbolTable | None:
        if isinstance(words, SymbolTable):
            return words
        path = os.fspath(words) if words is not None else self.folder.words if self.folder is not None else ""
        if not path and graph_file is not None:
            beside = os.path.join(os.path.dirname(graph_file), "words.txt")
            path = beside if os.path.isfile(beside) else ""
        return SymbolTable.read(path) if path else None

    def names(self, numbers: np.ndarray) -> tuple[str, ...]:
        """The names of words."""
        if self._words is None:
            return tuple(map(str, numbers.tolist()))
        table = self._words
        return tuple(table.text([number]) for number in numbers.tolist())
