"""Topologies and transition models."""
from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pytest
from io_samples import SAMPLES, check_survives, reader_of, written
from paths import shared_golden

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.hmm.topology import HmmTopology
from nnet3py.hmm.transition_model import TransitionModel

CHAIN = (b"<Topology> \n<TopologyEntry> \n<ForPhones> \n1 3 \n</ForPhones> \n"
         b"<State> 0 <ForwardPdfClass> 0 <SelfLoopPdfClass> 1 <Transition> 0 0.5 <Transition> 1 0.5 </State> \n"
         b"<State> 1 </State> \n</TopologyEntry> \n</Topology> \n")
CHAIN_MODEL = (b"<TransitionModel> \n" + CHAIN + b"<Tuples> 2 \n1 0 0 1 \n3 0 2 3 \n</Tuples> \n<LogProbs> \n"
               b" [ 0 -0.6931472 -0.6931472 -0.6931472 -0.6931472 ]\n</LogProbs> \n</TransitionModel> \n")


def save(value: HmmTopology | TransitionModel, binary: bool) -> bytes:
    return written(lambda writer: value.write(writer), binary=binary)


def check_file(data: bytes) -> TransitionModel:
    """A model at the start of ``data`` is written back the same, and in the other form means the same."""
    reader = reader_of(data)
    start = reader.offset
    model = TransitionModel.read(reader)
    assert save(model, reader.binary) == data[start:start + len(save(model, reader.binary))]
    other = TransitionModel.read(reader_of(save(model, not reader.binary), not reader.binary))
    assert np.array_equal(other.tuples, model.tuples)
    assert other.topology == model.topology
    np.testing.assert_allclose(other.log_probs, model.log_probs, rtol=1e-6)       # seven digits are printed
    return model


@pytest.mark.parametrize("name, counts", [("trans.txt", (10, 20, 5)), ("binary.trans_mdl", (10, 20, 5)),
                                          ("chain.trans_mdl", (56, 56, 28))])
def test_files_of_kaldis(name: str, counts: tuple[int, int, int]) -> None:
    model = check_file((SAMPLES / name).read_bytes())
    assert (model.num_pdfs, model.num_transition_ids, model.num_phones) == counts


@pytest.mark.parametrize("name", ["trans.mdl", "mono.mdl", "am.mdl", "am.mdl.txt", "am-priors.mdl"])
def test_acoustic_models_of_kaldis(name: str) -> None:
    assert check_file((shared_golden() / "data" / name).read_bytes()).num_pdfs == 10


def test_the_maps() -> None:
    model = check_file(CHAIN_MODEL)
    assert save(model, False) == CHAIN_MODEL
    assert not model.topology.is_hmm
    assert model.transition_id_to_state.tolist() == [0, 1, 1, 2, 2]
    assert model.transition_id_to_phone.tolist() == [0, 1, 1, 3, 3]
    assert model.transition_id_to_pdf.tolist() == [-1, 1, 0, 3, 2]
    assert model.is_self_loop.tolist() == [False, True, False, True, False]
    assert (model.num_pdfs, model.num_phones, model.num_transition_states) == (4, 3, 2)


def test_derived_maps() -> None:
    model = check_file(CHAIN_MODEL)
    assert model.transition_id_to_hmm_state.tolist() == [-1, 0, 0, 0, 0]
    assert model.transition_id_to_index.tolist() == [0, 0, 1, 0, 1]
    assert model.transition_id_to_pdf_class.tolist() == [-1, 1, 0, 1, 0]
    assert model.is_final.tolist() == [False, False, True, False, True]
    assert model.self_loop_of.tolist() == [0, 1, 3]
    assert model.first_transition_id.tolist() == [0, 1, 3, 5]
    assert [model.num_transition_indices(state) for state in (1, 2)] == [2, 2]
    assert [model.transition_id(2, index) for index in (0, 1)] == [3, 4]
    assert model.transition_state(3, 0, 2, 3) == 2
    np.testing.assert_allclose(model.non_self_loop_log_probs, [0, np.log(0.5), np.log(0.5)], rtol=1e-6)


def test_maps_of_an_hmm() -> None:
    model = check_file((SAMPLES / "trans.txt").read_bytes())
    assert model.transition_id_to_pdf.tolist()[:6] == [-1, 0, 0, 1, 1, 2]
    assert model.transition_id_to_hmm_state.tolist()[:6] == [-1, 0, 0, 1, 1, 0]
    assert model.is_final.tolist()[:6] == [False, False, False, False, True, False]
    assert model.transition_state(2, 1, 3) == 4
    ids = np.arange(1, model.num_transition_ids + 1)
    states, index = model.transition_id_to_state[1:], model.transition_id_to_index[1:]
    assert [model.transition_id(*pair) for pair in zip(states.tolist(), index.tolist(), strict=True)] == ids.tolist()


