"""nnet3py/runtime/cutting.py: outputs are those of one chunk after the other, however utterances are cut."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from runtime_cases import LSTM, TDNN, assert_close, computer_for
from thinned import thinned

from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import Nnet3Error, NumericError, ShapeError
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.compute import UtteranceComputer
from nnet3py.runtime.cutting import ChunkAfterChunk, Utterance
from nnet3py.runtime.options import ComputeOptions

BACKWARD = LSTM.replace("Offset(m, -1)", "Offset(m, 1)").replace("Offset(c, -1)", "Offset(c, 1)")
OPTIONAL = """
input-node name=input dim=3
component name=a type=AffineComponent input-dim=3 output-dim=4
component-node name=a component=a input=Sum(Offset(input, -1), Failover(Offset(input, {ahead}), input))
output-node name=output input=a
"""
AHEAD, BEHIND = OPTIONAL.format(ahead=2), OPTIONAL.format(ahead=-2)
ROUNDED = """
input-node name=input dim=3
component name=a type=AffineComponent input-dim=6 output-dim=4
component-node name=a component=a input=Append(Round(input, 4), Offset(input, 2))
output-node name=output input=a
"""
WITH_IVECTOR = LSTM.replace("input-dim=5 output-dim=8", "input-dim=7 output-dim=8").replace(
    "Append(input,", "Append(input, ReplaceIndex(ivector, t, 0),").replace(
    "component name=gates", "input-node name=ivector dim=2\ncomponent name=gates")
LENGTHS = (23, 1, 60, 7, 50, 300, 51, 24, 26, 8, 20, 40)


def utterances(lengths=LENGTHS) -> list[Utterance]:
    rng = np.random.default_rng(0)
    return [Utterance(f"u{i}", rng.standard_normal((n, 3), dtype=np.float32)) for i, n in enumerate(lengths)]


def chunk_after_chunk(nnet: Nnet, utterance: Utterance, options: ComputeOptions, period: int = 1) -> np.ndarray:
    """The plain way: a computation for each chunk, of its own length."""
    left, right = compute_simple_nnet_context(nnet)
    factor = options.frame_subsampling_factor
    unit = np.lcm(factor, nnet.modulus())
    size = -(-options.frames_per_chunk // unit) * unit
    outputs = []
    for begin in range(0, len(utterance.feats), size):
        end = min(begin + size, len(utterance.feats))
        extra = options.extra_context(begin == 0, end == len(utterance.feats))
        wanted = np.arange(begin, end, factor)
        given = np.arange(begin - left - extra[0], wanted[-1] + right + extra[1] + 1)
        inputs = [specification("input", given - begin)]
        row = utterance.ivector
        if utterance.online_ivectors is not None:
            middle = (wanted[0] + wanted[-1]) // 2
            row = utterance.online_ivectors[min(middle // period, len(utterance.online_ivectors) - 1)]
        if row is not None:
            inputs.append(specification("ivector", np.zeros(1)))
        computer = computer_for(nnet, ComputationRequest(inputs, [specification("output", wanted - begin)]))
        computer.accept_input("input", utterance.feats[np.clip(given, 0, len(utterance.feats) - 1)])
        if row is not None:
            computer.accept_input("ivector", row[None])
        computer.run()
        outputs.append(computer.output("output"))
    return np.vstack(outputs)


def specification(name: str, times: np.ndarray) -> IoSpecification:
    indexes = np.zeros((len(times), 3), dtype=np.int32)
    indexes[:, 1] = times
    return IoSpecification(name, indexes)


def check(config: str, options: ComputeOptions, data: list[Utterance], period: int = 1, **more) -> UtteranceComputer:
    """Compute many at a time and one at a time; both must be as the plain way."""
    nnet = Nnet.from_config(config)
    computer = UtteranceComputer(nnet, options, **more)
    found = list(computer.compute_all(iter(data), period))
    assert [key for key, _ in found] == [one.key for one in data]
    for one, (_, output) in zip(data, found, strict=True):
        expected = chunk_after_chunk(nnet, one, options, period)
        assert_close(output, expected)
        assert_close(computer.compute(one.feats, one.ivector, one.online_ivectors, period), expected)
    return computer


@pytest.mark.parametrize(("config", "options"), thinned([TDNN, LSTM, BACKWARD, AHEAD, BEHIND, ROUNDED], [
    {}, {"extra_left_context": 6}, {"extra_left_context": 6, "extra_left_context_initial": 0},
    {"extra_left_context_initial": 3, "extra_right_context": 2, "extra_right_context_final": 0},
    {"frame_subsampling_factor": 3}, {"frame_subsampling_factor": 2, "extra_right_context_final": 4}]))
def test_outputs(config, options):
    check(config, ComputeOptions(frames_per_chunk=20, **options), utterances())


@pytest.mark.parametrize("config", [TDNN, LSTM])
def test_little_may_wait(config):
    check(config, ComputeOptions(frames_per_chunk=7), utterances(), max_pending=200)


def test_ivectors():
    rng = np.random.default_rng(1)
    options = ComputeOptions(frames_per_chunk=20, extra_left_context=4)
    constant = [one._replace(ivector=rng.standard_normal(2, dtype=np.float32)) for one in utterances()]
    check(WITH_IVECTOR, options, constant)
    online = [one._replace(online_ivectors=rng.standard_normal((len(one.feats) // 10 + 1, 2), dtype=np.float32))
              for one in utterances()]
    check(WITH_IVECTOR, options, online, period=10)
    not_recurrent = "\n".join(line for line in WITH_IVECTOR.splitlines() if "cell" not in line and "name=m" not in line)
    not_recurrent = not_recurrent.replace("IfDefined(Offset(m, -1))", "Offset(input, 1)").replace(
        "input-dim=7", "input-dim=8").replace("input=m", "input=gates").replace("input-dim=2 o", "input-dim=8 o")
    check(not_recurrent, ComputeOptions(frames_per_chunk=20), online, period=10)


@pytest.mark.parametrize(("config", "local", "may_lengthen"), [
    (TDNN, True, True), (ROUNDED, True, True), (LSTM, False, True), (BACKWARD, False, False), (BEHIND, False, True),
    (AHEAD, False, False)])
def test_what_a_cutter_may_do(config, local, may_lengthen):
    cutter = ChunkAfterChunk(Nnet.from_config(config), ComputeOptions(), "cpu")
    assert (cutter.is_local, cutter.may_lengthen) == (local, may_lengthen)


def test_few_lengths_are_compiled():
    """Last chunks of a recurrent network have few lengths, and what is computed for one utterance is short."""
    cutter = ChunkAfterChunk(Nnet.from_config(LSTM), ComputeOptions(frames_per_chunk=50), "cpu")
    sizes = {next(cutter.chunks(one, 0)).shape.num_outputs for one in utterances(range(1, 51))}
    assert sizes == {13, 26, 39, 50}
    free = ChunkAfterChunk(Nnet.from_config(TDNN), ComputeOptions(), "cpu")
    for length in (1, 10, 100, 257, 1000, 1001):
        spans = list(free.free_spans(length))
        assert spans[0][0] == 0 and spans[-1][3] == length
        assert all(a[3] == b[2] for a, b in zip(spans, spans[1:], strict=False))
        assert len({end - begin for begin, end, _, _ in spans}) == 1
        assert sum(end - begin for begin, end, _, _ in spans) <= 1.125 * length + 1


@pytest.mark.parametrize(("count", "size"), [(1, 1), (7, 7), (9, 10), (15, 16), (17, 20), (57, 64), (64, 64)])
def test_sizes_of_minibatches(count, size):
    cutter = ChunkAfterChunk(Nnet.from_config(LSTM), ComputeOptions(), "cpu")
    assert cutter.size_for(count, 64) == size


def test_errors_come_in_order():
    """What cannot be computed comes in its place; what ends everything comes after the utterances before it."""
    data = utterances((30, 20, 40))
    data[1].feats[3, 1] = np.inf
    missing = Utterance("m", np.zeros((0, 3), np.float32), error=Nnet3Error("no i-vector"))
    computer = UtteranceComputer(Nnet.from_config(TDNN))
    found = list(computer.compute_all([data[0], missing, *data[1:]]))
    assert [key for key, _ in found] == ["u0", "m", "u1", "u2"]
    assert found[1][1] is missing.error and isinstance(found[2][1], NumericError)
    assert [len(found[i][1]) for i in (0, 3)] == [30, 40]
    wide = Utterance("wide", np.zeros((3, 4), dtype=np.float32))
    results = computer.compute_all([data[0], data[2], wide])
    assert [next(results)[0], next(results)[0]] == ["u0", "u2"]
    with pytest.raises(ShapeError, match="utterance wide: Neural net expects 'input' features with dimension 3"):
        next(results)


def test_commands_are_logged_only_if_that_is_asked_for(caplog):
    caplog.set_level(logging.DEBUG)
    nnet, (utterance,) = Nnet.from_config(TDNN), utterances((5,))
    UtteranceComputer(nnet, ComputeOptions()).compute(utterance.feats)
    assert ".Propagate(" not in caplog.text
    UtteranceComputer(nnet, ComputeOptions(debug=True)).compute(utterance.feats)
    assert ".Propagate(" in caplog.text
