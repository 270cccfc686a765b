"""Topologies and transition models."""
from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pytest
from io_samples import SAMPLES, check_survives, reader_of, written
from paths import shared_golden

from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.hmm.topology import HmmState, HmmTopology, chain_topology, left_to_right_topology
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
    exchanged = TransitionModel(model.topology, model.tuples[:, [0, 1, 3, 2]], model.log_probs)
    assert exchanged.num_pdfs == 4 and exchanged.transition_id_to_pdf.tolist() == [-1, 0, 1, 2, 3]


def test_derived_maps(caplog: pytest.LogCaptureFixture) -> None:
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
    with caplog.at_level(logging.WARNING):
        np.testing.assert_allclose(model.non_self_loop_log_probs, [0, np.log(0.5), np.log(0.5)], rtol=1e-6)
    assert not caplog.records
    with pytest.raises(FormatError, match="expected 5 log-probabilities of transitions, found 4"):
        model.set_log_probs(np.zeros(4, np.float32))
    model.set_log_probs(np.log(np.array([1, 0.75, 0.25, 0.5, 0.5], np.float32)))
    np.testing.assert_allclose(model.non_self_loop_log_probs, [0, np.log(0.25), np.log(0.5)], rtol=1e-6)


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
    assert caplog.messages == ["A self-loop of probability 1 was found, in 1 transition-states, first in 1"]


@pytest.mark.parametrize("call, message", [
    (lambda m: m.transition_id(3, 0), "there is no transition-state 3; they are 1 to 2"),
    (lambda m: m.transition_id(0, 0), "there is no transition-state 0; they are 1 to 2"),
    (lambda m: m.num_transition_indices(-1), "there is no transition-state -1; they are 1 to 2"),
    (lambda m: m.transition_id(1, 2), "transition-state 1 has no transition 2; it has 2, counted from 0"),
    (lambda m: m.transition_id(1, -1), "transition-state 1 has no transition -1; it has 2, counted from 0"),
    (lambda m: m.transition_state(1, 0, 0), r"self-loop pdf\) \(1, 0, 0, 0\)"),
    (lambda m: m.transition_state(3, 0, 2, 2), r"self-loop pdf\) \(3, 0, 2, 2\)")])
def test_what_does_not_exist_is_an_error(call: Callable[[TransitionModel], int], message: str) -> None:
    with pytest.raises(Nnet3Error, match=message):
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
    (b"1 3 \n", b"0 \n", r"expected a phone \(1 to 10000000\)"),
    (b"1 3 \n", b"10000001 \n", r"expected a phone \(1 to 10000000\)"),
    (b"1 3 \n", b"1x \n", "expected a phone"),
    (b"1 3 \n", b"\n", "belong to a phone|phones above 0"),
    (b"<State> 1", b"<State> 2", "expected state 1"),
    (b"<State> 1 </State> \n", b"", "at least 2 states"),
    (b"<State> 1 </State>", b"<State> 1 <PdfClass> 0 </State>", "last state"),
    (b"<State> 1 </State>", b"<State> 1 <Final> 0 </State>", "</State>"),
    (b"<Transition> 1 0.5", b"<Transition> 0 0.5", "two transitions"),
    (b"<Transition> 1 0.5", b"<Transition> 2 0.5", "state 0 has a transition to a state that does not exist"),
    (b"<Transition> 1 0.5", b"<Transition> -1 0.5", "state 0 has a transition to a state that does not exist"),
    (b"<Transition> 1 0.5", b"<Transition> 1 inf", "expected a number, found 'inf'"),
    (b"<Transition> 0 0.5 <Transition> 1 0.5", b"", "state 0 has no transition"),
    (b"<SelfLoopPdfClass> 1", b"<SelfLoopPdfClass> -1", r"state 0 has the pdf classes \[-1, 0\]"),
    (b"<ForwardPdfClass> 0", b"<ForwardPdfClass> -2", r"state 0 has the pdf classes \[-2, 1\]"),
    (b"<Transition> 1 0.5", b"", "no transition leads to state 1"),
    (b"<Transition> 1 0.5", b"<Transition> 1 0", "probability 0"),
    (b"<SelfLoopPdfClass> 1", b"<SelfLoopPdfClass> 2", "without gaps"),
    (b"<ForwardPdfClass> 0 <SelfLoopPdfClass> 1 ", b"", "emits nothing"),
])
def test_bad_topologies_are_refused(old: bytes, new: bytes, message: str) -> None:
    assert old in CHAIN
    with pytest.raises(FormatError, match=message):
        HmmTopology.read(reader_of(CHAIN.replace(old, new, 1), False))


