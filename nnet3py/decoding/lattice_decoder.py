"""The lattice decoder: :class:`LatticeDecoder` searches frame by frame, :class:`Decoder` decodes whole utterances.

Kaldi: LatticeFasterDecoder, LatticeFasterOnlineDecoder. The state of the search is in arrays that compiled loops change
(``search_loops.py``, ``lattice_loops.py``); other threads can run meanwhile.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnet3py.decoding import layout
from nnet3py.decoding.composed_graphs import GrammarGraph, LookaheadGraph
from nnet3py.decoding.decoding_graph import DecodingGraph, LazyGraph
from nnet3py.decoding.options import DecoderOptions
from nnet3py.engine.loop import Loop
from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.determinize import Determinized, determinize_phone_pruned
from nnet3py.lattices.determinize_options import PhoneDeterminizeOptions
from nnet3py.lattices.states import trimmed
from nnet3py.lattices.structures import types_of
from nnet3py.transducers.fst import NO_STATE, NO_WEIGHT, Fst
from nnet3py.transducers.lattice import LATTICE
from nnet3py.transducers.state_graphs import enlarged

_SEARCH, _LATTICE = "nnet3py.decoding.search_loops", "nnet3py.decoding.lattice_loops"
_USES = ["nnet3py.decoding.layout", _LATTICE, "nnet3py.lattices.structures"]
_GRAPH, _TOKENS, _TABLE = map(types_of, (layout.Graph, layout.Tokens, layout.Table))
_begin = Loop(_SEARCH, "begin", f"{_GRAPH} {_TOKENS} {_TABLE} i8", _USES)
_advance = Loop(_SEARCH, "advance", f"{_GRAPH} {_TOKENS} {_TABLE} f4[] f4[,]", _USES)
_best_ends = Loop(_LATTICE, "best_ends", f"f4* {_TOKENS} f4[] i8[]", _USES)
_finalize = Loop(_LATTICE, "finalize", f"f4* {_TOKENS} i8 f4", _USES)
_prune = Loop(_LATTICE, "prune", _TOKENS, _USES)
_trace_back = Loop(_LATTICE, "trace_back", f"{_TOKENS} i8 i8 i4[,] f4[,]", _USES)
_place_tokens = Loop(_LATTICE, "place_tokens", f"{_TOKENS} i4[]", _USES)
_write_lattice = Loop(_LATTICE, "write_lattice", f"{_TOKENS} i4[] i4[] i8[] i4[] i4[] f4[,] i4[]", _USES)
_best_arcs = Loop(_LATTICE, "best_arcs", "i8 i8[] i4[] f4[,] f4[,] f4[,] i8[] i4[] i8[]", _USES)

Graph: TypeAlias = "DecodingGraph | LookaheadGraph | GrammarGraph"

_FIRST_HASH_SIZE = 1000
_FIRST_TOKENS, _FIRST_LINKS, _FIRST_FRAMES, _FIRST_STACK = 1 << 12, 1 << 13, 1 << 8, 1 << 10


class BestPath(NamedTuple):
    """The best path of a decoder through the frames so far."""

    # inputs, outputs: int32 (arcs,), transition-ids and numbers of words; 0: none
    inputs: NDArray[np.int32]
    outputs: NDArray[np.int32]
    weights: NDArray[np.float32]  # float32 (arcs, 2), graph and acoustic costs
    final_cost: float             # cost of the graph's final state at the end; 0 if not requested, or not final

    @property
    def words(self) -> NDArray[np.int32]:
        """Numbers of the words, int32 (words,)."""
        return self.outputs[self.outputs != 0]

    @property
    def alignment(self) -> NDArray[np.int32]:
        """Transition-ids, int32 (frames,)."""
        return self.inputs[self.inputs != 0]


class LatticeDecoder:
    """A search through a graph, frame by frame, one utterance after the other.

    The order in which states are visited depends on the size of a hash table that never shrinks, as in Kaldi: results
    near the beam can depend on earlier utterances. A new decoder costs little. Raises UsageError for invalid options.

    Parameters
    ----------
    graph : DecodingGraph, LookaheadGraph or GrammarGraph; decoders may share a graph
    options : DecoderOptions, beams and limits of the search; None: Kaldi's defaults
    """

    def __init__(self, graph: Graph, options: DecoderOptions | None = None) -> None:
        self.graph: DecodingGraph | LazyGraph = graph.for_decoder()
        self.options = options or DecoderOptions()
        self._counts = np.zeros(layout.NUM_COUNTS, dtype=np.int64)
        self._limits = np.zeros(layout.NUM_LIMITS, dtype=np.float32)
        self._counts[layout.HASH_SIZE] = _FIRST_HASH_SIZE
        self._tokens = np.empty((_FIRST_TOKENS, layout.TOKEN_WORDS), dtype=np.int32)
        self._links = np.empty((_FIRST_LINKS, layout.LINK_WORDS), dtype=np.int32)
        self._frames = np.empty((_FIRST_FRAMES, layout.FRAME_WORDS), dtype=np.int64)
        self._offsets = np.empty(_FIRST_FRAMES, dtype=np.float32)
        self._stack = np.empty(_FIRST_STACK, dtype=np.int32)
        self._order = self._remap = np.empty(0, dtype=np.int32)
        self._make_tables(_FIRST_HASH_SIZE)
        self._make_scratch()
        self._is_final = False
        self._ends: _Ends | None = None         # None: must be computed
        self.init()

    def __repr__(self) -> str:
        return f"<LatticeDecoder: {self.num_frames} frames{', ended' * self._is_final}>"

    # -- searching -----------------------------------------------------------------------------------------------------

    def init(self, options: DecoderOptions | None = None) -> None:
        """Begin a new utterance; ``options`` replace the current ones from now on. Kaldi: InitDecoding."""
        options = self.options = options or self.options
        options.check()
        self._counts[[layout.MAX_ACTIVE, layout.MIN_ACTIVE, layout.PRUNE_INTERVAL]] = (
            options.max_active, options.min_active, options.prune_interval)
        self._limits[[layout.BEAM, layout.LATTICE_BEAM, layout.BEAM_DELTA, layout.HASH_RATIO]] = (
            options.beam, options.lattice_beam, options.beam_delta, options.hash_ratio)
        self._limits[layout.PRUNE_DELTA] = np.float32(options.lattice_beam) * np.float32(options.prune_scale)
        self._counts[layout.PHASE] = layout.PRUNING
        self._buckets[:, 0] = -1
        self._is_final, self._ends = False, None
        while status := _begin(*self._graph_tables(), *self._search(), *self._table(), self.graph.start):
            self._make_room(status)

    def advance(self, log_likes: np.ndarray) -> None:
        """Continue the search through more frames. Kaldi: AdvanceDecoding.

        Raises ShapeError for another number of columns than the graph's model has pdfs; NumericError for NaN or
        infinity; UsageError if the utterance has been finalized.

        Parameters
        ----------
        log_likes : float32 (frames, pdfs), log-likelihoods, multiplied by the acoustic scale
        """
        if log_likes.ndim != 2 or log_likes.shape[1] != self.graph.num_columns:
            raise ShapeError(f"expected log-likelihoods of {self.graph.num_columns} pdfs, found a matrix of shape "
                             f"{log_likes.shape}")
        if self._is_final:
            raise UsageError("no frame can follow after finalize()", "init() begins a new utterance")
        log_likes = np.require(log_likes, np.float32, ["C", "A", "W"])
        if not np.isfinite(log_likes).all():
            frame = int((~np.isfinite(log_likes)).any(axis=1).argmax()) + self.num_frames
            raise NumericError(f"expected finite log-likelihoods, found NaN or infinity in frame {frame}")
        self._counts[layout.ROW], self._ends = 0, None
        while status := _advance(*self._graph_tables(), *self._search(), *self._table(), self._chosen, log_likes):
            self._make_room(status)

    def finalize(self) -> None:
        """End the utterance and prune the lattice with final costs. Kaldi: FinalizeDecoding."""
        best = self._best_ends()
        any_final = best.with_final < np.inf
        _finalize(self.graph.states, *self._search(), int(any_final), best.with_final if any_final else best.cost)
        self._is_final, self._ends = True, None

    def _graph_tables(self) -> layout.Graph:
        return layout.Graph(self.graph.states, self.graph.arcs, self.graph.arcs, self.graph.pdfs)

    def _search(self) -> layout.Tokens:
        return layout.Tokens(self._tokens, self._token_costs, self._links, self._link_costs, self._frames,
                             self._offsets, self._remap, self._counts, self._limits)

    def _table(self) -> layout.Table:
        return layout.Table(self._buckets, self._used, self._order, self._stack)

    def _make_room(self, status: int) -> None:
        """Enlarge the array, or expand the graph's states, that the loops' return value ``status`` names."""
        if status in (layout.MORE_ARCS, layout.FEWER_ARCS):
            self._change_lazy_graph(status)
        elif status == layout.MORE_TOKENS:
            self._tokens = enlarged(self._tokens)
        elif status == layout.MORE_LINKS:
            self._links = enlarged(self._links)
        elif status == layout.MORE_FRAMES:
            self._frames, self._offsets = enlarged(self._frames), enlarged(self._offsets)
        elif status == layout.MORE_STACK:
            self._stack = enlarged(self._stack)
        elif status == layout.MORE_BUCKETS:
            self._make_tables(2 * int(self._counts[layout.HASH_WANTED]))
        self._make_scratch()

    def _change_lazy_graph(self, status: int) -> None:
        """Expand the graph's states that active tokens are in, or drop all its states but these (FEWER_ARCS)."""
        graph, counts = self.graph, self._counts
        assert isinstance(graph, LazyGraph)
        newest = counts[layout.FRAME]
        first, end = self._frames[newest, layout.FIRST_TOKEN], counts[layout.NUM_TOKENS]
        if status == layout.FEWER_ARCS:
            states = self._tokens[first:end, layout.STATE]
            self._tokens[first:end, layout.STATE] = graph.restart(states)
            counts[layout.TIDY] = 0
            return
        if counts[layout.PHASE] in (layout.ENTERING_EPSILONS, layout.EPSILONS):
            tokens, cutoff = self._stack[:counts[layout.NUM_STACK]], self._limits[layout.NEXT_CUTOFF]
        else:
            if counts[layout.PHASE] == layout.EMITTING:
                first, end = self._frames[newest - 1, layout.FIRST_TOKEN], first
            tokens, cutoff = np.arange(first, end, dtype=np.int32), self._limits[layout.CUTOFF]
        tokens = tokens[self._token_costs[tokens, layout.TOTAL] <= cutoff]
        graph.expand(self._tokens[tokens, layout.STATE])
        counts[layout.TIDY] = graph.is_full

    def _make_tables(self, size: int) -> None:
        self._buckets = np.full((size, layout.BUCKET_WORDS), -1, dtype=np.int32)
        self._used = np.empty(size, dtype=np.int32)

    def _make_scratch(self) -> None:
        """Make views of tokens and links as costs, and scratch arrays of their sizes."""
        self._token_costs, self._link_costs = self._tokens.view(np.float32), self._links.view(np.float32)
        if len(self._order) < len(self._tokens):
            order = np.empty(len(self._tokens), dtype=np.int32)
            order[:len(self._order)] = self._order
            self._order, self._chosen = order, np.empty(len(order), dtype=np.float32)
        if len(self._remap) < len(self._links):
            self._remap = np.empty(len(self._links), dtype=np.int32)

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def num_frames(self) -> int:
        """Number of decoded frames. Kaldi: NumFramesDecoded."""
        return int(self._counts[layout.FRAME])

    @property
    def num_active(self) -> int:
        """Number of states that are active in the newest frame."""
        return int(self._counts[layout.NUM_TOKENS] - self._frames[self.num_frames, layout.FIRST_TOKEN])

    @property
    def is_alive(self) -> bool:
        """True if there are active states; False if pruning has left no path."""
        return bool(self._best_ends().cost < np.inf)

    def final_relative_cost(self) -> float:
        """Return the cost of the best path to a final state minus that of the best path. Kaldi: FinalRelativeCost.

        Infinity if no final state is reached.
        """
        best = self._best_ends()
        return float(best.with_final - best.cost) if best.with_final < np.inf else float("inf")

    @property
    def reached_final(self) -> bool:
        """True if a final state of the graph is reached. Kaldi: ReachedFinal."""
        return bool(self._best_ends().with_final < np.inf)

    def best_path(self, use_final: bool = True) -> BestPath | None:
        """Return the best path so far; None if there is none. The lattice does not change. Kaldi: GetBestPath.

        Parameters
        ----------
        use_final : whether final costs are added, if a final state is reached
        """
        best = self._best_ends()
        if not best.cost < np.inf:
            return None
        use_final = use_final and bool(best.with_final < np.inf)
        end = self._newest_token(best.place_with_final if use_final else best.place)
        labels, weights = self._best_path_to(end, 0)
        final = float(self.graph.final_costs[self._tokens[end, layout.STATE]]) if use_final else 0.0
        return BestPath(labels[:, 0].copy(), labels[:, 1].copy(), weights.copy(), final)

    def recent_alignment(self, num_frames: int) -> np.ndarray:
        """Return the transition-ids of the last ``num_frames`` frames on the best path so far, int32 (frames,).

        The best path is that without final costs. The result is shorter if fewer frames were decoded, and empty if
        there is no path.
        """
        best = self._best_ends()
        if not best.cost < np.inf:
            return np.zeros(0, dtype=np.int32)
        labels, _ = self._best_path_to(self._newest_token(best.place), max(0, self.num_frames - num_frames))
        inputs = labels[:, 0]
        return inputs[inputs != 0]

    def _newest_token(self, place: int) -> int:
        return int(self._frames[self.num_frames, layout.FIRST_TOKEN]) + place

    def _first_tokens(self) -> np.ndarray:
        """Return the first token of each frame, and the number of tokens, int64 (frames + 2,)."""
        return np.append(self._frames[:self.num_frames + 1, layout.FIRST_TOKEN], self._counts[layout.NUM_TOKENS])

    def frame_with_few_paths(self, first: int, most_tokens: int) -> int:
        """Prune the lattice; return the frame from ``first`` on with the fewest tokens, the last of equal ones.

        -1 if all of them have more than ``most_tokens``. Kaldi:
        LatticeIncrementalDecoder::UpdateLatticeDeterminization.
        """
        _prune(*self._search())
        self._ends = None
        sizes = np.diff(self._first_tokens())[first:]
        if not len(sizes) or int(sizes.min()) > most_tokens:
            return -1
        return self.num_frames - int(sizes[::-1].argmin())

    def _best_path_to(self, token: int, first_frame: int) -> tuple[np.ndarray, np.ndarray]:
        """Return labels, int32 (arcs, 2), and costs, float32 (arcs, 2), of the best path to a token.

        Arcs before ``first_frame`` are left out.
        """
        most = 2 * (self.num_frames - first_frame) + 16
        while True:
            labels, weights = np.empty((most, 2), dtype=np.int32), np.empty((most, 2), dtype=np.float32)
            count = _trace_back(*self._search(), token, first_frame, labels, weights)
            if count <= most:
                return labels[:count][::-1], weights[:count][::-1]
            most = count

    def raw_lattice(self, use_final: bool = True, num_frames: int | None = None) -> Fst:
        """Return the state-level lattice of the frames so far; empty if there is no path. Kaldi: GetRawLattice.

        The lattice has all paths within the lattice beam of the best path, and before :meth:`finalize` also some that
        are not.

        Parameters
        ----------
        use_final : whether final costs are added, if a final state is reached; otherwise all states at the end are
            final
        num_frames : number of frames, for determinizing a lattice in parts; None: all frames. The last states are final
            with their extra cost (of the best path through them to an active state, relative to the best path to
            that active state) minus the cost of the best path to them; ``use_final`` has no effect. Costs of paths are
            not those of whole utterances, but a beam keeps the paths that the search has kept. Kaldi:
            LatticeIncrementalDecoder
        """
        num_tokens, num_links = (int(self._counts[i]) for i in (layout.NUM_TOKENS, layout.NUM_LINKS))
        position = np.empty(num_tokens, dtype=np.int32)
        order = np.arange(num_tokens, dtype=np.int32)
        moved = _place_tokens(*self._search(), position)
        if moved < 0:
            raise ShapeError("the graph has a cycle of arcs without transition-ids, on which decoding does not end")
        if moved:
            starts = self._frames[:self.num_frames + 1, layout.FIRST_TOKEN]
            order = np.lexsort((position, np.searchsorted(starts, order, side="right"))).astype(np.int32)
        number = np.empty(num_tokens, dtype=np.int32)
        number[order] = np.arange(num_tokens, dtype=np.int32)
        arc_starts = np.empty(num_tokens + 1, dtype=np.int64)
        inputs, outputs, next_states = (np.empty(num_links, dtype=np.int32) for _ in range(3))
        weights = np.empty((num_links, 2), dtype=np.float32)
        count = _write_lattice(*self._search(), order, number, arc_starts, inputs, outputs, weights, next_states)
        lattice = Fst(0 if num_tokens else NO_STATE, self._final_weights(number, use_final), arc_starts, inputs[:count],
                      outputs[:count], weights[:count], next_states[:count], LATTICE)
        return lattice if num_frames is None else self._beginning(lattice, number, num_frames)

    def _beginning(self, lattice: Fst, number: np.ndarray, num_frames: int) -> Fst:
        """Return the first ``num_frames`` frames of a lattice; ``number`` has the lattice's state of each token."""
        first, end = self._first_tokens()[num_frames:num_frames + 2].tolist()
        finals = np.full((end, 2), NO_WEIGHT, dtype=np.float32)
        costs = self._token_costs[first:end]
        finals[number[first:end], 0] = costs[:, layout.EXTRA] - costs[:, layout.TOTAL]
        finals[first:, 1] = 0.0
        sources = lattice.sources
        kept = (sources < end) & (lattice.next_states < end)
        return Fst.from_arcs(lattice.start, finals, sources[kept], lattice.input_labels[kept],
                             lattice.output_labels[kept], lattice.weights[kept], lattice.next_states[kept], LATTICE)

    def _final_weights(self, number: np.ndarray, use_final: bool) -> np.ndarray:
        final = np.full((len(number), 2), NO_WEIGHT, dtype=np.float32)
        first = int(self._frames[self.num_frames, layout.FIRST_TOKEN])
        costs = self.graph.final_costs[self._tokens[first:len(number), layout.STATE]]
        if not use_final or not (costs < np.inf).any():
            costs = np.zeros(len(costs), dtype=np.float32)
        ends = number[first:][costs < np.inf]
        final[ends, 0], final[ends, 1] = costs[costs < np.inf], 0.0
        return final

    def _best_ends(self) -> _Ends:
        if self._ends is None:
            costs, places = np.empty(2, dtype=np.float32), np.empty(2, dtype=np.int64)
            _best_ends(self.graph.states, *self._search(), costs, places)
            self._ends = _Ends(costs[0], costs[1], int(places[0]), int(places[1]))
        return self._ends


