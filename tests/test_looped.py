"""Looped computation: chunk by chunk, for ever, with the numbers of the whole utterance."""
from __future__ import annotations

import logging
from itertools import pairwise

import numpy as np
import pytest
from compiler_cases import RNN
from compiler_cases import TDNN as OFFSETS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paths import DATA
from random_networks import config, few_waves
from runtime_cases import LSTM, TDNN, assert_close
from thinned import thinned

from nnet3py.compiler.check import check_computation
from nnet3py.compiler.computation import CommandType as C
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.fuse import fuse
from nnet3py.compiler.generate import generate_segments
from nnet3py.compiler.looped import (
    _extrapolated,
    find_looped,
    looped_chunk_size,
    looped_requests,
    with_ivector_period,
)
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.optimize.consolidate import consolidate_io
from nnet3py.compiler.optimize.passes import optimization_steps
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import CompileError, Nnet3Error, NotComputableError, NumericError, ShapeError, UsageError
from nnet3py.network.inference import prepare_for_test
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.compute import UtteranceComputer
from nnet3py.runtime.computer import Computer
from nnet3py.runtime.frame_buffer import FrameBuffer
from nnet3py.runtime.looped import LoopedComputer
from nnet3py.runtime.options import ComputeOptions

WHOLE = 10000      # frames per chunk: any utterance in one computation
ROUNDING = 2e-6    # matrix products of other numbers of rows may sum in another order

# Two layers of recurrence over different distances, one of them ahead of the other by a chunk and more.
TWO_SPEEDS = """
input-node name=input dim=2
component name=a type=AffineComponent input-dim=7 output-dim=3
component name=s type=SigmoidComponent dim=3
component name=b type=AffineComponent input-dim=9 output-dim=3
component name=t type=TanhComponent dim=3
component-node name=a component=a input=Append(Offset(input, -1), Offset(input, 2), IfDefined(Offset(s, -3)))
component-node name=s component=s input=a
component-node name=b component=b input=Append(Offset(s, 5), s, IfDefined(Offset(t, -1)))
component-node name=t component=t input=b
output-node name=output input=Sum(t, Offset(s, -4))
"""

# A clockwork: a slow layer, read at every third frame, in a recurrence; and a component that is not simple.
CLOCKWORK = """
input-node name=input dim=2
component name=a type=AffineComponent input-dim=5 output-dim=3
component name=t type=TanhComponent dim=3
component name=d type=TdnnComponent input-dim=3 output-dim=2 time-offsets=-3,0,1
component-node name=a component=a input=Append(input, IfDefined(Round(Offset(t, -3), 3)))
component-node name=t component=t input=a
component-node name=d component=d input=Sum(t, Switch(t, Offset(t, 1)))
output-node name=output input=d
"""

WITH_IVECTOR = """
input-node name=input dim=2
input-node name=ivector dim=3
component name=a type=AffineComponent input-dim=7 output-dim=4
component name=t type=TanhComponent dim=4
component name=b type=AffineComponent input-dim=8 output-dim=2
component-node name=a component=a input=Append(Offset(input, -2), Offset(input, 1), ReplaceIndex(ivector, t, 0))
component-node name=t component=t input=a
component-node name=b component=b input=Append(t, IfDefined(Offset(t, -2)))
output-node name=output input=b
"""

TEXTS = {"offsets": OFFSETS, "rnn": RNN, "tdnn": TDNN, "lstm": LSTM, "two-speeds": TWO_SPEEDS, "clockwork": CLOCKWORK,
         "ivector": WITH_IVECTOR}


def network(name: str) -> Nnet:
    return prepare_for_test(Nnet.from_config(TEXTS[name]))


