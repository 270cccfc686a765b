"""Trees: reading, evaluation over all contexts, and the transition models they make."""
from __future__ import annotations

import io
import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from io_samples import check_survives, object_bytes
from paths import DATA, shared_golden

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.hmm.topology import HmmTopology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import Constant, ContextDependency, Map, Split, Table, initial_transition_model
from nnet3py.io.object_files import read_object
from nnet3py.io.tokens import TokenReader

FOLDER = DATA / "network"
MONOPHONE = ("ContextDependency 1 0 ToPdf TE 0 4 ( NULL TE -1 2 ( CE 0 CE 1 ) \nNULL TE -1 2 ( CE 2 CE 3 ) \n) \n"
             "EndContextDependency ")
PHONES = range(1, 5)


def parsed(text: str) -> ContextDependency:
    return ContextDependency.read(TokenReader(io.BytesIO(text.encode()), path="tree", size=len(text)))


def test_a_monophone_tree_in_text() -> None:
    tree = parsed(MONOPHONE)
    assert tree.pdfs(1, 0) == [(0,)]
    assert tree.pdfs(3, 0, 1) == [(2, 3)]
    assert tree.pdfs(2, 0) == []


def test_a_binary_tree_makes_kaldis_transition_model() -> None:
    tree = read_object(str(FOLDER / "tree"), ContextDependency.read)
    made = initial_transition_model(tree, read_object(str(FOLDER / "topo"), HmmTopology.read))
    kaldis = read_object(str(FOLDER / "trans.mdl"), TransitionModel.read)
    assert np.array_equal(made.tuples, kaldis.tuples)
    assert np.array_equal(made.transition_id_to_pdf, kaldis.transition_id_to_pdf)
    np.testing.assert_array_equal(made.log_probs, np.log(np.array([1.0, *[0.75, 0.25] * 10], np.float32)))


def test_a_chain_tree_makes_kaldis_transition_model() -> None:
    folder = shared_golden() / "chain"
    tree = read_object(str(folder / "tree"), ContextDependency.read)
    made = initial_transition_model(tree, read_object(str(folder / "topo"), HmmTopology.read))
    kaldis = read_object(str(folder / "0.trans_mdl"), TransitionModel.read)
    assert np.array_equal(made.tuples, kaldis.tuples)
    np.testing.assert_array_equal(made.log_probs, kaldis.log_probs)


def nested(depth: int) -> str:
    """A tree of so many questions one below the other, in text."""
    return "SE 0 [ 1 ]\n{ " * depth + "CE 0 " + "CE 1 } \n" * depth


def test_the_largest_trees_are_read() -> None:
    assert parsed(f"ContextDependency 100 99 ToPdf {nested(200)}EndContextDependency ").num_pdfs == 2
    assert parsed("ContextDependency 1 0 ToLength CE 7 ToPdf CE 3 EndContextDependency ").num_pdfs == 4
    assert parsed("ContextDependency 1 0 ToPdf NULL EndContextDependency ").num_pdfs == 0


def test_pdfs_that_a_tree_does_not_have() -> None:
    tree = parsed(MONOPHONE)
    assert [tree.pdf((phone,), pdf_class) for phone in (1, 3) for pdf_class in (0, 1)] == [0, 1, 2, 3]
    for window, pdf_class in (((0,), 0), ((2,), 0), ((4,), 0), ((-1,), 0), ((3,), 2), ((3,), -1), ((3, 3), 0)):
        with pytest.raises(Nnet3Error, match=re.escape(f"no pdf for pdf class {pdf_class} of the phones {window}, of "
                                                       "which the one at 0 is meant")):
            tree.pdf(window, pdf_class)
    for key in (-2, 1):
        with pytest.raises(FormatError, match=f"about position {key} in a window of phones; expected 0 to 0, or -1"):
            ContextDependency(1, 0, Split(key, frozenset([1]), Constant(0), Constant(1))).pdf((1,), 0)


