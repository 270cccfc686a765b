"""nnet3py/runtime/compute.py: utterances in chunks give what one computation of the whole gives."""
from __future__ import annotations

import copy
import gc
import logging
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from paths import DATA
from runtime_cases import (
    LSTM,
    TDNN,
    TDNN_CONTEXT,
    assert_close,
    computer_for,
    forward_request,
    parameters,
)

import nnet3py
import nnet3py.runtime.compute as compute_module
from nnet3py.acoustic_model import AcousticModel
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import FormatError, Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.compute import UtteranceComputer, compute
from nnet3py.runtime.looped import LoopedComputer
from nnet3py.runtime.options import ComputeOptions

FRAMES = 23

WITH_IVECTOR = """
input-node name=input dim=3
input-node name=ivector dim=2
component name=a type=AffineComponent input-dim=8 output-dim=4
component name=t type=TanhComponent dim=4
component-node name=a component=a input=Append(Offset(input, -1), Offset(input, 1), ReplaceIndex(ivector, t, 0))
component-node name=t component=t input=a
output-node name=output input=t
"""

# Adds up the input and the last two frames' sums: how far back it saw can be read off the output.
COUNTER = """
input-node name=input dim=1
component name=n type=NoOpComponent dim=1
component-node name=n component=n input=Sum(input, IfDefined(Offset(n, -1)))
output-node name=output input=n
"""

CLOCKED = """
input-node name=input dim=3
component name=a type=AffineComponent input-dim=3 output-dim=4
component-node name=a component=a input=Round(input, 3)
output-node name=output input=a
"""


