"""From sound to words as it arrives: Kaldi's costs, whatever the pieces."""
from __future__ import annotations

import numpy as np
import pytest
from online_cases import (
    KEYS,
    RATE,
    WEIGHTING,
    base_features,
    dialogue,
    graph,
    looped,
    model,
    pieces,
    pipeline_models,
    sound,
    stream_decoder,
    words,
)

from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.lattices.best_path import best_path, path_of
from nnet3py.network.nnet import Nnet
from nnet3py.recognition.options import EndpointOptions, EndpointRule, SilenceWeightingOptions
from nnet3py.recognition.pipeline import FeaturePipeline, PipelineModels
from nnet3py.recognition.stream_decoder import StreamDecoder
from nnet3py.runtime.looped import LoopedComputer

DIGITS = 2e-4            # Kaldi prints six digits of costs per frame, and adds in single precision
CHUNK = 2880             # samples: online2-wav-nnet3-latgen-faster's 0.18 seconds
ENDPOINTS = EndpointOptions((1,), {**EndpointOptions().rules, "rule2": EndpointRule(True, 0.09, 2.0)})


def stop_at(decoder: StreamDecoder, samples: np.ndarray, size: int, endpoints: bool = False) -> None:
    """Have the sound arrive as Kaldi's program does: with the last piece comes the end."""
    parts = pieces(samples, size)
    for number, piece in enumerate(parts, 1):
        decoder.pipeline.accept_waveform(piece, RATE)
        if number == len(parts):
            decoder.pipeline.finish()
        decoder.advance()
        if endpoints and decoder.endpoint_detected():
            break


def costs(decoder: StreamDecoder) -> tuple[str, int, float, float]:
    """Words, frames, graph and acoustic cost per frame."""
    path = decoder.best_path(use_final=True)
    graph_cost, acoustic = path.weights.sum(axis=0, dtype=float)
    frames = decoder.num_frames_decoded
    return words().text(path.words), frames, (graph_cost + path.final_cost) / frames, acoustic / frames


# What Kaldi's program logged of the three recordings, speaker adaptation carried over (golden: decode-*).
KALDI = {
    "online": ({}, None, 24, CHUNK, [
        ("five two nine five", 59, 0.935485, -16.4703), ("seven zero three", 46, 0.930033, -14.2161),
        ("eight five six two one", 63, 0.974086, -16.1731)]),
    "offline": ({"greedy": True}, None, 24, 10 ** 6, [
        ("five two nine five", 59, 0.935485, -16.4436), ("seven zero three", 46, 0.930033, -14.2114),
        ("eight five six two one", 63, 0.974086, -16.1581)]),
    "silence weighting": ({}, SilenceWeightingOptions((1,), 0.001, 10), 21, CHUNK, [
        ("five two nine five", 59, 0.935485, -16.478), ("seven zero three", 46, 0.930033, -14.2261),
        ("eight five six two one", 63, 0.974086, -16.1997)]),
    "endpoints": ({}, None, 15, 1600, [
        ("five two nine five", 50, 0.979106, -18.5276), ("seven zero three", 40, 0.965566, -15.641),
        ("eight five six two one", 55, 1.01495, -17.7966)]),
}


@pytest.mark.parametrize("case", KALDI)
def test_kaldis_costs(case):
    settings, weighting, frames_per_chunk, size, expected = KALDI[case]
    models, state = pipeline_models(weighting, **settings), None
    for key, (text, frames, graph_cost, acoustic) in zip(KEYS, expected, strict=True):
        decoder = stream_decoder(models, state, frames_per_chunk, ENDPOINTS)
        stop_at(decoder, sound(key), size, case == "endpoints")
        decoder.finalize()
        found = costs(decoder)
        assert found[:2] == (text, frames)
        assert found[2:] == pytest.approx((graph_cost, acoustic), abs=DIGITS)
        best = path_of(best_path(decoder.lattice().lattice))
        assert words().text(best.words) == text
        assert (best.graph_cost + best.acoustic_cost) / frames == pytest.approx(graph_cost + acoustic, abs=DIGITS)
        state = decoder.adaptation_state()


@pytest.mark.parametrize("weighting", [None, WEIGHTING])
def test_blocks_of_any_size_give_the_same_words(weighting):
    models, found = pipeline_models(weighting), set()
    for size in (160, 1000, 1600, 8000, 10 ** 6):
        decoder = stream_decoder(models)
        for piece in pieces(sound("utt2"), size):
            decoder.accept_waveform(piece, RATE)
        decoder.finish()
        decoder.finalize()
        text, frames, *_ = costs(decoder)
        assert frames == 46
        found.add(text)
    assert found == {"seven zero three"}