@pytest.mark.parametrize("other, text", [(b"0.25", "0.75"), (b"0.485", "0.985"), (b"0.515", "1.015"), (b"0.491", ""),
                                         (b"0.509", "")])
def test_odd_probabilities_are_a_warning(other: bytes, text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        HmmTopology.read(reader_of(CHAIN.replace(b"1 0.5", b"1 " + other), False))
    assert caplog.messages == ([f"The probabilities of state 0 of a topology sum to {text}"] if text else [])


def test_usual_topologies() -> None:
    def in_a_row(count: int) -> list[HmmState]:
        return [*(HmmState(n, n, [(n, 0.75), (n + 1, 0.25)]) for n in range(count)), HmmState()]

    chain = chain_topology([3, 1])
    assert chain == HmmTopology([[HmmState(0, 1, [(0, 0.5), (1, 0.5)]), HmmState()]], {3: 0, 1: 0})
    assert chain.phones == [1, 3] and chain.num_pdf_classes(3) == 2
    usual = left_to_right_topology([2, 3], [1])
    inner = [(target, 0.25) for target in (1, 2, 3, 4)]
    silence = [HmmState(0, 0, [(target, 0.25) for target in (0, 1, 2, 3)]), *(HmmState(n, n, inner) for n in (1, 2, 3)),
               HmmState(4, 4, [(4, 0.75), (5, 0.25)]), HmmState()]
    assert usual == HmmTopology([in_a_row(3), silence], {2: 0, 3: 0, 1: 1})
    assert [usual.num_pdf_classes(phone) for phone in (1, 2, 3)] == [5, 3, 3]
    assert left_to_right_topology([2], [1], 1, 1) == HmmTopology([in_a_row(1), in_a_row(1)], {2: 0, 1: 1})
    assert left_to_right_topology([], [1], 1, 3).entries == [
        [HmmState(0, 0, [(0, 0.5), (1, 0.5)]), HmmState(1, 1, [(1, 0.5), (2, 0.5)]),
         HmmState(2, 2, [(2, 0.75), (3, 0.25)]), HmmState()]]


@pytest.mark.parametrize("make, message", [
    (lambda: chain_topology([]), "expected phones, which are above 0, found none"),
    (lambda: chain_topology([2, 0]), "expected phones, which are above 0, found 0"),
    (lambda: chain_topology([2, 5, 5]), "phone 5 is given twice"),
    (lambda: left_to_right_topology([1, 2], [2]), "phone 2 is given twice"),
    (lambda: left_to_right_topology([1], [2], 0), "expected 1 state or more a phone, found 0 and 5"),
    (lambda: left_to_right_topology([1], [2], 3, 0), "expected 1 state or more a phone, found 3 and 0")])
def test_topologies_that_cannot_be_made(make: Callable[[], HmmTopology], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


@pytest.mark.parametrize("old, new, message", [
    (b"3 0 2 3", b"2 0 2 3", "phone 2 is not in the topology"),
    (b"3 0 2 3", b"3 1 2 3", "the transition model has a state that is not in the topology"),
    (b"3 0 2 3", b"3 0 -2 3", "found -2"),
    (b" -0.6931472 ]", b" ]", "expected 5 log-probabilities"),
    (b" -0.6931472 ]", b" 0.6931472 ]", "0 or less in the transition model, found 0.693147 for transition-id 4"),
    (b" -0.6931472 ]", b" nan ]", "0 or less in the transition model, found nan for transition-id 4"),
    (b"[ 0 -0.6931472", b"[ 0 0.5", "0 or less in the transition model, found 0.5 for transition-id 1"),
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
