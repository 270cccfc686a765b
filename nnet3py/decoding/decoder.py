"""The decoder: the words that fit log-likelihoods best, with the graph HCLG. The search itself is kaldi-decoder's."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nnet3py.decoding.lattices import best_path, linear_lattice, sorted_lattice
from nnet3py.errors import Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.extras import install_command
from nnet3py.fst.openfst import from_openfst, to_openfst
from nnet3py.io.fst import Fst
from nnet3py.io.transition_model import TransitionModel

_NO_LIMIT = 2147483647


@dataclass(frozen=True)
class DecoderOptions:
    """How wide the search is. Costs are those after acoustic scaling.

    Attributes
    ----------
    beam : paths whose cost is larger than the best one's by more are given up
    max_active, min_active : states kept per frame, whatever the beam says; only where no lattices are made
    beam_delta, hash_ratio : details of the search with a limited number of states
    lattice_beam : how much worse than the best path what is kept in a lattice may be
    prune_interval : frames between prunings of a lattice that is being made
    lattices : make lattices; otherwise the best path only
    """

    beam: float = 16.0
    max_active: int = _NO_LIMIT
    min_active: int = 200
    beam_delta: float = 0.5
    hash_ratio: float = 2.0
    lattice_beam: float = 10.0
    prune_interval: int = 25
    lattices: bool = True

    def check(self) -> None:
        """UsageError for options that cannot be."""
        if not self.beam > 0.0 or not self.lattice_beam > 0.0:
            raise UsageError(f"--beam and --lattice-beam must be above 0, not {self.beam:g} and {self.lattice_beam:g}")
        if self.max_active <= 1 or not 0 <= self.min_active <= self.max_active:
            raise UsageError(f"--max-active must be above 1 and not below --min-active, which is 0 or more; found "
                             f"{self.max_active} and {self.min_active}")
        if self.prune_interval < 1 or not self.beam_delta > 0.0 or not self.hash_ratio >= 1.0:
            raise UsageError("--prune-interval must be 1 or more, --beam-delta above 0, --hash-ratio 1 or more; found "
                             f"{self.prune_interval}, {self.beam_delta:g}, {self.hash_ratio:g}")


@dataclass(frozen=True, eq=False)
class Decoded:
    """What was found in one utterance.

    Attributes
    ----------
    words : int32, numbers of words
    alignment : int32 (frames,), transition-ids
    graph_cost, acoustic_cost : of the best path; the acoustic cost as scaled as the log-likelihoods were
    lattice : with such costs; the best path only if no lattices are made
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
        """Of the best path, graph and (scaled) acoustics."""
        return -(self.graph_cost + self.acoustic_cost)


class Decoder:
    """Decodes utterances with one graph."""

    def __init__(self, graph: Fst, model: TransitionModel, options: DecoderOptions | None = None) -> None:
        """Nnet3Error if kaldi-decoder is missing, or for a graph whose labels are no transition-ids of the model."""
        try:
            import kaldi_decoder
        except ImportError as error:
            raise Nnet3Error(f"decoding needs the package kaldi-decoder: {error}",
                             hint=install_command("decode")) from None
        self._library: Any = kaldi_decoder
        self.options = options or DecoderOptions()
        self.options.check()
        self.num_pdfs = model.num_pdfs
        labels = graph.input_labels
        if graph.start < 0 or not len(labels):
            raise ShapeError("a graph for decoding needs states and arcs; this one has none")
        if not 0 <= int(labels.min()) <= int(labels.max()) <= model.num_transition_ids:
            raise ShapeError(f"the graph has labels {labels.min()} to {labels.max()}, but the model's transition-ids "
                             f"are 1 to {model.num_transition_ids}", "graph and model must belong together")
        if has_epsilon_cycle(graph):
            raise ShapeError("the graph has a circle of arcs without transition-ids, in which decoding would not end")
        self._pdf_of_id = model.transition_id_to_pdf[1:]
        self._graph = to_openfst(graph)

    def decode(self, log_likes: np.ndarray, options: DecoderOptions | None = None) -> Decoded | None:
        """Find the best path and, if asked for, a lattice.

        Parameters
        ----------
        log_likes : float32 (frames, pdfs), with the acoustic scale
        options : instead of those of the decoder

        Returns None if there is no path at all. Raises ShapeError for another number of columns than the model has
        pdfs, or for no frames; NumericError for NaN or infinity.
        """
        options = options or self.options
        if log_likes.ndim != 2 or log_likes.shape[1] != self.num_pdfs or not len(log_likes):
            raise ShapeError(f"expected log-likelihoods of {self.num_pdfs} pdfs for one or more frames, found "
                             f"a matrix of shape {log_likes.shape}")
        if not np.isfinite(log_likes).all():
            frame = int((~np.isfinite(log_likes)).any(axis=1).argmax())
            raise NumericError(f"NaN or infinity among the log-likelihoods of frame {frame}")
        # The library reads the column label - 1, so columns are made to be transition-ids.
        by_id = np.ascontiguousarray(log_likes[:, self._pdf_of_id], dtype=np.float32)
        decodable = self._library.DecodableCtc(by_id)
        return self._lattice(decodable, options) if options.lattices else self._best_path(decodable, options)

    def _best_path(self, decodable: Any, options: DecoderOptions) -> Decoded | None:
        search = self._library.FasterDecoder(self._graph, self._library.FasterDecoderOptions(
            beam=options.beam, max_active=options.max_active, min_active=options.min_active,
            beam_delta=options.beam_delta, hash_ratio=options.hash_ratio))
        search.decode(decodable)
        reached_final = bool(search.reached_final())
        found, lattice = search.get_best_path(use_final_probs=reached_final)
        return _decoded(from_openfst(lattice), reached_final) if found else None

    def _lattice(self, decodable: Any, options: DecoderOptions) -> Decoded | None:
        search = self._library.LatticeSimpleDecoder(self._graph, self._library.LatticeSimpleDecoderConfig(
            beam=options.beam, lattice_beam=options.lattice_beam, prune_interval=options.prune_interval))
        reached_final = bool(search.decode(decodable))
        # Where no final state was reached, the library takes all states for final, if asked to use final costs.
        found, lattice = search.get_raw_lattice(use_final_probs=True)
        return _decoded(from_openfst(lattice), reached_final) if found else None


def _decoded(lattice: Fst, reached_final: bool) -> Decoded | None:
    lattice = sorted_lattice(lattice)
    path = best_path(lattice)
    if path is None:
        return None
    is_line = lattice.num_arcs == len(path.arcs)
    return Decoded(path.words, path.alignment, path.graph_cost, path.acoustic_cost,
                   linear_lattice(lattice, path.arcs) if is_line else lattice, reached_final)


def has_epsilon_cycle(graph: Fst) -> bool:
    """Whether arcs without input labels make a circle."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    epsilon = graph.input_labels == 0
    sources, targets = graph.sources[epsilon], graph.next_states[epsilon]
    if (sources == targets).any():
        return True
    edges = csr_matrix((np.ones(len(sources), dtype=bool), (sources, targets)), shape=(graph.num_states,) * 2)
    return bool(connected_components(edges, directed=True, connection="strong")[0] < graph.num_states)