def test_without_ivectors_blocks_of_any_size_give_the_same_costs():
    config = ("input-node name=input dim=40\ncomponent name=a type=NaturalGradientAffineComponent input-dim=200 "
              f"output-dim={model().nnet.output_dim('output')}\n"
              "component-node name=a component=a input=Append(Offset(input, -2), Offset(input, -1), input, "
              "Offset(input, 1), Offset(input, 2))\noutput-node name=output input=a\n")
    network = LoopedComputer(Nnet.from_config(config, seed=1), 12, frame_subsampling_factor=3)
    expected = network.compute(base_features("utt2"))
    models = PipelineModels(pipeline_models().speech)
    for size in (160, 1000, 10 ** 6):
        decoder = StreamDecoder(FeaturePipeline(models), network, graph(), model().transition_model)
        rows = []
        for piece in [*pieces(sound("utt2"), size), None]:
            if piece is None:
                decoder.pipeline.finish()
            else:
                decoder.pipeline.accept_waveform(piece, RATE)
            # Who computes chunks himself gets them so, and gives back what the network made of them.
            while (chunk := decoder.pending_chunk()) is not None:
                assert chunk.ivector is None
                rows.append(decoder.network_stream.compute_chunk(chunk.frames))
                decoder.accept_output(rows[-1])
        assert decoder.num_frames_decoded == len(expected)
        np.testing.assert_allclose(np.concatenate(rows)[:len(expected)], expected, atol=1e-4)


def test_segments_of_one_stream():
    models = pipeline_models(WEIGHTING)
    decoder = stream_decoder(models, endpoints=EndpointOptions(
        (1,), {**EndpointOptions().rules, "rule2": EndpointRule(True, 0.2, 2.0)}))
    found = []
    for piece in pieces(dialogue(), CHUNK):
        decoder.accept_waveform(piece, RATE)
        if decoder.endpoint_detected():
            found.append((decoder.frame_offset, decoder.num_frames_decoded, words().text(decoder.best_path().words)))
            decoder.begin_segment()
            assert decoder.num_frames_decoded == 0 and not decoder.endpoint_detected()
    decoder.finish()
    # The times and words that Kaldi's server answered (golden: tcp), in frames of 0.03 seconds.
    assert found == [(0, 56, "five two nine five"), (56, 64, "seven zero three"), (120, 80, "eight five six four")]
    assert (decoder.frame_offset, decoder.num_frames_decoded) == (200, 19)


def test_memory_does_not_grow():
    decoder = stream_decoder(pipeline_models(WEIGHTING), endpoints=EndpointOptions(
        (1,), {"short": EndpointRule(False, 0.0, float("inf"), 2.0)}))
    sizes = []
    for _ in range(4):
        for piece in pieces(dialogue(), 8000):
            decoder.accept_waveform(piece, RATE)
            if decoder.endpoint_detected():
                decoder.begin_segment()
        ivectors = decoder.pipeline.ivectors
        sizes.append((len(decoder.pipeline._input._rows), len(ivectors._plain.rows._rows),
                      len(ivectors._normalized.rows._rows), len(ivectors._waiting[0]) // 1000,
                      len(decoder._weighting._weights) // 1000))
    assert max(sizes[-1]) < 1200 and max(sizes[-1]) <= 1.5 * max(sizes[0])


def test_too_short_for_a_frame():
    decoder = stream_decoder(pipeline_models(WEIGHTING))
    decoder.accept_waveform(np.zeros(100, dtype=np.float32), RATE)
    decoder.finish()
    assert decoder.num_frames_decoded == 0 and not decoder.endpoint_detected()
    with pytest.raises(Nnet3Error, match="decoded no frames"):
        decoder.lattice()


def test_chunks_of_another_size():
    decoder = stream_decoder(pipeline_models())
    with pytest.raises(ShapeError, match="the next chunk takes"):
        decoder.network_stream.compute_chunk(np.zeros((1, 40), dtype=np.float32), np.zeros(12, dtype=np.float32))


def test_parts_that_do_not_fit():
    models = PipelineModels(pipeline_models().speech)
    with pytest.raises(ShapeError, match="i-vectors of dimension 12, the extractor makes none"):
        StreamDecoder(FeaturePipeline(models), looped(), graph(), model().transition_model)
    network = LoopedComputer(Nnet.from_config("input-node name=input dim=13\noutput-node name=output input=input\n"), 3)
    with pytest.raises(ShapeError, match="features of dimension 13, the options make 40"):
        StreamDecoder(FeaturePipeline(models), network, graph(), model().transition_model)
