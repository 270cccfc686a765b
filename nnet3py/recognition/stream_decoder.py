"""Decoding one stream of sound. Kaldi: ``SingleUtteranceNnet3Decoder``, ``DecodableAmNnetLoopedOnline``."""
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
from nnet3py.recognition.options import EndpointOptions
from nnet3py.recognition.pipeline import FeaturePipeline, SpeakerState
from nnet3py.recognition.silence import EndpointDetector, EndpointState, SilenceWeighting
from nnet3py.runtime.looped import LoopedComputer, LoopedStream
from nnet3py.transducers.fst import Fst

_KEPT_SECONDS = 120.0      # after which a new search is made: the states that it composed, and its arrays, only grow


class Chunk(NamedTuple):
    """The input of the network for the next chunk of a stream."""

    frames: np.ndarray          # float32 (frames, input dim), the chunk with its context
    ivector: np.ndarray | None  # float32 (ivector dim,); None for a network without i-vectors


class StreamDecoder:
    """A decoder of one stream of sound: samples go in as they come, best paths and lattices come out.

    A stream has one or more segments: after :meth:`begin_segment` the search begins again, while features, i-vectors
    and the network go on.

    :meth:`accept_waveform` computes the network, too. A caller that computes chunks of many streams together calls
    ``pipeline.accept_waveform``, :meth:`prepare` and then, for each chunk of :meth:`pending_chunk`,
    :meth:`accept_output`.

    Parameters
    ----------
    pipeline : FeaturePipeline, the stream's features
    looped : LoopedComputer, the network, compiled for streams; any number of streams share it
    graph : the decoding graph, as :class:`LatticeDecoder` takes it
    model : TransitionModel
    decoder_options, endpoint_options : DecoderOptions and EndpointOptions; None: Kaldi's defaults
    network_stream : LoopedStream of ``looped`` from a stream that is over, to be used again, which saves time; None: a
        new one

    Attributes
    ----------
    search : LatticeDecoder
    frame_offset : number of decoded frames before this segment

    Raises
    ------
    ShapeError : features or i-vectors of another dimension than the network takes
    """

    def __init__(self, pipeline: FeaturePipeline, looped: LoopedComputer, graph: Graph, model: TransitionModel,
                 decoder_options: DecoderOptions | None = None, endpoint_options: EndpointOptions | None = None,
                 network_stream: LoopedStream | None = None) -> None:
        _check_dimensions(pipeline, looped)
        self.pipeline, self._looped, self._model = pipeline, looped, model
        self._graph = graph
        self.search = LatticeDecoder(graph, decoder_options)
        self._search_since = 0             # frame_offset when the search was made
        self._network = network_stream
        if network_stream is not None:
            network_stream.restart()
        self._subsampling = looped.frame_subsampling_factor
        self._endpoints = EndpointDetector(endpoint_options or EndpointOptions(), model, self.frame_shift)
        self.frame_offset = 0
        # Frames before the segment and in it when endpoint rules were last tested, and the rule that held.
        self._activated: tuple[tuple[int, int], tuple[str, EndpointState] | None] = ((0, 0), None)
        self._num_chunks = 0                # chunks that :meth:`pending_chunk` has returned
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
        """LoopedStream that computes the network's output for this stream, unless the caller computes it."""
        if self._network is None:
            self._network = self._looped.stream()
        return self._network

    # -- input ---------------------------------------------------------------------------------------------------------

    def accept_waveform(self, samples: np.ndarray, rate: float) -> None:
        """Take samples, and decode as far as possible.

        Parameters
        ----------
        samples : float32 (samples,) of the range of 16 bits
        rate : samples a second

        Raises
        ------
        Nnet3Error : as :meth:`FeatureStream.accept`; NumericError if the network's output is NaN
        """
        self.pipeline.accept_waveform(samples, rate)
        self.advance()

    def finish(self) -> None:
        """End the sound, and decode the rest."""
        self.pipeline.finish()
        self.advance()

    def advance(self) -> None:
        """Decode as far as the sound so far allows. Kaldi: AdvanceDecoding."""
        self.prepare()
        while (chunk := self.pending_chunk()) is not None:
            self.accept_output(self.network_stream.compute_chunk(chunk.frames, chunk.ivector))

    def prepare(self) -> None:
        """Update the weights of frames for i-vectors by the best path so far, before :meth:`pending_chunk`."""
        ivectors = self.pipeline.ivectors
        if self._weighting is not None and ivectors is not None and (
                self._chunk_is_ready() or not self._weighting.can_wait):
            ivectors.update_weights(*self._weighting.delta_weights(self.search, self.pipeline.num_ivectors_ready))
            decoded = (self.frame_offset + self.search.num_frames) * self._subsampling
            ivectors.no_changes_before(min(self._weighting.first_changing, decoded))    # another segment may begin

    def pending_chunk(self) -> Chunk | None:
        """Return the network's input for the next chunk, and count it as taken; None if more sound is needed."""
        if not self._chunk_is_ready():
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

    def _chunk_is_ready(self) -> bool:
        """Return whether all input frames of the next chunk are ready, or the sound has ended within it."""
        begin, ready = self._num_chunks * self._looped.frames_per_chunk, self.pipeline.num_frames_ready
        _, end = self._looped.frames_of_chunk(self._num_chunks)
        return begin < ready and (end <= ready or self.pipeline.is_finished)

    def accept_output(self, rows: np.ndarray) -> None:
        """Decode the network's output for the last chunk, float32 (rows, output dim)."""
        if self.pipeline.is_finished:
            total = -(-self.pipeline.num_frames_ready // self._subsampling)
            rows = rows[:total - self.frame_offset - self.search.num_frames]
        self.search.advance(rows)

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def num_frames_decoded(self) -> int:
        """Number of decoded frames of this segment."""
        return self.search.num_frames

    def best_path(self, use_final: bool = False) -> BestPath | None:
        """Return the best path of this segment so far; as :meth:`LatticeDecoder.best_path`."""
        return self.search.best_path(use_final)

    def endpoint_detected(self) -> bool:
        """Return whether the utterance is over by the rules."""
        return self.activated_rule() is not None

    def activated_rule(self) -> tuple[str, EndpointState] | None:
        """Return the first rule by which the utterance is over, as (name, state); None if no rule holds."""
        place = self.frame_offset, self.search.num_frames
        if self._activated[0] != place:
            self._activated = place, self._endpoints.activated_rule(self.search)
        return self._activated[1]

    def finalize(self) -> None:
        """End the segment's search, before :meth:`lattice`. Kaldi: FinalizeDecoding."""
        self.search.finalize()

    def raw_lattice(self, use_final: bool = True) -> Fst:
        """Return the segment's state-level lattice, trimmed; acoustic costs include the acoustic scale.

        Parameters
        ----------
        use_final : whether final costs count, if a final state is reached

        Raises
        ------
        Nnet3Error : no frame was decoded, or no path is left
        """
        if not self.search.num_frames:
            raise Nnet3Error("You cannot get a lattice if you decoded no frames.",
                             "the sound is too short for a single frame")
        lattice = trimmed(self.search.raw_lattice(use_final))
        if not lattice.num_states:
            raise Nnet3Error("no path through the graph is left", "a wider --beam may keep one")
        return lattice

    def lattice(self, use_final: bool = True, options: PhoneDeterminizeOptions | None = None) -> Determinized:
        """Return the segment's compact lattice, one path for each word sequence. Raises as :meth:`raw_lattice`."""
        return determinize_phone_pruned(self._model, self.raw_lattice(use_final), self.search.options.lattice_beam,
                                        options)

    def partial_lattice(self, num_frames: int, options: PhoneDeterminizeOptions | None = None) -> Determinized:
        """Return the compact lattice of this segment's first ``num_frames`` frames, without final costs."""
        raw = trimmed(self.search.raw_lattice(False, num_frames))
        return determinize_phone_pruned(self._model, raw, self.search.options.lattice_beam, options)

    @property
    def endpoint_options(self) -> EndpointOptions:
        """EndpointOptions, the rules of when an utterance is over; may be assigned."""
        return self._endpoints.options

    @endpoint_options.setter
    def endpoint_options(self, options: EndpointOptions) -> None:
        self._endpoints = EndpointDetector(options, self._model, self.frame_shift)
        self._activated = (0, 0), None

    def begin_segment(self) -> None:
        """Begin a new segment: the search begins again, at the next frame.

        Every two minutes of sound the search is replaced by a new one, which frees its memory and the states and arcs
        of a lookahead graph that it has composed.
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
        """True if ``search`` is new and has decoded nothing, so that it has no state to save."""
        return self._search_since == self.frame_offset and not self.search.num_frames

    def adaptation_state(self) -> SpeakerState:
        """Return the adaptation to the speaker, for the speaker's next stream, as if this stream ended now."""
        return self.pipeline.adaptation_state()


def _check_dimensions(pipeline: FeaturePipeline, looped: LoopedComputer) -> None:
    models, io = pipeline.models, looped.io
    if models.input_dim != io.input_dim:
        raise ShapeError(f"the network takes features of dimension {io.input_dim}, the options make {models.input_dim}",
                         "give the feature options of the model")
    if io.ivector_dim and models.ivector_dim != io.ivector_dim:
        raise ShapeError(f"the network takes i-vectors of dimension {io.ivector_dim}, the extractor makes "
                         f"{models.ivector_dim or 'none'}", "--ivector-extraction-config names the extractor")
