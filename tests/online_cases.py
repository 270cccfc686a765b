"""A small recognizer of digits that Kaldi made, with three recordings, for the tests of streams.

``tests/data/recognition``: ``package`` (the models), ``wav``, ``online`` (what Kaldi's programs made of them).
"""
from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.decoding.decoding_graph import DecodingGraph
from nnet3py.decoding.options import DecoderOptions
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.feat.speech import SpeechFeatures, SpeechOptions
from nnet3py.formats.foreign_files import read_wave
from nnet3py.formats.holders import read_matrix_file
from nnet3py.gaussians.mixtures import DiagGmm
from nnet3py.io.object_files import read_object, token_reader
from nnet3py.io.streams import open_input
from nnet3py.ivectors.extractor import IvectorExtractor
from nnet3py.ivectors.online import OnlineModels
from nnet3py.network.inference import prepare_for_test
from nnet3py.recognition.options import EndpointOptions, SilenceWeightingOptions
from nnet3py.recognition.pipeline import FeaturePipeline, PipelineModels, SpeakerState
from nnet3py.recognition.stream_decoder import StreamDecoder
from nnet3py.runtime.looped import LoopedComputer

DATA = Path(__file__).parent / "data" / "recognition"
PACKAGE, ONLINE = DATA / "package", DATA / "online"
KEYS = ("utt1", "utt2", "utt3")
RATE = 16000
SPEECH = SpeechOptions("mfcc", {"dither": 0.0}, {"num_bins": 40, "low_freq": 20.0, "high_freq": -400.0},
                       {"use_energy": False, "num_ceps": 40})
SEARCH = DecoderOptions(beam=12.0, lattice_beam=4.0, min_active=10)
WEIGHTING = SilenceWeightingOptions((1,), 0.001)


@cache
def sound(key: str) -> np.ndarray:
    """float32 (samples,): a recording, at ``RATE``."""
    with open_input(DATA / "wav" / f"{key}.wav") as stream:
        return read_wave(token_reader(stream)).samples[0]


@cache
def dialogue() -> np.ndarray:
    """float32 (samples,): all of them, with half a second of silence after each."""
    return np.concatenate([part for key in KEYS for part in (sound(key), np.zeros(RATE // 2, dtype=np.float32))])


@cache
def base_features(key: str) -> np.ndarray:
    """float32 (frames, 40): of a recording."""
    return SpeechFeatures(SPEECH).compute(sound(key), RATE)


def ivector_models(**settings: object) -> OnlineModels:
    """What i-vectors are estimated with."""
    folder = PACKAGE / "ivector"
    extractor = read_object(folder / "final.ie", IvectorExtractor.read)
    assert extractor.quadratics is not None
    return OnlineModels(
        extractor, read_object(folder / "final.dubm", DiagGmm.read), read_matrix_file(str(folder / "final.mat")),
        read_matrix_file(str(folder / "global_cmvn.stats"), dtype=np.float64), left_context=3, right_context=3,
        **settings)


@cache
def model() -> AcousticModel:
    """The acoustic model, whose network is collapsed."""
    made = read_model(PACKAGE / "am" / "final.mdl")
    prepare_for_test(made.nnet)
    return made


@cache
def looped(frames_per_chunk: int = 24) -> LoopedComputer:
    """The network."""
    return LoopedComputer(model().nnet, frames_per_chunk, frame_subsampling_factor=3, acoustic_scale=1.0,
                          priors=model().priors)


@cache
def graph() -> DecodingGraph:
    """A loop of the ten digits."""
    return DecodingGraph.read(PACKAGE / "graph" / "HCLG.fst", model().transition_model)


@cache
def words() -> SymbolTable:
    """Their names."""
    return SymbolTable.read(PACKAGE / "graph" / "words.txt")


def pipeline_models(weighting: SilenceWeightingOptions | None = None, **settings: object) -> PipelineModels:
    """What features and i-vectors are made with."""
    return PipelineModels(SPEECH, ivector_models(**settings), silence_weighting=weighting or SilenceWeightingOptions())


def stream_decoder(models: PipelineModels, state: SpeakerState | None = None, frames_per_chunk: int = 24,
                   endpoints: EndpointOptions | None = None) -> StreamDecoder:
    """A stream of the small recognizer."""
    return StreamDecoder(FeaturePipeline(models, state), looped(frames_per_chunk), graph(), model().transition_model,
                         SEARCH, endpoints or EndpointOptions((1,)))


def pieces(samples: np.ndarray, size: int) -> list[np.ndarray]:
    """Samples cut into pieces of a size; the last one may be smaller."""
    return [samples[begin:begin + size] for begin in range(0, len(samples), size)]


class FakeSearch:
    """What a search says, in the place of a search: ``alignment`` (transition-ids of the best path so far)."""

    def __init__(self, alignment: np.ndarray, relative_cost: float = 0.0) -> None:
        self.alignment, self.relative_cost = np.asarray(alignment, dtype=np.int32), relative_cost

    @property
    def num_frames(self) -> int:
        return len(self.alignment)

    def recent_alignment(self, num_frames: int) -> np.ndarray:
        return self.alignment[max(0, self.num_frames - num_frames):]

    def final_relative_cost(self) -> float:
        return self.relative_cost