def test_a_state_without_and_one_that_is_only_a_self_loop(caplog: pytest.LogCaptureFixture) -> None:
    text = CHAIN_MODEL.replace(b"<Transition> 0 0.5 <Transition> 1 0.5", b"<Transition> 1 1").replace(
        b"-0.6931472 -0.6931472 -0.6931472 -0.6931472", b"0 0")
    model = TransitionModel.read(reader_of(text, False))
    assert model.self_loop_of.tolist() == [0, 0, 0]
    assert model.non_self_loop_log_probs.tolist() == [0, 0, 0]
    model = TransitionModel.read(reader_of(CHAIN_MODEL.replace(b"[ 0 -0.6931472", b"[ 0 0"), False))
    np.testing.assert_allclose(model.non_self_loop_log_probs, [0, np.log(1e-10), np.log(0.5)], rtol=1e-6)
    assert "self-loop of probability 1" in caplog.text


@pytest.mark.parametrize("call", [
    lambda m: m.transition_id(3, 0), lambda m: m.transition_id(0, 0), lambda m: m.transition_id(1, 2),
    lambda m: m.transition_id(1, -1), lambda m: m.transition_state(1, 0, 0), lambda m: m.num_transition_indices(-1)])
def test_what_does_not_exist_is_an_error(call: Callable[[TransitionModel], int]) -> None:
    with pytest.raises(Nnet3Error, match="transition"):
        call(check_file(CHAIN_MODEL))


def test_alignments_become_kaldis_pdfs() -> None:
    golden = shared_golden()
    model = check_file((golden / "data" / "mono.mdl").read_bytes())
    expected = (golden / "tools" / "ali-to-pdf" / "pdf.txt").read_text().split()
    assert model.transition_id_to_pdf[[1, 1, 2, 3, 3, 4]].tolist() == [int(word) for word in expected[1:]]


@pytest.mark.parametrize("name, is_hmm", [("topo", True), ("chain.topo", False)])
def test_topologies_as_people_write_them(name: str, is_hmm: bool) -> None:
    topology = HmmTopology.read(reader_of((SAMPLES / name).read_bytes(), False))
    assert topology.is_hmm is is_hmm
    for binary in (True, False):
        data = save(topology, binary)
        again = HmmTopology.read(reader_of(data, binary))
        assert again == topology
        assert save(again, binary) == data


@pytest.mark.parametrize("old, new, message", [
    (b"1 3 \n", b"1 1 \n", "twice"),
    (b"1 3 \n", b"0 \n", "expected a phone"),
    (b"1 3 \n", b"\n", "belong to a phone|phones above 0"),
    (b"<State> 1", b"<State> 2", "expected state 1"),
    (b"<State> 1 </State> \n", b"", "at least 2 states"),
    (b"<State> 1 </State>", b"<State> 1 <PdfClass> 0 </State>", "last state"),
    (b"<State> 1 </State>", b"<State> 1 <Final> 0 </State>", "</State>"),
    (b"<Transition> 1 0.5", b"<Transition> 0 0.5", "two transitions"),
    (b"<Transition> 1 0.5", b"<Transition> 7 0.5", "does not exist"),
    (b"<Transition> 1 0.5", b"", "no transition leads to state 1"),
    (b"<Transition> 1 0.5", b"<Transition> 1 0", "probability 0"),
    (b"<SelfLoopPdfClass> 1", b"<SelfLoopPdfClass> 2", "without gaps"),
    (b"<ForwardPdfClass> 0 <SelfLoopPdfClass> 1 ", b"", "emits nothing"),
])
def test_bad_topologies_are_refused(old: bytes, new: bytes, message: str) -> None:
    assert old in CHAIN
    with pytest.raises(FormatError, match=message):
        HmmTopology.read(reader_of(CHAIN.replace(old, new, 1), False))


def test_odd_probabilities_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        HmmTopology.read(reader_of(CHAIN.replace(b"1 0.5", b"1 0.25"), False))
    assert "sum to 0.75" in caplog.text


@pytest.mark.parametrize("old, new, message", [
    (b"3 0 2 3", b"2 0 2 3", "phone 2 is not in the topology"),
    (b"3 0 2 3", b"3 1 2 3", "not in the topology"),
    (b"3 0 2 3", b"3 0 -2 3", "found -2"),
    (b" -0.6931472 ]", b" ]", "expected 5 log-probabilities"),
    (b" -0.6931472 ]", b" 0.6931472 ]", "log-probabilities of 0 or less"),
    (b" -0.6931472 ]", b" nan ]", "log-probabilities of 0 or less"),
    (b"<Tuples> 2", b"<Triples> 2", "expected"),
    (b"<Tuples> 2", b"<Tuples> 2000000000", "only"),
    (b"<LogProbs>", b"<LogProps>", "expected <LogProbs>"),
])
def test_bad_models_are_refused(old: bytes, new: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        TransitionModel.read(reader_of(CHAIN_MODEL.replace(old, new, 1), False))
    assert caught.value.offset is not None


@pytest.mark.parametrize("binary", [True, False])
def test_damaged_bytes_are_refused(binary: bool) -> None:
    model = TransitionModel.read(reader_of(CHAIN_MODEL, False))
    check_survives(TransitionModel.read, save(model, binary), binary, count=600)
