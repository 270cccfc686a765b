"""From sound to words, as it arrives. Kaldi: ``SingleUtteranceNnet3Decoder``, ``DecodableAmNnetLoopedOnline``."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.decoding.lattice_decoder import BestPath, Graph, LatticeDecoder
from nnet3py.decoding.options import DecoderOptions
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.determinize import Determinized, determinize_phone_pruned
from nnet3py.lattices.determinize_options import PhoneDeterminizeOptions
from nnet3py.lattices.states import trimmed
from nnet3py.recognition.endpoint import EndpointDetector, Situation
from nnet3py.recognition.pipeline import FeaturePipeline, SpeakerState
from nnet3py.recognition.silence_weighting import SilenceWeighting
from nnet3py.recognition.stream_options import EndpointOptions
from nnet3py.runtime.looped import LoopedComputer, LoopedStream
from nnet3py.transducers.fst import Fst

_KEPT_SECONDS = 120.0      # that a search lasts: what it composed of a lookahead graph, and its pools, grow meanwhile


class Chunk(NamedTuple):
    """What the network is to compute next for a stream.

    Attributes
    ----------
    frames : float32 (frames, input dim), with the context of the first chunk before and after it
    ivector : float32 (ivector dim,); None for a network without
    """

    frames: np.ndarray
    ivector: np.ndarray | None


class StreamDecoder:
    """Recognizes one stream of sound: accept samples as they come, ask what was said.

    A stream is one segment, or several: after :meth:`begin_segment` the search begins again where it stands, while
    features, i-vectors and the network go on.

    The network is computed by a stream of its own, unless the caller does it: whoever calls
    ``pipeline.accept_waveform``, :meth:`prepare`, and then, while :meth:`pending_chunk` gives one,
    :meth:`accept_output`, may compute chunks of many streams together.

    Parameters
    ----------
    pipeline : the stream's features
    looped : the network, compiled for streams, which any number of them share
    graph : that is searched
    model : knows what transition-ids stand for
    decoder_options, endpoint_options : of the search, and of when an utterance is over
    network_stream : of ``looped``, one whose stream is over, if there is one: making a new one takes time

    Attributes
    ----------
    search : what is searching
    frame_offset : decoded frames before this segment

    Raises
    ------
    ShapeError : the network takes other features or i-vectors than the pipeline makes, or the graph is of another model
    """

    def __init__(self, pipeline: FeaturePipeline, looped: LoopedComputer, graph: Graph, model: TransitionModel,
                 decoder_options: DecoderOptions | None = None, endpoint_options: EndpointOptions | None = None,
                 network_stream: LoopedStream | None = None) -> None:
        _check_dimensions(pipeline, looped)
        self.pipeline, self._looped, self._model = pipeline, looped, model
        self._graph = graph
        self.search = LatticeDecoder(graph, decoder_options)
        self._search_since = 0             # the value of frame_offset when it was made
        self._network = network_stream
        if network_stream is not None:
            network_stream.restart()
        self._subsampling = looped.frame_subsampling_factor
        self._endpoints = EndpointDetector(endpoint_options or EndpointOptions(), model, self.frame_shift)
        self.frame_offset = 0
        self._activated: tuple[tuple[int, int], tuple[str, Situation] | None] = ((0, 0), None)     # where, which rule
        self._num_chunks = 0                # that were given out
        self._weighting = self._new_weighting()

    def __repr__(self) -> str:
        return f"<StreamDecoder: {self.num_frames_decoded} frames decoded>"

    def _new_weighting(self) -> SilenceWeighting | None:
        models = self.pipeline.models
        if not models.weights_silence:
            return None
        return SilenceWeighting(models.silence_weighting, self._model, self._subsampling,
                                self.frame_offset * self._subsampling)

    @property
    def frame_shift(self) -> float:
        """Seconds from one decoded frame to the next."""
        return self.pipeline.models.frame_shift * self._subsampling

    @property
    def network_stream(self) -> LoopedStream:
        """What computes the network for this stream, unless the caller does."""
        if self._network is None:
            self._network = self._looped.stream()
        return self._network

    # -- sound comes in ------------------------------------------------------------------------------------------------

    def accept_waveform(self, samples: np.ndarray, rate: float) -> None:
        """Take float32 (samples,) of the range of 16 bits, ``rate`` of them a second, and recognize what can be.

        Raises as FeatureStream.accept, and NumericError where the network's output is NaN.
        """
        self.pipeline.accept_waveform(samples, rate)
        self.advance()

    def finish(self) -> None:
        """Say that there is no more sound, and recognize the rest."""
        self.pipeline.finish()
        self.advance()

    def advance(self) -> None:
        """Recognize what can be of the sound that is there. Kaldi: AdvanceDecoding."""
        self.prepare()
        while (chunk := self.pending_chunk()) is not None:
            self.accept_output(self.network_stream.compute_chunk(chunk.frames, chunk.ivector))

    def prepare(self) -> None:
        """Say what the newest frames count for i-vectors, by what has been recognized; before chunks are asked for."""
        ivectors = self.pipeline.ivectors
        if self._weighting is not None and ivectors is not None and (
                self._chunk_is_there() or not self._weighting.can_wait):
            ivectors.update_weights(*self._weighting.delta_weights(self.search, self.pipeline.num_ivectors_ready))
            decoded = (self.frame_offset + self.search.num_frames) * self._subsampling
            ivectors.no_changes_before(min(self._weighting.first_changing, decoded))    # another segment may begin

    def pending_chunk(self) -> Chunk | None:
        """What the network is to compute next; None if it takes more sound. Each chunk is given once."""
        if not self._chunk_is_there():
            return None
        pipeline, looped, ready = self.pipeline, self._looped, self.pipeline.num_frames_ready
        first, end = looped.frames_of_chunk(self._num_chunks)
        frames = pipeline.frames_at(np.clip(np.arange(first, end), 0, ready - 1))
        ivector = None
        if looped.io.ivector_dim:
            ivector = pipeline.ivector(min(ready, pipeline.num_ivectors_ready) - 1)
        self._num_chunks += 1
        pipeline.forget(min(end, ready - 1))
        return Chunk(frames, ivector)

    def _chunk_is_there(self) -> bool:
        """Whether the frames of the next chunk have come, or the last ones have."""
        begin, ready = self._num_chunks * self._looped.frames_per_chunk, self.pipeline.num_frames_ready
        _, end = self._looped.frames_of_chunk(self._num_chunks)
        return begin < ready and (end <= ready or self.pipeline.is_finished)

    def accept_output(self, rows: np.ndarray) -> None:
        """Search on through what the network made of the chunk that was given last, float32 (rows, output dim)."""
        if self.pipeline.is_finished:
            total = -(-self.pipeline.num_frames_ready // self._subsampling)
            rows = rows[:total - self.frame_offset - self.search.num_frames]
        self.search.advance(rows)

    # -- words come out ------------------------------------------------------------------------------------------------

    @property
    def num_frames_decoded(self) -> int:
        """Decoded frames of this segment."""
        return self.search.num_frames

    def best_path(self, use_final: bool = False) -> BestPath | None:
        """The best path of this segment so far, None if there is none; ``use_final``: with the cost of ending."""
        return self.search.best_path(use_final)

    def endpoint_detected(self) -> bool:
        """Whether the utterance is over, by the rules."""
        return self.activated_rule() is not None

    def activated_rule(self) -> tuple[str, Situation] | None:
        """The name of the rule by which it is, and what it looked at."""
        place = self.frame_offset, self.search.num_frames
        if self._activated[0] != place:
            self._activated = place, self._endpoints.activated_rule(self.search)
        return self._activated[1]

    def finalize(self) -> None:
        """Prune, as nothing follows in this segment; before :meth:`lattice`. Kaldi: FinalizeDecoding."""
        self.search.finalize()

    def raw_lattice(self, use_final: bool = True) -> Fst:
        """The segment's state-level lattice, trimmed; costs as the search has them, with the acoustic scale.

        ``use_final``: with the cost of ending. Nnet3Error if no frame was decoded, or no path is left.
        """
        if not self.search.num_frames:
            raise Nnet3Error("You cannot get a lattice if you decoded no frames.",
                             "the sound is too short for a single frame")
        lattice = trimmed(self.search.raw_lattice(use_final))
        if not lattice.num_states:
            raise Nnet3Error("no path through the graph is left", "a wider --beam may keep one")
        return lattice

    def lattice(self, use_final: bool = True, options: PhoneDeterminizeOptions | None = None) -> Determinized:
        """The segment's compact lattice, one path for each word sequence; raises as :meth:`raw_lattice`."""
        return determinize_phone_pruned(self._model, self.raw_lattice(use_final), self.search.options.lattice_beam,
                                        options)

    def partial_lattice(self, num_frames: int, options: PhoneDeterminizeOptions | None = None) -> Determinized:
        """The compact lattice of this segment's first frames, whose paths need not be able to end; raises as above."""
        raw = trimmed(self.search.raw_lattice(False, num_frames))
        return determinize_phone_pruned(self._model, raw, self.search.options.lattice_beam, options)

    @property
    def endpoint_options(self) -> EndpointOptions:
        """The rules of when an utterance is over; they can be exchanged."""
        return self._endpoints.options

    @endpoint_options.setter
    def endpoint_options(self, options: EndpointOptions) -> None:
        self._endpoints = EndpointDetector(options, self._model, self.frame_shift)
        self._activated = (0, 0), None

    def begin_segment(self) -> None:
        """Begin the search again where the stream stands.

        After two minutes of sound with one search a new one takes its place, which gives memory back: a search keeps
        the states and arcs that it composed of a lookahead graph.
        """
        self.frame_offset += self.search.num_frames
        if (self.frame_offset - self._search_since) * self.frame_shift >= _KEPT_SECONDS:
            self.search = LatticeDecoder(self._graph, self.search.options)
            self._search_since = self.frame_offset
        else:
            self.search.init()
        self._weighting = self._new_weighting()

    @property
    def has_new_search(self) -> bool:
        """Whether nothing was decoded with this search yet, so that another new one would go on in the same way."""
        return self._search_since == self.frame_offset and not self.search.num_frames

    def adaptation_state(self) -> SpeakerState:
        """What the speaker's next stream begins with, if this one is over now."""
        return self.pipeline.adaptation_state()


def _check_dimensions(pipeline: FeaturePipeline, looped: LoopedComputer) -> None:
    models, io = pipeline.models, looped.io
    if models.input_dim != io.input_dim:
        raise ShapeError(f"the network takes features of dimension {io.input_dim}, the options make {models.input_dim}",
                         "is the feature configuration that of the model?")
    if io.ivector_dim and models.ivector_dim != io.ivector_dim:
        raise ShapeError(f"the network takes i-vectors of dimension {io.ivector_dim}, the extractor makes "
                         f"{models.ivector_dim or 'none'}", "--ivector-extraction-config names the extractor")