@pytest.mark.parametrize(("text", "message"), [
    ("ContextDependency 1 1 ToPdf NULL EndContextDependency ", "at most 100 phones, found position 1 of 1"),
    ("ContextDependency 1 -1 ToPdf NULL EndContextDependency ", "at most 100 phones, found position -1 of 1"),
    ("ContextDependency 101 1 ToPdf NULL EndContextDependency ", "at most 100 phones, found position 1 of 101"),
    ("ContextDependency 1 0 ToPdf XX 1 EndContextDependency ", "expected NULL, CE, TE or SE in a tree, found 'XX'"),
    ("ContextDependency 1 0 ToPdf TE 0 999999999 ( ", "999999999"),
    (f"ContextDependency 1 0 ToPdf {nested(201)}EndContextDependency ", "more than 200 questions one below the other"),
    ("Tree 1 0", "ContextDependency"),
])
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parsed(text)


def test_a_phone_without_pdf() -> None:
    tree = parsed(MONOPHONE)
    with pytest.raises(Nnet3Error, match="the tree has no pdf for phone 2, pdf class 0.*for the same phones"):
        initial_transition_model(tree, read_object(str(FOLDER / "topo"), HmmTopology.read))


MAPS: st.SearchStrategy[Map] = st.recursive(
    st.builds(Constant, st.integers(0, 9)),
    lambda child: st.one_of(
        st.builds(Split, st.integers(-1, 2), st.frozensets(st.integers(0, 4), max_size=3), child, child),
        st.builds(Table, st.just(-1), st.tuples(child, child)),
        st.builds(Table, st.integers(0, 2), st.lists(child, min_size=5, max_size=5).map(tuple))), max_leaves=12)


def answer(tree: Map | None, event: dict[int, int]) -> int:
    if isinstance(tree, Constant):
        return tree.answer
    if isinstance(tree, Table):
        return answer(tree.children[event[tree.key]], event)
    assert isinstance(tree, Split)
    return answer(tree.yes if event[tree.key] in tree.values else tree.no, event)


@given(MAPS, st.integers(1, 4))
@settings(max_examples=60)
def test_all_contexts_one_by_one(root: Map, phone: int) -> None:
    tree = ContextDependency(3, 1, root)
    # Phone 0 is the edge of the utterance; a phone beyond 4 is one that no question names.
    contexts = itertools.product(range(5), range(5))
    expected = {tuple(answer(root, {-1: c, 0: left, 1: phone, 2: right}) for c in (0, 1)) for left, right in contexts}
    found = set(tree.pdfs(phone, 0, 1))
    assert expected <= found
    has_unnamed = {tuple(answer_or_none(root, {-1: c, 0: left, 1: phone, 2: right}) for c in (0, 1))
                   for left, right in itertools.product(range(6), range(6))}
    assert found <= has_unnamed


def answer_or_none(tree: Map | None, event: dict[int, int]) -> int | None:
    """As ``answer``, where a table has no entry for the value: None."""
    try:
        return answer(tree, event)
    except IndexError:
        return None


SPLITS = ("ContextDependency 3 1 ToPdf SE 0 [ 1 3 ]\n{ TE 1 3 ( NULL CE 4 SE -1 [ 0 ]\n{ CE 1 CE 2 } \n) \nNULL } \n"
          "EndContextDependency ")


@pytest.mark.parametrize("text", [MONOPHONE, SPLITS, "ContextDependency 1 0 ToPdf NULL EndContextDependency "])
def test_every_map_is_written_as_it_was_read(text: str) -> None:
    tree = parsed(text)
    assert object_bytes(tree, False) == text.encode()
    data = object_bytes(tree, True)
    again = ContextDependency.read(TokenReader(io.BytesIO(data), binary=True))
    assert again == tree
    assert object_bytes(again, True) == data


def test_a_tree_of_kaldis_is_written_unchanged() -> None:
    data = (FOLDER / "tree").read_bytes()
    assert b"\0B" + object_bytes(read_object(str(FOLDER / "tree"), ContextDependency.read), True) == data


@pytest.mark.parametrize("binary", [True, False])
def test_damaged_trees_are_refused(binary: bool) -> None:
    check_survives(ContextDependency.read, object_bytes(parsed(SPLITS), binary), binary)
