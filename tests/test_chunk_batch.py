"""nnet3py/runtime/chunk_batch.py: several streams computed together give the numbers of each one alone."""
from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paths import DATA
from random_networks import config, few_waves
from runtime_cases import assert_close
from test_looped import ROUNDING, TEXTS, features, ivector_for, network, run_chunks
from thinned import thinned

from nnet3py.compiler.computation import Computation
from nnet3py.compiler.looped import (
    _extrapolated,
    carried_state,
    find_looped,
    looped_chunk_size,
    looped_requests,
    num_sequences,
)
from nnet3py.compiler.shortcut import expand_computation
from nnet3py.errors import CompileError, NotComputableError, NumericError
from nnet3py.network.inference import prepare_for_test
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.runtime.binding import Arena
from nnet3py.runtime.chunk_batch import ChunkBatch, StreamState, StreamStates, _StateCopies
from nnet3py.runtime.looped import Chunk, LoopedComputer, LoopedStream

ADDS_UP = """
input-node name=input dim=2
component name=a type=NoOpComponent dim=2
component-node name=a component=a input=Sum(input, IfDefined(Offset(a, -1)))
component name=b type=AffineComponent input-dim=2 output-dim=2
component-node name=b component=b input=a
output-node name=output input=b
"""
KALDIS = ["net-lstm", "net-tdnn", "net-tdnnf", "rnn-clockwork"]


def any_network(name: str) -> Nnet:
    return network(name) if name in TEXTS else prepare_for_test(read_nnet(str(DATA / "looped" / f"{name}.raw")))


def together(looped: LoopedComputer, feats: list[np.ndarray], starts: list[int]) -> list[np.ndarray]:
    """The output of streams that begin one after the other and then are computed together, two frames at a time."""
    nnet = looped.nnet
    streams = [looped.stream() for _ in feats]
    found: list[list[np.ndarray]] = [[] for _ in feats]
    for now in range(0, max(map(len, feats)) + max(starts) + 2, 2):
        for stream, frames, start in zip(streams, feats, starts, strict=True):
            at = now - start
            if 0 <= at < len(frames):
                stream.take(frames[at:at + 2], ivector_for(nnet))
            elif at >= len(frames):
                stream.end()
        compute_pending(looped, streams, found)
    return [np.concatenate(rows) for rows in found]


def compute_pending(looped: LoopedComputer, streams: list[LoopedStream], found: list[list[np.ndarray]]) -> None:
    while True:
        pending = [(i, chunk) for i, stream in enumerate(streams) if (chunk := stream.pending_chunk()) is not None]
        if not pending:
            return
        for (i, chunk), output in zip(pending, looped.compute_chunks([chunk for _, chunk in pending]), strict=True):
            found[i].append(streams[i].accept_output(chunk, output))


@pytest.mark.parametrize(("name", "frames_per_chunk"), thinned([*TEXTS, *KALDIS], [4, 20]))
def test_streams_together_give_what_each_gives_alone(name: str, frames_per_chunk: int) -> None:
    looped = LoopedComputer(any_network(name), frames_per_chunk, frame_subsampling_factor=2, max_batch=3)
    assert looped.max_batch == 3
    feats = [features(looped.nnet, frames, seed) for seed, frames in enumerate((70, 41, 1, 96, 60))]
    found = together(looped, feats, [0, 8, 14, 30, 30])
    for rows, frames in zip(found, feats, strict=True):
        assert_close(rows, looped.compute(frames, ivector_for(looped.nnet)), ROUNDING)


def test_a_stream_is_not_harmed_by_another_one() -> None:
    nnet = Nnet.from_config(ADDS_UP)
    parameters = nnet.component("b").parameters()
    parameters["linear_params"][...] = [[1, 0], [1, 1]]       # at last inf - inf
    parameters["bias_params"][...] = 0
    looped = LoopedComputer(nnet, 2)
    huge, small = np.full((2, 2), [3e38, -3e38], np.float32), np.ones((2, 2), np.float32)
    fine, bad = looped.stream(), looped.stream()
    found = []
    for _ in range(4):
        found.append(looped.compute_chunks([Chunk(fine._state, small), Chunk(bad._state, huge)]))
    assert isinstance(found[-1][1], NumericError)
    np.testing.assert_array_equal(np.concatenate([rows for rows, _ in found])[:, 0], range(1, 9))


def test_threads_that_meet_are_computed_together() -> None:
    looped = LoopedComputer(network("lstm"), 4)
    feats = [features(looped.nnet, 60, seed) for seed in range(6)]
    expected = [looped.compute(frames) for frames in feats]
    sizes = set()
    run = ChunkBatch.run

    def counted(self: ChunkBatch, number: int, slots: list[int], *rest: Any) -> list[np.ndarray]:
        sizes.add(len(slots))
        time.sleep(0.001)
        return run(self, number, slots, *rest)

    with ThreadPoolExecutor(6) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChunkBatch, "run", counted)
        streams = [looped.stream() for _ in feats]
        found = list(pool.map(lambda stream, frames: np.concatenate((stream.accept(frames), stream.finish())),
                              streams, feats))
    for rows, wanted in zip(found, expected, strict=True):
        assert_close(rows, wanted, ROUNDING)
    assert max(sizes) > 1