class _Ends(NamedTuple):
    """The least cost of a token in the newest frame, without and with final costs, and that token's index in the frame.
    """

    cost: np.float32
    with_final: np.float32
    place: int
    place_with_final: int


@dataclass(frozen=True, eq=False)
class Decoded:
    """The result of decoding one utterance.

    Attributes
    ----------
    words : int32, numbers of words
    alignment : int32 (frames,), transition-ids
    graph_cost, acoustic_cost : costs of the best path; the acoustic cost includes the acoustic scale
    lattice : Fst, the state-level lattice, whose acoustic costs include the acoustic scale
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
        """Log-likelihood of the best path: minus the sum of its graph and acoustic costs."""
        return -(self.graph_cost + self.acoustic_cost)


class Decoder:
    """A decoder of whole utterances, one after the other. Each thread needs its own; they can share the graph.

    Raises ShapeError for a graph whose input labels are not transition-ids of the model; UsageError for invalid
    options.

    Parameters
    ----------
    graph : as for :class:`LatticeDecoder`, or an FST
    model : TransitionModel, whose transition-ids are the graph's input labels
    options : DecoderOptions, beams and limits of the search; None: Kaldi's defaults
    """

    def __init__(self, graph: Graph | Fst, model: TransitionModel,
                 options: DecoderOptions | None = None) -> None:
        self.model = model
        self._search = LatticeDecoder(DecodingGraph.of_fst(graph, model) if isinstance(graph, Fst) else graph, options)

    @property
    def options(self) -> DecoderOptions:
        """Beam, lattice beam and limits of the search."""
        return self._search.options

    def decode(self, log_likes: np.ndarray, options: DecoderOptions | None = None) -> Decoded | None:
        """Find the best path and a lattice; None if there is no path at all.

        Raises ShapeError for another number of columns than the model has pdfs, or no frames; NumericError for NaN or
        infinity.

        Parameters
        ----------
        log_likes : float32 (frames, pdfs), log-likelihoods, multiplied by the acoustic scale
        options : DecoderOptions, used from now on; None: the current ones
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
        """Return the compact lattice of a result, with one path for each word sequence within the lattice beam."""
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