def features(nnet: Nnet, frames: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((frames, nnet.input_dim("input")), dtype=np.float32)


def ivector_for(nnet: Nnet) -> np.ndarray | None:
    dim = nnet.input_dim("ivector")
    return np.random.default_rng(1).standard_normal(dim, dtype=np.float32) if dim > 0 else None


def whole(nnet: Nnet, feats: np.ndarray, factor: int = 1, extra: int = 0) -> np.ndarray:
    """The output, from one computation of the whole utterance."""
    options = ComputeOptions(frames_per_chunk=WHOLE, frame_subsampling_factor=factor, extra_left_context_initial=extra)
    return UtteranceComputer(nnet, options).compute(feats, ivector_for(nnet))


@pytest.mark.parametrize(("name", "frames_per_chunk", "factor"), thinned(TEXTS, [1, 4, 20], [1, 3], keep=7))
def test_chunks_give_what_the_whole_utterance_gives(name: str, frames_per_chunk: int, factor: int) -> None:
    nnet = network(name)
    looped = LoopedComputer(nnet, frames_per_chunk, frame_subsampling_factor=factor, extra_left_context_initial=3)
    check_computation(looped.computation, looped.nnet, thorough=True)
    for frames in (1, 6, 47):
        feats = features(nnet, frames)
        assert_close(looped.compute(feats, ivector_for(nnet)), whole(nnet, feats, factor, 3), ROUNDING)


@pytest.mark.parametrize(("name", "frames_per_chunk"), thinned(
    ["rnn-simple", "net-lstm", "rnn-clockwork", "net-tdnn", "net-tdnnf", "net-cnn-tdnn"], [20, 3], keep=4))
def test_kaldis_reference_networks(name: str, frames_per_chunk: int) -> None:
    nnet = prepare_for_test(read_nnet(str(DATA / "looped" / f"{name}.raw")))
    looped = LoopedComputer(nnet, frames_per_chunk)
    for frames in (5, 50):
        feats = features(nnet, frames)
        assert_close(looped.compute(feats, ivector_for(nnet)), whole(nnet, feats), ROUNDING)


@pytest.mark.parametrize(("switches", "name"), thinned([
    {"optimize": False}, {"remove_assignments": False}, {"move_sizing_commands": False},
    {"initialize_undefined": False}, {"convert_addition": False, "optimize_row_ops": False},
    {"propagate_in_place": False, "snip_row_ops": False}], ["rnn", "tdnn", "lstm", "two-speeds"], keep=5))
def test_whatever_the_optimizer_may_do(switches: dict, name: str) -> None:
    nnet = network(name)
    looped = LoopedComputer(nnet, 5, optimize=OptimizeOptions(**switches))
    feats = features(nnet, 43)
    assert_close(looped.compute(feats), whole(nnet, feats), ROUNDING)


def test_every_pass_leaves_a_sound_computation() -> None:
    nnet = network("two-speeds")
    requests = looped_requests(nnet, 4, 9, 7)
    computation = generate_segments(nnet, requests)
    check_computation(computation, nnet, check_rewrite=True, thorough=True)
    before = computation.describe(nnet)
    for name, optimized in optimization_steps(computation, nnet, OptimizeOptions(), looped=True):
        check_computation(optimized, nnet, thorough=True, after=name)
    assert computation.describe(nnet) == before


def test_the_computation_ends_with_a_jump() -> None:
    nnet = network("lstm")
    looped = LoopedComputer(nnet, 6)
    commands = looped.computation.commands
    assert commands[-1].type == C.GOTO_LABEL and commands[commands[-1].args[0]].type == C.NO_OPERATION_LABEL
    swaps = [commands[c] for c in looped.computation.loop_swaps()]
    assert swaps and all(one.type == C.SWAP_MATRIX for one in swaps)
    assert commands[looped.computation.loop_swaps().start - 1].type != C.SWAP_MATRIX
    takers = [one.args[0] for one in swaps]
    for c, one in enumerate(swaps):             # nothing is taken over that has been overwritten before
        assert one.args[1] not in takers[:c]
    assert not any(one.type == C.DEALLOC_MATRIX for one in commands[-1 - len(swaps):])


# -- streams -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1, 3])
def test_output_comes_as_soon_as_it_can(factor: int) -> None:
    nnet = network("tdnn")
    looped = LoopedComputer(nnet, 6, frame_subsampling_factor=factor)
    feats = features(nnet, 40)
    stream, found, given = looped.stream(), [], 0
    for size in (1, 3, 0, 7, 2, 20, 7):
        found.append(stream.accept(feats[given:given + size]))
        given += size
        assert stream.num_frames == given
        ready = max((given - looped.right_context) // looped.frames_per_chunk, 0) * looped.frames_per_chunk // factor
        assert sum(map(len, found)) == stream.num_outputs == ready
    found.append(stream.finish())
    assert stream.num_outputs == -(-40 // factor)
    assert_close(np.concatenate(found), whole(nnet, feats, factor), ROUNDING)
    assert len(stream.finish()) == 0
    with pytest.raises(Nnet3Error, match="finished"):
        stream.accept(feats)
    stream.restart()
    assert_close(np.concatenate((stream.accept(feats), stream.finish())), whole(nnet, feats, factor), ROUNDING)


def test_streams_do_not_disturb_each_other() -> None:
    nnet = network("lstm")
    looped = LoopedComputer(nnet, 4)
    streams = [looped.stream() for _ in range(3)]
    feats = [features(nnet, 30, seed) for seed in range(3)]
    found: list[list[np.ndarray]] = [[], [], []]
    for begin, end in pairwise((0, 3, 11, 12, 30)):
        for stream, frames, out in zip(streams, feats, found, strict=True):
            out.append(stream.accept(frames[begin:end]))
    for stream, frames, out in zip(streams, feats, found, strict=True):
        assert_close(np.concatenate((*out, stream.finish())), whole(nnet, frames), ROUNDING)


def test_memory_does_not_grow_with_the_stream() -> None:
    nnet = network("lstm")
    stream = LoopedComputer(nnet, 2).stream()
    feats = features(nnet, 2)

    def held() -> tuple[object, ...]:
        looped = stream._looped
        arena, states = looped._arena.buffer, looped._states.buffer
        return id(arena), arena.size, states.size, id(stream._waiting._rows)

    for _ in range(5):
        stream.accept(feats)
    before = held()
    for _ in range(300):
        assert len(stream.accept(feats)) == 2
    assert held() == before


def test_a_stream_without_frames_has_no_output() -> None:
    nnet = network("tdnn")
    looped = LoopedComputer(nnet)
    assert looped.frames_per_chunk == 20
    assert looped.compute(np.zeros((0, 3))).shape == (0, 4)
    assert looped.stream().finish().shape == (0, 4)


def test_priors_and_scale() -> None:
    nnet = network("tdnn")
    priors = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    feats = features(nnet, 9)
    scaled = LoopedComputer(nnet, 4, priors=priors, acoustic_scale=0.5).compute(feats)
    np.testing.assert_allclose(scaled, (whole(nnet, feats) - np.log(priors)) * 0.5, rtol=1e-5)


# -- i-vectors ---------------------------------------------------------------------------------------------------------


def with_ivectors(nnet: Nnet, chunk: int, feats: np.ndarray, ivectors: dict[int, np.ndarray]) -> np.ndarray:
    """One computation of the whole, with an i-vector at each multiple of the chunk, from ``ivectors`` by time."""
    rewritten = with_ivector_period(nnet, chunk)
    frames = np.arange(-4, len(feats) + 1)
    times = sorted(ivectors)

    def at(t: np.ndarray | list[int]) -> np.ndarray:
        return np.array([(0, time, 0) for time in t], np.int32)

    request = ComputationRequest([IoSpecification("input", at(frames)), IoSpecification("ivector", at(times))],
                                 [IoSpecification("output", at(np.arange(len(feats))))])
    from nnet3py.compiler import compile

    computer = Computer(compile(rewritten, request), rewritten)
    computer.accept_input("input", feats[np.clip(frames, 0, len(feats) - 1)])
    computer.accept_input("ivector", np.array([ivectors[t] for t in times]))
    computer.run()
    return computer.output("output")


def test_an_i_vector_for_every_chunk() -> None:
    nnet, chunk, period = network("ivector"), 5, 3
    looped = LoopedComputer(nnet, chunk, extra_left_context_initial=2)
    assert (looped.left_context, looped.right_context) == (4, 1)
    feats = features(nnet, 18)
    online = np.random.default_rng(4).standard_normal((5, 3), dtype=np.float32)
    # The first chunk takes frames -4 to 5, so i-vectors at -5, 0 and 5; each that follows takes the next one.
    of_chunk = [online[min((5 * k + 5 + 1) // period, 4)] for k in range(4)]
    at = {-5: of_chunk[0], 0: of_chunk[0], 5: of_chunk[0], 10: of_chunk[1], 15: of_chunk[2], 20: of_chunk[3]}
    found = looped.compute(feats, online_ivectors=online, online_ivector_period=period)
    assert_close(found, with_ivectors(nnet, chunk, feats, at), ROUNDING)


def test_the_latest_i_vector_counts() -> None:
    nnet = network("ivector")
    looped = LoopedComputer(nnet, 5, extra_left_context_initial=2)
    feats = features(nnet, 16)
    first, second = np.ones(3, np.float32), np.full(3, -2, np.float32)
    stream = looped.stream()
    found = [stream.accept(feats[:6]), stream.accept(feats[6:7], first), stream.accept(feats[7:13]),
             stream.accept(feats[13:], second), stream.finish()]
    zero = np.zeros(3, np.float32)
    at = {-5: zero, 0: zero, 5: zero, 10: first, 15: second, 20: second}
    assert_close(np.concatenate(found), with_ivectors(nnet, 5, feats, at), ROUNDING)


def test_the_i_vector_is_read_at_multiples_of_the_period() -> None:
    nnet = network("ivector")
    rewritten = with_ivector_period(nnet, 8)
    line = next(line for line in rewritten.config_lines() if "component=a " in line)
    assert "Round(ivector, 8)" in line and "ReplaceIndex" not in line
    assert "ReplaceIndex(ivector, t, 0)" in "\n".join(nnet.config_lines())        # the network itself stays as it is
    assert rewritten.component("a") is nnet.component("a") and rewritten.version != nnet.version
    fixed = Nnet.from_config(WITH_IVECTOR.replace("ReplaceIndex(ivector, t, 0)", "ReplaceIndex(ivector, t, 4)"))
    with pytest.raises(CompileError, match=r"ReplaceIndex\(ivector, t, 4\)"):
        with_ivector_period(fixed, 8)


# -- requests and errors -----------------------------------------------------------------------------------------------


def test_requests_of_the_first_chunks() -> None:
    nnet = with_ivector_period(network("ivector"), 6)
    requests = looped_requests(nnet, 6, 4, 1, frame_subsampling_factor=3, num_sequences=2)
    times = [[sorted(set(io.indexes[:, 1].tolist())) for io in (*one.inputs, *one.outputs)] for one in requests]
    assert times == [[list(range(-4, 7)), [-6, 0, 6], [0, 3]], [list(range(7, 13)), [12], [6, 9]],
                     [list(range(13, 19)), [18], [12, 15]]]
    assert requests[1].outputs[0].indexes.tolist() == [[0, 6, 0], [0, 9, 0], [1, 6, 0], [1, 9, 0]]


def test_chunk_sizes() -> None:
    assert looped_chunk_size(network("tdnn"), 20) == 20
    assert looped_chunk_size(network("clockwork"), 20) == 24          # Round 3 and Switch of 2
    assert looped_chunk_size(network("clockwork"), 1, 4) == 12
    for frames, factor in ((0, 1), (5, 0)):
        with pytest.raises(Nnet3Error, match="must be 1 or more"):
            looped_chunk_size(network("tdnn"), frames, factor)


def test_several_sequences_at_once() -> None:
    nnet = network("lstm")
    computation = fuse(find_looped(nnet, looped_requests(nnet, 4, 0, 0, num_sequences=3)), nnet)
    computer = Computer(computation, nnet)
    feats = np.stack([features(nnet, 24, seed) for seed in range(3)])
    found = []
    for begin in range(0, 24, 4):
        computer.accept_input("input", feats[:, begin:begin + 4].reshape(12, -1))
        computer.run()
        found.append(computer.output("output").reshape(3, 4, -1))
    for n in range(3):
        assert_close(np.concatenate(found, axis=1)[n], whole(nnet, feats[n]), ROUNDING)


def test_looped_compilation_says_how_long_it_took(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="nnet3py"):
        LoopedComputer(network("tdnn"))
    assert any(r.getMessage().startswith("Spent ") and r.getMessage().endswith(" seconds in looped compilation.")
               for r in caplog.records)


def test_what_cannot_be_looped() -> None:
    nnet = network("tdnn")
    requests = looped_requests(nnet, 4, 5, 3)
    with pytest.raises(CompileError, match="differ by more than their time"):
        find_looped(nnet, requests[:2])
    with pytest.raises(NotComputableError, match="output"):
        find_looped(nnet, looped_requests(nnet, 4, 5, 2))
    trained = [ComputationRequest(one.inputs, [IoSpecification("output", one.outputs[0].indexes, True)], True)
               for one in requests]
    with pytest.raises(CompileError, match="forward only"):
        find_looped(nnet, trained)
    other = [requests[0], *looped_requests(nnet, 4, 5, 3, num_sequences=2)[1:]]
    with pytest.raises(CompileError, match="different sequences"):
        generate_segments(nnet, other)


def test_chunks_that_never_repeat_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3py.compiler.looped.NUM_REQUESTS", (3,))
    nnet = network("two-speeds")                     # needs more chunks of one frame than these until they are alike
    with pytest.raises(CompileError, match="Looped compilation failed with 3 requests"):
        find_looped(nnet, looped_requests(nnet, 1, 5, 7))


# What all frames use of one frame stays where it is; the first chunks' output shares its matrix with other rows.
ONE_FRAME = """
input-node name=input dim=2
component name=a type=AffineComponent input-dim=2 output-dim=2
component-node name=a component=a input=input
output-node name=output input=Sum(Offset(a, -2), ReplaceIndex(a, t, 1))
"""


@pytest.mark.parametrize("chunk", [1, 3, 7])
def test_what_is_needed_for_ever_is_kept(chunk: int) -> None:
    nnet = Nnet.from_config(ONE_FRAME)
    requests = looped_requests(nnet, chunk, 4, 3)
    computation = fuse(find_looped(nnet, requests), nnet)
    requests = _extrapolated(requests, 25)
    straight = consolidate_io(generate_segments(nnet, requests))
    assert_close(run_chunks(computation, nnet, requests), run_chunks(straight, nnet, requests), ROUNDING)


def test_chunks_do_not_have_the_same_random_numbers() -> None:
    dropout = """
        input-node name=input dim=4
        component name=d type=DropoutComponent dim=4 dropout-proportion=0.5
        component-node name=d component=d input=input
        output-node name=output input=d
    """
    looped = LoopedComputer(Nnet.from_config(dropout), 8, training_mode=True)
    masks = looped.compute(np.ones((32, 4), np.float32)).reshape(4, 8, 4) == 0.0
    assert all((masks[i] != masks[j]).any() for i in range(4) for j in range(i))


def test_wrong_arguments() -> None:
    nnet = network("ivector")
    with pytest.raises(UsageError, match="extra-left-context-initial"):
        LoopedComputer(nnet, extra_left_context_initial=-1)
    looped = LoopedComputer(nnet, 4)
    stream, feats = looped.stream(), features(nnet, 4)
    with pytest.raises(ShapeError, match="dimension 2"):
        stream.accept(np.zeros((3, 5)))
    with pytest.raises(ShapeError, match="'ivector' features with dimension 3"):
        stream.accept(feats, np.zeros(4))
    with pytest.raises(ShapeError, match="'ivector' features with dimension 3"):
        looped.compute(feats)
    with pytest.raises(NumericError):
        stream.accept(np.full((3, 2), np.nan))
    with pytest.raises(ShapeError, match="priors"):
        LoopedComputer(nnet, priors=np.ones(7))


# -- random networks ---------------------------------------------------------------------------------------------------


def run_chunks(computation: Computation, nnet: Nnet, requests: list[ComputationRequest]) -> np.ndarray:
    """The outputs for the requests, one after the other, on random inputs (always the same)."""
    rng = np.random.default_rng(5)
    computer, found = Computer(computation, nnet), []
    for request in requests:
        for io in request.inputs:
            computer.accept_input(io.name, rng.standard_normal((len(io.indexes), nnet.input_dim(io.name))))
        computer.run()
        found.append(computer.output("output"))
    return np.concatenate(found)


@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
@given(config(component="type=AffineComponent input-dim=2 output-dim=2"), st.integers(1, 5), st.integers(4, 7),
       st.integers(2, 5))
def test_random_networks(text: str, frames_per_chunk: int, left: int, right: int) -> None:
    """Chunks of a loop give what the same chunks give one after the other."""
    nnet = Nnet.from_config(text)
    nnet.scale(0.25)                  # lets recurrences forget, instead of growing beyond all bounds
    chunk = looped_chunk_size(nnet, frames_per_chunk)
    requests = looped_requests(nnet, chunk, left, right)
    try:
        with few_waves():
            computation = fuse(find_looped(nnet, requests), nnet)
    except (NotComputableError, CompileError):
        return
    requests = _extrapolated(requests, 16)
    straight = consolidate_io(generate_segments(nnet, requests))
    assert_close(run_chunks(computation, nnet, requests), run_chunks(straight, nnet, requests), ROUNDING)


# -- Rows that come and go ---------------------------------------------------------------------------------------------


RNG = np.random.default_rng(3)


def test_rows_have_their_numbers():
    everything = RNG.standard_normal((1000, 3)).astype(np.float32)
    buffer, at = FrameBuffer(3), 0
    while at < len(everything):
        count = int(RNG.integers(0, 40))
        buffer.append(everything[at:at + count])
        at = min(at + count, len(everything))
        assert buffer.end == at
        np.testing.assert_array_equal(buffer.between(buffer.first, at), everything[buffer.first:at])
        if at > buffer.first:
            numbers = RNG.integers(buffer.first, at, 5)
            np.testing.assert_array_equal(buffer.rows(numbers), everything[numbers])
        buffer.forget(int(RNG.integers(0, at + 30)))
        assert buffer.first <= buffer.end == at


def test_memory_is_reused():
    buffer = FrameBuffer(2)
    for number in range(3000):
        buffer.append(np.full((5, 2), number, dtype=np.float32))
        buffer.forget(buffer.end - 20)
    assert len(buffer._rows) <= 64
    np.testing.assert_array_equal(buffer.between(buffer.end - 1, buffer.end), [[2999, 2999]])


def test_a_forgotten_row_stays_forgotten():
    buffer = FrameBuffer(1)
    buffer.append(np.arange(10.0)[:, None])
    buffer.forget(4)
    buffer.forget(2)
    assert (buffer.first, buffer.end) == (4, 10)
    buffer.forget(99)
    assert (buffer.first, buffer.end) == (10, 10)