def test_any_chunks_but_the_first_ones_go_together() -> None:
    looped = LoopedComputer(network("tdnn"), 6)
    sizes: list[int] = []
    run = ChunkBatch.run

    def counted(self: ChunkBatch, number: int, slots: list[int], *rest: Any) -> list[np.ndarray]:
        sizes.append(len(slots))
        return run(self, number, slots, *rest)

    streams = [looped.stream() for _ in range(4)]
    for count, stream in enumerate(streams):
        stream.accept(features(looped.nnet, 6 * (count + 3) + looped.right_context))
        stream.take(features(looped.nnet, 6))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChunkBatch, "run", counted)
        compute_pending(looped, streams, [[] for _ in streams])
    assert sizes == [4]


@pytest.mark.parametrize("name", ["lstm", "tdnn"])
def test_a_stream_goes_on_in_several_ways(name: str) -> None:
    """Chunks with a state of their own for what follows leave the one they begin with as it is."""
    looped = LoopedComputer(network(name), 6, max_batch=4)
    whole = [features(looped.nnet, 6 * 8 + looped.right_context, seed) for seed in range(3)]
    for frames in whole[1:]:
        frames[:24 + looped.right_context] = whole[0][:24 + looped.right_context]
    expected = [looped.stream().accept(frames) for frames in whole]
    stem = looped.new_state()
    for number in range(4):
        first, end = looped.frames_of_chunk(number)
        padded = np.concatenate((np.repeat(whole[0][:1], max(-first, 0), axis=0), whole[0][max(first, 0):end]))
        looped.compute_chunks([Chunk(stem, padded)])
    branches = [stem] * 3
    for number in range(4, 8):
        first, end = looped.frames_of_chunk(number)
        nexts = [looped.new_state() for _ in whole]
        rows = looped.compute_chunks([Chunk(state, frames[first:end], None, following) for state, frames, following
                                      in zip(branches, whole, nexts, strict=True)])
        branches = nexts
        for row, wanted in zip(rows, expected, strict=True):
            assert isinstance(row, np.ndarray)
            assert_close(row, wanted[6 * number:6 * number + 6], ROUNDING)
        assert stem.num_chunks == 4 and branches[0].num_chunks == number + 1
    assert not np.array_equal(expected[0][-6:], expected[1][-6:])


def test_memory_of_streams_that_are_gone_is_used_again() -> None:
    looped = LoopedComputer(network("lstm"), 4)
    feats = features(looped.nnet, 30)
    expected = looped.compute(feats)
    for _ in range(40):
        streams = [looped.stream() for _ in range(5)]
        assert_close(streams[-1].accept(feats), expected[:28], ROUNDING)
    assert looped._states.buffer.size <= 16 * looped._states.width


def test_what_is_carried_stays_when_memory_grows() -> None:
    ops = get_ops("cpu")
    states = StreamStates(ops, 5)
    first = StreamState(states)
    states.reserve()
    row = states.buffer.reshape(-1, states.width)
    row[first.slot] = 3.0
    others = [StreamState(states) for _ in range(20)]
    states.reserve()
    assert len({one.slot for one in (first, *others)}) == 21
    rows = states.buffer.reshape(-1, states.width)
    assert (rows[first.slot] == 3.0).all() and (rows[others[-1].slot] == 0.0).all()


# -- the compiled computation ------------------------------------------------------------------------------------------


