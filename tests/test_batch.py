"""nnet3py/runtime/batch.py: outputs of many utterances at once are those of one after the other."""
from __future__ import annotations

import numpy as np
import pytest
from runtime_cases import LSTM, TDNN, assert_close
from test_cutting import ROUNDED

from nnet3py.errors import Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.batch import BatchComputer, Utterance
from nnet3py.runtime.compute import UtteranceComputer
from nnet3py.runtime.options import BatchOptions, ComputeOptions

WITH_IVECTOR = """
input-node name=input dim=3
input-node name=ivector dim=2
component name=a type=AffineComponent input-dim=8 output-dim=4
component-node name=a component=a input=Append(Offset(input, -2), input, ReplaceIndex(ivector, t, 0))
output-node name=output input=a
"""
LENGTHS = (23, 1, 60, 7, 50, 300, 51, 24, 26, 8)
SMALL = ComputeOptions(frames_per_chunk=20)


def utterances(lengths=LENGTHS) -> list[Utterance]:
    rng = np.random.default_rng(0)
    return [Utterance(f"u{i}", rng.standard_normal((n, 3), dtype=np.float32)) for i, n in enumerate(lengths)]


def batch_outputs(nnet: Nnet, data: list[Utterance], options=SMALL, batch=None, period=0, **more):
    found = list(BatchComputer(nnet, options, batch, **more).compute(iter(data), period))
    assert [key for key, _ in found] == [one.key for one in data]
    return [output for _, output in found]


def one_by_one(nnet: Nnet, data: list[Utterance], options=SMALL, period=0, **more):
    computer = UtteranceComputer(nnet, options, **more)
    return [computer.compute(one.feats, one.ivector, one.online_ivectors, period) for one in data]


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b)


@pytest.mark.parametrize("batch", [
    BatchOptions(), BatchOptions(minibatch_size=3), BatchOptions(minibatch_size=1), BatchOptions(max_pending=100),
    BatchOptions(minibatch_size=5, partial_minibatch_factor=0.0), BatchOptions(partial_minibatch_factor=0.9),
    BatchOptions(ensure_exact_final_context=True)])
@pytest.mark.parametrize("config", [TDNN, ROUNDED])
def test_outputs_of_a_network_without_recurrence(config, batch):
    nnet = Nnet.from_config(config)
    assert_same(batch_outputs(nnet, utterances(), batch=batch), one_by_one(nnet, utterances()))


def test_an_utterance_larger_than_what_may_wait():
    """All of its minibatches were full and have run: there is nothing left to run when its size is looked at."""
    nnet, data = Nnet.from_config(TDNN), utterances((300, 20, 1500))
    batch = BatchOptions(minibatch_size=1, edge_minibatch_size=1, max_pending=50)
    assert_same(batch_outputs(nnet, data, batch=batch), one_by_one(nnet, data, max_pending=50))


@pytest.mark.parametrize("options", [
    ComputeOptions(frames_per_chunk=20, frame_subsampling_factor=3), ComputeOptions(extra_left_context=3),
    ComputeOptions(extra_left_context_initial=0, extra_left_context=2, extra_right_context_final=4),
    ComputeOptions(acoustic_scale=0.25, frames_per_chunk=1)])
def test_options_of_computing(options):
    nnet = Nnet.from_config(TDNN)
    priors = np.array([0.1, 0.2, 0.3, 0.4], dtype=np.float32)
    assert_same(batch_outputs(nnet, utterances(), options, priors=priors),
                one_by_one(nnet, utterances(), options, priors=priors))


def test_constant_ivectors():
    nnet = Nnet.from_config(WITH_IVECTOR)
    rng = np.random.default_rng(1)
    data = [one._replace(ivector=rng.standard_normal(2, dtype=np.float32)) for one in utterances()]
    assert_same(batch_outputs(nnet, data, batch=BatchOptions(minibatch_size=4)), one_by_one(nnet, data))