def features(frames: int = FRAMES, dim: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((frames, dim), dtype=np.float32)


def whole(nnet: Nnet, feats: np.ndarray, context: tuple[int, int], every: int = 1) -> np.ndarray:
    """Output of a whole utterance in one computation, its ends repeated."""
    left, right = context
    times = np.arange(-left, len(feats) + every + right)
    request = forward_request(1, range(-left, len(feats) + every + right), range(0, len(feats), every))
    computer = computer_for(nnet, request)
    computer.accept_input("input", feats[np.clip(times, 0, len(feats) - 1)])
    computer.run()
    return computer.output("output")


def of_cutting(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "nnet3py.runtime.cutting"]


@pytest.mark.parametrize("frames_per_chunk", [1, 2, 7, FRAMES - 1, FRAMES, FRAMES + 1, 1000])
def test_chunks_of_any_size_give_the_same(frames_per_chunk):
    nnet, feats = Nnet.from_config(TDNN), features()
    assert_close(compute(nnet, feats, frames_per_chunk=frames_per_chunk), whole(nnet, feats, TDNN_CONTEXT))


@pytest.mark.parametrize("frames", [1, 2, 3, 50])
def test_utterances_of_any_length(frames):
    nnet, feats = Nnet.from_config(TDNN), features(frames)
    found = compute(nnet, feats, frames_per_chunk=20)
    assert found.shape == (frames, 4) and found.dtype == np.float32
    assert_close(found, whole(nnet, feats, TDNN_CONTEXT))
    assert compute(nnet, features(0)).shape == (0, 4)


@pytest.mark.parametrize(("factor", "frames_per_chunk", "rounded"), [(3, 9, 9), (3, 7, 9), (2, 1, 2), (4, 50, 52)])
def test_subsampled_output(factor, frames_per_chunk, rounded, caplog):
    caplog.set_level(logging.INFO)
    nnet, feats = Nnet.from_config(TDNN), features()
    options = ComputeOptions(frame_subsampling_factor=factor, frames_per_chunk=frames_per_chunk)
    found = UtteranceComputer(nnet, options).compute(feats)
    assert found.shape == (-(-FRAMES // factor), 4)
    assert_close(found, whole(nnet, feats, TDNN_CONTEXT, every=factor))
    message = (f"Increasing --frames-per-chunk from {frames_per_chunk} to {rounded} to make it a multiple of "
               f"--frame-subsampling-factor={factor}")
    assert of_cutting(caplog) == ([message] if rounded != frames_per_chunk else [])


def test_chunks_keep_the_network_s_period(caplog):
    caplog.set_level(logging.INFO)
    nnet, feats = Nnet.from_config(CLOCKED), features()
    found = UtteranceComputer(nnet, ComputeOptions(frames_per_chunk=7, frame_subsampling_factor=2)).compute(feats)
    assert of_cutting(caplog) == ["Increasing --frames-per-chunk from 7 to 12 to make it a multiple of nnet "
                                  "shift-invariance modulus = 3 and --frame-subsampling-factor=2"]
    times = np.arange(0, FRAMES, 2)
    affine = parameters(nnet)
    expected = feats[times // 3 * 3] @ affine["a.linear_params"].T + affine["a.bias_params"]
    assert_close(found, expected)


@pytest.mark.parametrize(("options", "history"), [
    ({}, [0, 0, 0]),
    ({"extra_left_context": 2}, [2, 2, 2]),
    ({"extra_left_context": 2, "extra_left_context_initial": 0}, [0, 2, 2]),
    ({"extra_left_context_initial": 5}, [5, 0, 0]),
])
def test_extra_left_context(options, history):
    """Of a network that counts frames; each chunk of 4 sees so many frames before its own."""
    found = UtteranceComputer(Nnet.from_config(COUNTER), ComputeOptions(frames_per_chunk=4, **options)).compute(
        np.ones((10, 1)))
    expected = [h + 1 + i for h, length in zip(history, (4, 4, 2), strict=True) for i in range(length)]
    np.testing.assert_array_equal(found[:, 0], expected)


@pytest.mark.parametrize(("options", "future"), [
    ({"extra_right_context": 3}, [3, 3, 3]),
    ({"extra_right_context": 3, "extra_right_context_final": 1}, [3, 3, 1]),
    ({"extra_right_context_final": 2}, [0, 0, 2]),
])
def test_extra_right_context(options, future):
    nnet = Nnet.from_config(COUNTER.replace("Offset(n, -1)", "Offset(n, 1)"))
    found = UtteranceComputer(nnet, ComputeOptions(frames_per_chunk=4, **options)).compute(np.ones((10, 1)))
    expected = [f + length - i for f, length in zip(future, (4, 4, 2), strict=True) for i in range(length)]
    np.testing.assert_array_equal(found[:, 0], expected)


def test_a_recurrence_sees_real_frames_where_there_are_some():
    nnet, feats = Nnet.from_config(LSTM), features()
    all_context = ComputeOptions(frames_per_chunk=5, extra_left_context=FRAMES, extra_left_context_initial=0)
    one_chunk = UtteranceComputer(nnet, ComputeOptions(frames_per_chunk=1000)).compute(feats)
    chunks = UtteranceComputer(nnet, all_context).compute(feats)
    assert_close(chunks[:5], one_chunk[:5])
    assert not np.allclose(UtteranceComputer(nnet, ComputeOptions(frames_per_chunk=5)).compute(feats)[5:],
                           one_chunk[5:], atol=1e-3)


# -- i-vectors ---------------------------------------------------------------------------------------------------------


def with_ivectors(nnet: Nnet, feats: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """What WITH_IVECTOR computes, an i-vector row given for each frame."""
    affine = parameters(nnet)
    t = np.arange(len(feats))
    spliced = np.hstack([feats[np.maximum(t - 1, 0)], feats[np.minimum(t + 1, len(feats) - 1)], rows])
    return np.tanh(spliced @ affine["a.linear_params"].T + affine["a.bias_params"])


def test_constant_ivector():
    nnet, feats = Nnet.from_config(WITH_IVECTOR), features()
    ivector = np.array([0.5, -2.0])
    expected = with_ivectors(nnet, feats, np.tile(ivector, (FRAMES, 1)))
    assert_close(compute(nnet, feats, ivector, frames_per_chunk=6), expected)


@pytest.mark.parametrize(("factor", "rows"), [
    (1, [0, 1, 2, 4]),     # one i-vector every 5 frames; middles of the chunks: 2, 8, 14, 20
    (2, [0, 1, 2, 4]),     # 2, 8, 14, 20 (their last outputs are at 4, 10, 16, 22)
])
def test_online_ivectors_of_the_chunk_s_middle(factor, rows):
    nnet, feats = Nnet.from_config(WITH_IVECTOR), features()
    online = features(10, 2, seed=5)
    options = ComputeOptions(frames_per_chunk=6, frame_subsampling_factor=factor)
    found = UtteranceComputer(nnet, options).compute(feats, online_ivectors=online, online_ivector_period=5)
    expected = with_ivectors(nnet, feats, online[np.repeat(rows, 6)[:FRAMES]])[::factor]
    assert_close(found, expected)


def test_compute_takes_online_ivectors():
    nnet, feats, online = Nnet.from_config(WITH_IVECTOR), features(), features(10, 2, seed=5)
    expected = with_ivectors(nnet, feats, online[np.repeat([0, 1, 2, 4], 6)[:FRAMES]])
    settings = {"frames_per_chunk": 6, "online_ivector_period": 5}
    assert_close(compute(nnet, feats, online, **settings), expected)
    assert_close(nnet(feats, online, **settings), expected)
    several = compute(nnet, {"a": feats, "b": feats}, {"a": online, "b": np.ones(2)}, **settings)
    assert_close(several["a"], expected)
    assert_close(several["b"], with_ivectors(nnet, feats, np.ones((FRAMES, 2))))
    assert_close(compute(nnet, np.stack([feats, feats]), np.stack([online, online]), **settings)[1], expected)
    for given in (feats, [feats]):
        with pytest.raises(ShapeError, match=r"online i-vectors are given, an array of shape \(10, 2\), but not "
                                             r".*online_ivector_period=10"):
            compute(nnet, given, online if given is feats else [online])
    with pytest.raises(UsageError, match="online-ivector-period=0"):
        compute(nnet, feats, online, online_ivector_period=0)
    with pytest.raises(Nnet3Error, match="Could not get iVector"):
        compute(nnet, features(200), online, online_ivector_period=5)


def test_online_ivectors_may_end_a_little_early():
    nnet, feats = Nnet.from_config(WITH_IVECTOR), features(70)
    computer = UtteranceComputer(nnet, ComputeOptions(frames_per_chunk=10))
    online = features(2, 2)
    found = computer.compute(feats, online_ivectors=online, online_ivector_period=10)     # the last is row 6 of 0..1
    assert_close(found[10:], with_ivectors(nnet, feats, online[np.ones(70, int)])[10:])
    with pytest.raises(Nnet3Error, match=r"Could not get iVector for frame 64: there are 1 online i-vectors, one every "
                                         r"10 frames"):
        computer.compute(feats, online_ivectors=online[:1], online_ivector_period=10)


def test_bad_online_ivectors():
    computer = UtteranceComputer(Nnet.from_config(WITH_IVECTOR))
    with pytest.raises(Nnet3Error, match="Could not get iVector for frame 11: there are 0 online"):
        computer.compute(features(), online_ivectors=np.zeros((0, 2)), online_ivector_period=10)
    for period in (0, -1):
        with pytest.raises(UsageError, match=f"online-ivector-period.*{period}"):
            computer.compute(features(), online_ivectors=np.zeros((3, 2)), online_ivector_period=period)
    with pytest.raises(UsageError, match="both"):
        computer.compute(features(), np.zeros(2), np.zeros((3, 2)), 10)


# -- scales and errors -------------------------------------------------------------------------------------------------


def test_priors_and_acoustic_scale():
    nnet, feats = Nnet.from_config(TDNN), features()
    priors = np.array([0.1, 0.2, 0.3, 0.4])
    plain = compute(nnet, feats)
    assert_close(UtteranceComputer(nnet, priors=priors).compute(feats), plain - np.log(priors))
    scaled = UtteranceComputer(nnet, ComputeOptions(acoustic_scale=0.1), priors).compute(feats)
    assert_close(scaled, 0.1 * (plain - np.log(priors)))
    for none in (None, np.zeros(0)):
        np.testing.assert_array_equal(UtteranceComputer(nnet, priors=none).compute(feats), plain)
    with pytest.raises(ShapeError, match="3 priors for 4 outputs"):
        UtteranceComputer(nnet, priors=priors[:3])


@pytest.mark.parametrize(("feats", "ivector", "message"), [
    (features(5, 4), None, "expects 'input' features with dimension 3 but you provided 4"),
    (features(5, 3)[0], None, "expects 'input' features with dimension 3 but you provided 1-dimensional"),
    (features(5, 3), np.zeros(2), "expects 'ivector' features with dimension 0 but you provided 2"),
])
def test_dimensions_must_fit(feats, ivector, message):
    with pytest.raises(ShapeError, match=message):
        compute(Nnet.from_config(TDNN), feats, ivector)


@pytest.mark.parametrize("ivector", [None, np.zeros(3), np.zeros((1, 2)), np.float32(1)])
def test_ivectors_must_fit(ivector):
    with pytest.raises(ShapeError, match="ivector"):
        compute(Nnet.from_config(WITH_IVECTOR), features(), ivector)


def test_bad_numbers_are_named():
    feats = features()
    feats[7, 1] = np.nan
    with pytest.raises(NumericError, match="the feature matrix has nan in row 7, column 1"):
        compute(Nnet.from_config(TDNN), feats)
    with pytest.raises(NumericError, match="i-vector has inf in row 0, column 1"):
        compute(Nnet.from_config(WITH_IVECTOR), features(), np.array([0, np.inf]))


def test_options_are_checked():
    with pytest.raises(UsageError, match="--frames-per-chunk=0: expected 1 or more"):
        UtteranceComputer(Nnet.from_config(TDNN), ComputeOptions(frames_per_chunk=0))


def test_the_network_is_left_alone():
    dropout = "type=DropoutComponent dim=5 dropout-proportion=0.5"
    nnet = Nnet.from_config(TDNN.replace("type=TanhComponent dim=5", dropout))
    before, version = parameters(nnet), nnet.version
    found = nnet3py.compute(nnet, features())
    np.testing.assert_array_equal(found, nnet3py.compute(nnet, features()))   # test mode: nothing random
    assert nnet.version == version and not vars(nnet.component("t"))["test_mode"]
    for name, value in parameters(nnet).items():
        np.testing.assert_array_equal(value, before[name])


def test_equal_chunks_are_compiled_once():
    computer = UtteranceComputer(Nnet.from_config(TDNN), ComputeOptions(frames_per_chunk=5))
    for frames in (23, 18, 24):
        computer.compute(features(frames))
    assert len(computer.compiler._kept) == 2       # 24 frames, of which the last may not be used, and 18


def test_unusual_inputs_are_refused():
    nnet = Nnet.from_config(TDNN.replace("name=input ", "name=other ").replace("Offset(input", "Offset(other")
                            .replace(", input,", ", other,"))
    with pytest.raises(Nnet3Error, match="input"):
        compute(nnet, features())
    with pytest.raises(Nnet3Error):
        ComputationRequest([], [IoSpecification("output", [[0, 0, 0]])])


# -- models, files and what is remembered ------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """The folder of a chain model: final.mdl, and how many frames it subsamples by."""
    transitions = nnet3py.read_model(str(DATA / "network" / "am-priors.mdl")).transition_model
    AcousticModel(transitions, Nnet.from_config(TDNN)).write(tmp_path / "final.mdl")
    (tmp_path / "frame_subsampling_factor").write_text("3\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def preparations(monkeypatch):
    """A list that grows with every preparation of a network."""
    made, prepare = [], compute_module._new_computer
    monkeypatch.setattr(compute_module, "_new_computer", lambda *wanted: made.append(wanted[0]) or prepare(*wanted))
    monkeypatch.setattr(compute_module, "_memory", compute_module._ComputerMemory())
    return made


@pytest.mark.parametrize("given", [
    lambda path: path, str, lambda path: nnet3py.read_model(path), lambda path: nnet3py.read_model(str(path)).nnet,
    nnet3py.read_nnet, lambda path: nnet3py.read_nnet(path).copy()])
def test_a_chain_model_gives_a_row_for_every_third_frame(folder, given):
    feats, path = features(), folder / "final.mdl"
    expected = whole(nnet3py.read_nnet(path), feats, TDNN_CONTEXT, every=3)
    assert_close(compute(given(path), feats), expected)
    assert_close(compute(given(path), feats, frame_subsampling_factor=1)[::3], expected)
    assert_close(LoopedComputer(nnet3py.read_nnet(path)).compute(feats), expected)


def test_an_acoustic_model_serves_as_its_network(folder):
    model, feats = nnet3py.read_model(folder / "final.mdl"), features()
    expected = compute(model.nnet, feats)
    assert_close(model(feats), expected)
    assert_close(model(feats, output="output", frame_subsampling_factor=1)[::3], expected)
    assert_close(LoopedComputer(model).compute(feats), expected)
    assert_close(UtteranceComputer(model, ComputeOptions(frame_subsampling_factor=3)).compute(feats), expected)
    assert str(nnet3py.summary(model)) == str(model.summary()) == str(model.nnet.summary())
    assert_close(nnet3py.for_inference(model)(feats, frame_subsampling_factor=3), expected)
    with pytest.raises(AttributeError, match="an acoustic model has no 'components': its network has, model.nnet.comp"):
        model.components                                      # noqa: B018
    with pytest.raises(AttributeError, match="an acoustic model has no 'xyz'$"):
        model.xyz                                             # noqa: B018
    again = pickle.loads(pickle.dumps(copy.copy(model)))
    assert_close(again(feats, frame_subsampling_factor=3), expected)


def test_a_model_of_no_folder_gives_a_row_for_every_frame(folder, monkeypatch):
    monkeypatch.chdir(folder)
    feats = features()
    assert len(compute(f"cat {folder / 'final.mdl'} |", feats)) == FRAMES
    assert len(compute("final.mdl", feats)) == -(-FRAMES // 3)
    (folder / "frame_subsampling_factor").unlink()
    assert len(compute(folder / "final.mdl", feats)) == FRAMES


def test_a_published_model_says_it_in_its_conf_file(folder):
    (folder / "frame_subsampling_factor").unlink()
    published = folder / "published"
    for name in ("am", "conf"):
        (published / name).mkdir(parents=True)
    (folder / "final.mdl").rename(published / "am" / "final.mdl")
    conf, feats = published / "conf" / "model.conf", features()
    assert len(compute(published / "am" / "final.mdl", feats)) == FRAMES
    conf.write_text("--beam=10   # options\n--frame-subsampling-factor=3\n")
    assert len(compute(published / "am" / "final.mdl", feats)) == -(-FRAMES // 3)
    conf.write_text("--frame-subsampling-factor=three\n")
    with pytest.raises(FormatError, match="expected a number of 1 or more, found 'three'"):
        compute(published / "am" / "final.mdl", feats)


@pytest.mark.parametrize("text", ["", "three", "0", "-3", "3 3", "1e9", "99999999999"])
def test_a_factor_that_is_no_number_is_named(folder, text):
    (folder / "frame_subsampling_factor").write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=r"expected a number of 1 or more, found .*frame_subsampling_factor"):
        compute(folder / "final.mdl", features())


@pytest.mark.parametrize("numbers", [features() + 1j, features().astype("U9"), features().astype(object),
                                     np.zeros((FRAMES, 3), "datetime64[s]")])
def test_what_are_no_real_numbers_is_refused(numbers):
    with pytest.raises(NumericError, match="expected real numbers"):
        compute(Nnet.from_config(TDNN), numbers)
    with pytest.raises(NumericError, match="i-vector has elements of type complex128; expected real numbers"):
        compute(Nnet.from_config(WITH_IVECTOR), features(), np.array([1j, 0]))
    np.testing.assert_array_equal(compute(Nnet.from_config(TDNN), np.ones((5, 3), bool)),
                                  compute(Nnet.from_config(TDNN), np.ones((5, 3))))


def test_what_was_prepared_is_remembered(preparations, folder):
    nnet, feats = Nnet.from_config(TDNN), features()
    first = compute(nnet, feats)
    np.testing.assert_array_equal(compute(nnet, feats), first)
    assert len(preparations) == 1
    compute(nnet, feats, frames_per_chunk=7)
    compute(nnet, feats, output="t")
    compute(nnet, feats, frames_per_chunk=7)
    assert len(preparations) == 3
    nnet.component("c").bias_params += 1                       # those that are read in place: nothing to prepare
    np.testing.assert_array_equal(compute(nnet, feats), compute(nnet.copy(), feats))
    nnet.set_node_input("output", "c")
    assert compute(nnet, feats).shape == first.shape and len(preparations) == 5
    for _ in range(2):
        compute(folder / "final.mdl", feats)
    assert len(preparations) == 6


def test_a_file_that_has_changed_is_read_again(preparations, tmp_path):
    path, feats = tmp_path / "final.raw", features()
    for seed in (0, 1):
        nnet = Nnet.from_config(TDNN, seed=seed)
        nnet.write(path)
        np.testing.assert_array_equal(compute(path, feats), compute(nnet, feats))


def test_the_memory_is_small_and_goes_with_the_network(preparations):
    networks = [Nnet.from_config(TDNN, seed=seed) for seed in range(compute_module.MOST_COMPUTERS + 2)]
    for nnet in networks:
        compute(nnet, features())
    kept = compute_module._memory._entries
    assert [entry.network() for entry in kept.values()] == networks[2:]
    watch = weakref.ref(networks.pop())
    del preparations[:], nnet
    gc.collect()
    assert watch() is None and len(kept) == compute_module.MOST_COMPUTERS - 1


def test_threads_compute_the_same_network():
    nnet, feats = Nnet.from_config(TDNN), [features(seed=seed) for seed in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda one: compute(nnet, one), feats))
    for one, output in zip(feats, found, strict=True):
        np.testing.assert_array_equal(output, compute(nnet, one))


# -- several nodes, several utterances --------------------------------------------------------------------------------


def test_several_nodes_come_from_one_pass(preparations):
    nnet, feats = Nnet.from_config(TDNN, seed=3), features()
    found = compute(nnet, feats, output=["t", "output", "input"])
    assert list(found) == ["t", "output", "input"] and len(preparations) == 1
    for name, values in found.items():
        assert_close(values, compute(nnet, feats, output=name))
    with pytest.raises(Nnet3Error, match="no node is asked for"):
        compute(nnet, feats, output=[])
    with pytest.raises(Nnet3Error, match="no node 'nobody'"):
        compute(nnet, feats, output=["t", "nobody"])


def test_several_utterances_of_any_lengths():
    nnet, lengths = Nnet.from_config(TDNN, seed=3), (5, 40, 1)
    several = [features(frames, seed=frames) for frames in lengths]
    expected = [compute(nnet, feats) for feats in several]
    seen = []
    for given in (several, tuple(several), iter(several)):
        for found, wanted in zip(compute(nnet, given, progress=lambda *done: seen.append(done)), expected, strict=True):
            assert_close(found, wanted)
    assert seen[:3] == [(1, 3), (2, 3), (3, 3)]
    by_key = compute(nnet, dict(zip("abc", several, strict=True)), output=["t"], progress=True)
    assert {key: values["t"].shape for key, values in by_key.items()} == {"a": (5, 5), "b": (40, 5), "c": (1, 5)}
    assert compute(nnet, []) == []
    stacked = np.stack([features(6, seed=seed) for seed in range(3)])
    found = compute(nnet, stacked)
    assert isinstance(found, np.ndarray) and found.shape == (3, 6, expected[0].shape[1])
    for n in range(3):
        assert_close(found[n], compute(nnet, stacked[n]))
    np.testing.assert_array_equal(compute(nnet, several[0].tolist()), expected[0])       # rows of one
    of_both = compute(nnet, stacked, output=["t", "output"])
    assert {name: values.shape for name, values in of_both.items()} == {"t": (3, 6, 5), "output": found.shape}
    np.testing.assert_array_equal(of_both["output"], found)


def test_several_ivectors():
    nnet = Nnet.from_config(WITH_IVECTOR, seed=3)
    several, vectors = [features(5), features(7, seed=1)], [np.ones(2), np.zeros(2)]
    expected = [compute(nnet, feats, vector) for feats, vector in zip(several, vectors, strict=True)]
    for found, wanted in zip(compute(nnet, several, vectors), expected, strict=True):
        assert_close(found, wanted)
    keyed = compute(nnet, {"a": several[0]}, {"a": vectors[0], "other": vectors[1]})
    assert_close(keyed["a"], expected[0])
    with pytest.raises(ShapeError, match="expected 2 i-vectors, float .dim,. or .count, dim. each"):
        compute(nnet, several, vectors[:1])
    with pytest.raises(ShapeError, match="no i-vector for utterance b"):
        compute(nnet, {"b": several[0]}, {"a": vectors[0]})


def test_a_bad_utterance_among_several_is_named():
    nnet, bad = Nnet.from_config(TDNN), features(4)
    bad[1, 1] = np.nan
    with pytest.raises(NumericError, match="utterance 1: "):
        compute(nnet, [features(5), bad])
    with pytest.raises(ShapeError, match="expected features, float"):
        compute(nnet, 3)
