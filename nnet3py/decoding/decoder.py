"""The decoder: finds the words that fit log-likelihoods best, with the graph HCLG, and lattices of alternatives."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3py.decoding.decoder_options import DecoderOptions
from nnet3py.decoding.decoding_graph import DecodingGraph
from nnet3py.decoding.lattice_decoder import Graph, LatticeDecoder
from nnet3py.engine.loop import Loop
from nnet3py.errors import ShapeError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.determinize import Determinized, determinize_phone_pruned
from nnet3py.lattices.determinize_options import PhoneDeterminizeOptions
from nnet3py.lattices.states import trimmed
from nnet3py.transducers.fst import Fst

_best_arcs = Loop("nnet3py.decoding.result_loops", "best_arcs",
                  "i8 i8[] i4[] f4[,] f4[,] f4[,] i8[] i4[] i8[]", ["nnet3py.decoding.search_layout"])

__all__ = ["Decoded", "Decoder", "DecoderOptions", "PhoneDeterminizeOptions"]


@dataclass(frozen=True, eq=False)
class Decoded:
    """What was found in one utterance.

    Attributes
    ----------
    words : int32, numbers of words
    alignment : int32 (frames,), transition-ids
    graph_cost, acoustic_cost : of the best path; the acoustic cost is scaled as the log-likelihoods were
    lattice : state-level, with acoustic costs scaled likewise
    reached_final : whether a final state of the graph was reached
    """

    words: np.ndarray
    alignment: np.ndarray
    graph_cost: float
    acoustic_cost: float
    lattice: Fst
    reached_final: bool

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood of the best path: graph and (scaled) acoustics."""
        return -(self.graph_cost + self.acoustic_cost)


class Decoder:
    """Decodes utterances with one graph, one after the other. Each thread needs a decoder; they can share the graph."""

    def __init__(self, graph: Graph | Fst, model: TransitionModel,
                 options: DecoderOptions | None = None) -> None:
        """ShapeError for a graph whose labels are not transition-ids of the model; UsageError for wrong options."""
        self.model = model
        self._search = LatticeDecoder(DecodingGraph.of_fst(graph, model) if isinstance(graph, Fst) else graph, options)

    @property
    def options(self) -> DecoderOptions:
        """How wide the search is."""
        return self._search.options

    def decode(self, log_likes: np.ndarray, options: DecoderOptions | None = None) -> Decoded | None:
        """Find the best path and a lattice.

        Parameters
        ----------
        log_likes : float32 (frames, pdfs), with the acoustic scale
        options : replace the current ones from now on

        Returns None if there is no path at all. Raises ShapeError for another number of columns than the model has
        pdfs, or for no frames; NumericError for NaN or infinity.
        """
        search = self._search
        if not len(log_likes):
            raise ShapeError(f"expected log-likelihoods of {search.graph.num_columns} pdfs for one or more frames, "
                             f"found a matrix of shape {log_likes.shape}")
        search.init(options)
        search.advance(log_likes)
        search.finalize()
        if not search.is_alive:
            return None
        return _decoded(trimmed(search.raw_lattice()), search.reached_final)

    def determinize(self, decoded: Decoded, options: PhoneDeterminizeOptions | None = None) -> Determinized:
        """The compact lattice of a result, with one path for each word sequence, within the lattice beam."""
        return determinize_phone_pruned(self.model, decoded.lattice, self.options.lattice_beam, options)


def _decoded(lattice: Fst, reached_final: bool) -> Decoded | None:
    size = lattice.num_states
    arcs = np.empty(size, dtype=np.int64)
    costs = np.empty((size, 2), dtype=np.float32)
    count = -1 if lattice.start < 0 else _best_arcs(
        lattice.start, lattice.arc_starts, lattice.next_states, lattice.weights, lattice.final_weights, costs,
        np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int32), arcs)
    if count < 0:
        return None
    end = int(lattice.next_states[arcs[0]]) if count else int(arcs[0])
    arcs = arcs[:count][::-1]
    inputs, outputs = lattice.input_labels[arcs], lattice.output_labels[arcs]
    total = costs[end] + lattice.final_weights[end]
    return Decoded(outputs[outputs != 0], inputs[inputs != 0], float(total[0]), float(total[1]), lattice,
                   reached_final)