def online(feats: np.ndarray, period: int) -> np.ndarray:
    count = -(-len(feats) // period)
    return np.arange(2 * count, dtype=np.float32).reshape(count, 2)


def test_online_ivectors_are_those_of_the_middle_of_chunks():
    nnet = Nnet.from_config(WITH_IVECTOR)
    data = [one._replace(online_ivectors=online(one.feats, 10)) for one in utterances((60, 33, 5))]
    found = batch_outputs(nnet, data, period=10)
    for output, one, chunks in zip(found, data, (((0, 20, 1), (20, 40, 3), (40, 60, 5)),
                                                 ((0, 20, 1), (20, 33, 2)),      # the last chunk begins at 13
                                                 ((0, 5, 0),)), strict=True):    # row 1 does not exist
        for begin, end, row in chunks:
            expected = one_by_one(nnet, [Utterance("u", one.feats, one.online_ivectors[row])])[0]
            assert_close(output[begin:end], expected[begin:end])


def test_online_ivectors_that_end_too_early():
    data = [utterances((100,))[0]._replace(online_ivectors=np.zeros((4, 2), dtype=np.float32))]
    with pytest.raises(Nnet3Error, match=r"utterance u0: Could not get iVector for frame 70.*there are 4"):
        batch_outputs(Nnet.from_config(WITH_IVECTOR), data, period=10)
    data = [utterances((72,))[0]._replace(online_ivectors=np.zeros((5, 2), dtype=np.float32))]
    assert len(batch_outputs(Nnet.from_config(WITH_IVECTOR), data, period=10)[0]) == 72      # 20 frames late


def test_a_recurrent_network_is_cut_as_kaldi_cuts():
    nnet = Nnet.from_config(LSTM)
    options = ComputeOptions(frames_per_chunk=20, extra_left_context=5, extra_left_context_initial=0)
    data = utterances((33, 7))
    long, short = batch_outputs(nnet, data, options)
    single = UtteranceComputer(nnet, ComputeOptions(frames_per_chunk=20, extra_left_context=0))
    assert_close(long[:20], single.compute(data[0].feats[:20]))
    with_context = UtteranceComputer(nnet, ComputeOptions(frames_per_chunk=25)).compute(data[0].feats[8:])
    assert_close(long[20:], with_context[12:])          # five frames of context and the chunk of 13 to 32
    assert_close(short, single.compute(data[1].feats))


def test_exact_final_context():
    """A network that looks to the end of its chunk: only with the utterance's own length is the output the same."""
    backward = LSTM.replace("Offset(m, -1)", "Offset(m, 1)").replace("Offset(c, -1)", "Offset(c, 1)")
    nnet, data = Nnet.from_config(backward), utterances((7, 12, 7))
    expected = one_by_one(nnet, data)
    assert_same(batch_outputs(nnet, data, batch=BatchOptions(ensure_exact_final_context=True)), expected)
    continued = batch_outputs(nnet, data)
    padded = [np.vstack([one.feats, np.repeat(one.feats[-1:], 20 - len(one.feats), axis=0)]) for one in data]
    whole = one_by_one(nnet, [Utterance("u", feats) for feats in padded])
    assert_same(continued, [output[:len(one.feats)] for output, one in zip(whole, data, strict=True)])


def test_what_is_not_finite_affects_its_utterance_only():
    nnet, data = Nnet.from_config(TDNN), utterances()
    expected = one_by_one(nnet, data)
    data[2].feats[40, 1] = np.nan
    found = batch_outputs(nnet, data)
    assert isinstance(found.pop(2), NumericError)
    expected.pop(2)
    assert_same(found, expected)


def test_few_utterances_wait():
    """Results come while there is more to read."""
    read = []

    def source():
        for one in utterances([30] * 40):
            read.append(one.key)
            yield one

    results = BatchComputer(Nnet.from_config(TDNN), SMALL, BatchOptions(minibatch_size=4)).compute(source())
    assert next(results)[0] == "u0" and len(read) == 4
    few = BatchComputer(Nnet.from_config(TDNN), SMALL, BatchOptions(minibatch_size=1000, max_pending=1000))
    read.clear()
    assert next(few.compute(source()))[0] == "u0" and len(read) <= 6


def test_a_computer_is_used_again_after_an_error():
    computer, data = BatchComputer(Nnet.from_config(TDNN), SMALL), utterances()
    with pytest.raises(ShapeError, match="utterance bad: Neural net expects 'input' features with dimension 3 but you"):
        list(computer.compute([data[0], Utterance("bad", np.zeros((3, 4), dtype=np.float32))]))
    assert_same([output for _, output in computer.compute(data)], one_by_one(computer.nnet, data))
    assert list(computer.compute([])) == []


def test_options_that_make_no_sense():
    with pytest.raises(UsageError, match="--minibatch-size=0: expected 1 or more"):
        BatchComputer(Nnet.from_config(TDNN), batch=BatchOptions(minibatch_size=0))


@pytest.mark.parametrize(("count", "size"), [(1, 1), (2, 2), (3, 4), (5, 8), (16, 16), (17, 32), (63, 64), (65, 128)])
def test_sizes_of_partial_minibatches(count, size):
    cutter = BatchComputer(Nnet.from_config(LSTM), SMALL).cutter
    assert next(cutter.chunks(utterances((10,))[0], 0)).shape.full_size == 128
    assert cutter.size_for(count, 128) == size and count <= size <= 2 * count