def test_the_second_start_compiles_nothing(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    nnet, folder = network("ivector"), tmp_path / "kept"
    feats = features(nnet, 40)
    expected = LoopedComputer(nnet, 5, cache_dir=folder).compute(feats, ivector_for(nnet))
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr("nnet3py.compiler.looped._compile", None)
    found = LoopedComputer(nnet, 5, cache_dir=folder, max_batch=2).compute(feats, ivector_for(nnet))
    np.testing.assert_array_equal(found, expected)
    for other in ({"frames_per_chunk": 10}, {"extra_left_context_initial": 3}, {"frame_subsampling_factor": 5}):
        with pytest.raises(TypeError):          # compiles
            LoopedComputer(nnet, **{"frames_per_chunk": 5, "cache_dir": folder, **other})


def test_what_is_kept_is_checked(tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    nnet = network("lstm")
    LoopedComputer(nnet, 4, cache_dir=tmp_path / "four")
    LoopedComputer(nnet, 6, cache_dir=tmp_path / "six")
    four, six = (next((tmp_path / name).iterdir()) for name in ("four", "six"))
    data = six.read_bytes()
    key = four.name.split(".")[0].encode()
    four.write_bytes(data.replace(six.name.split(".")[0].encode(), key))        # as if it were the other's
    feats = features(nnet, 23)
    assert_close(LoopedComputer(nnet, 4, cache_dir=tmp_path / "four").compute(feats),
                 LoopedComputer(nnet, 4).compute(feats), ROUNDING)
    assert "has other input or output rows than its request" in caplog.text


def test_what_a_network_carries() -> None:
    nnet = network("tdnn")
    looped = LoopedComputer(nnet, 6)
    carried = carried_state(looped.computation, looped.nnet)
    assert len(carried.chunks[0].before.matrices) == 0
    assert [carried.number_of(k) for k in range(6)] == [0, 1, 2, 2, 2, 2]
    # Of 3 inputs and 5 and 4 activations: what Offset(…, 2) and -1, -3, and 1 and -1 reach back over.
    assert carried.chunks[-1].after.width(looped.computation) <= 4 * 3 + 4 * 5 + 3 * 4 + 3 * 9
    assert num_sequences(looped.computation) == 1


@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
@given(config(component="type=AffineComponent input-dim=2 output-dim=2"), st.integers(1, 5), st.integers(4, 7),
       st.integers(2, 5))
def test_random_networks(text: str, frames_per_chunk: int, left: int, right: int) -> None:
    """Three sequences at once, with what is carried copied away between all chunks, give what each gives alone."""
    nnet = Nnet.from_config(text)
    nnet.scale(0.25)
    chunk = looped_chunk_size(nnet, frames_per_chunk)
    requests = looped_requests(nnet, chunk, left, right)
    try:
        with few_waves():
            alone = find_looped(nnet, requests)
            pair = find_looped(nnet, looped_requests(nnet, chunk, left, right, num_sequences=2))
            three = expand_computation(pair, nnet, 3)
    except (NotComputableError, CompileError):
        return
    requests = _extrapolated(requests, 14)
    expected = run_chunks(alone, nnet, requests)
    assert_close(run_from_what_was_carried(pair, three, nnet, requests), expected, ROUNDING)


@pytest.mark.parametrize(("name", "frames_per_chunk"), [
    *((name, 5) for name in TEXTS), *((name, 1) for name in KALDIS)])
def test_a_chunk_needs_only_what_was_carried(name: str, frames_per_chunk: int) -> None:
    looped = LoopedComputer(any_network(name), frames_per_chunk)
    context, chunk = (looped.left_context, looped.right_context), looped.frames_per_chunk
    first = looped_requests(looped.nnet, chunk, *context)
    alone = find_looped(looped.nnet, first)
    pair = find_looped(looped.nnet, looped_requests(looped.nnet, chunk, *context, num_sequences=2))
    requests = _extrapolated(first, 12)
    expected = run_chunks(alone, looped.nnet, requests)
    for found, together in ((alone, alone), (pair, expand_computation(pair, looped.nnet, 3))):
        assert_close(run_from_what_was_carried(found, together, looped.nnet, requests), expected, ROUNDING)


def run_from_what_was_carried(found: Computation, together: Computation, nnet: Nnet, requests: list) -> np.ndarray:
    """The output of the middle one of the sequences of ``together``; nothing else is left of the chunks before."""
    ops, count = get_ops("cpu"), num_sequences(together)
    arena, carried = Arena(ops), carried_state(found, nnet)
    states = StreamStates(ops, carried.width)
    batch = ChunkBatch(together, carried, nnet, ops, arena, states)
    slots = [states.take() for _ in range(count)]
    rng, outputs = np.random.default_rng(5), []
    for k, request in enumerate(requests):
        given = {io.name: rng.standard_normal((len(io.indexes), nnet.input_dim(io.name))) for io in request.inputs}
        output = batch.run(carried.number_of(k), slots,
                           {name: [2.0 * one, one][-count:] for name, one in given.items()})
        arena.buffer[:] = np.nan
        outputs.append(output[count // 2])
        slots.reverse()                         # the first and the last change places
    return np.concatenate(outputs)


def test_rows_that_no_stream_uses_belong_to_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of six computes five streams after six: its last row must not change the sixth stream's state."""
    looped = LoopedComputer(network("lstm"), 4, max_batch=6)
    feats = [features(looped.nnet, 60, seed) for seed in range(6)]
    streams = [looped.stream() for _ in feats]
    begun = [stream.accept(frames[:30]) for stream, frames in zip(streams, feats, strict=True)]
    assert all(len(rows) for rows in begun)
    given_slots, offsets_for = [], _StateCopies.offsets_for

    def offsets_seen(moves: _StateCopies, slots: np.ndarray) -> np.ndarray:
        given_slots.append(slots.tolist())
        return offsets_for(moves, slots)

    monkeypatch.setattr(_StateCopies, "offsets_for", offsets_seen)
    for count, frames_from in ((6, 30), (5, 40)):
        given_slots.clear()
        for stream, frames in zip(streams[:count], feats, strict=False):
            stream.take(frames[frames_from:frames_from + 10])
        compute_pending(looped, streams[:count], [[] for _ in feats])
        assert given_slots and all(len(slots) == 7 and slots[-1] == -1 for slots in given_slots)
    assert all(slots[5] == 0 and len(set(slots[:5])) == 5 for slots in given_slots)
