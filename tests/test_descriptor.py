"""Descriptors: parsing, normal form, text, dimensions, moduli, and the mapping of indexes."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnet3py.errors import DescriptorError
from nnet3py.index import NO_TIME
from nnet3py.network.descriptor import (
    Const,
    Descriptor,
    Failover,
    IfDefined,
    Leaf,
    Offset,
    Part,
    ReplaceIndex,
    Round,
    Source,
    Sum,
    Switch,
)
from nnet3py.network.descriptor_parser import FUNCTIONS, parse_descriptor, substitute

NAMES = ["input", "a", "", "b", "c"]          # node 2 is hidden
NODE_INDEXES = {name: i for i, name in enumerate(NAMES) if name}
DIMS = [3, 3, 0, 3, 5]
NNET: Any = SimpleNamespace(node_dim=lambda i: DIMS[i], node_names=NAMES)

SCALES = st.sampled_from([1.0, 0.5, -2.0, 0.25])
INTS = st.integers(-6, 6)
SOURCES = st.builds(Source, st.sampled_from([0, 1, 3]), SCALES)


def leaves_over(children: st.SearchStrategy[Leaf]) -> st.SearchStrategy[Leaf]:
    return st.one_of(
        st.builds(Round, children, st.integers(1, 5)),
        st.builds(ReplaceIndex, children, st.sampled_from(["t", "x"]), INTS),
        st.builds(Switch, st.lists(children, min_size=1, max_size=4).map(tuple)))


def with_offsets(leaf: st.SearchStrategy[Leaf]) -> st.SearchStrategy[Leaf]:
    """Leaves in normal form: no offset of nothing, no offset of an offset."""
    return st.one_of(leaf, st.tuples(leaf, INTS, INTS).map(
        lambda args: args[0] if args[1:] == (0, 0) else Offset(*args)))


LEAVES = st.recursive(with_offsets(SOURCES), lambda children: with_offsets(leaves_over(children)), max_leaves=6)
PARTS: st.SearchStrategy[Part] = st.recursive(
    st.one_of(LEAVES, st.builds(Const, st.sampled_from([0.0, 1.5, -3.0]), st.just(3))),
    lambda children: st.one_of(st.builds(Sum, children, children), st.builds(Failover, children, children),
                               st.builds(IfDefined, children)), max_leaves=5)
DESCRIPTORS = st.lists(PARTS, min_size=1, max_size=3).map(lambda parts: Descriptor(tuple(parts)))


def normal_form(text: str) -> str:
    return parse_descriptor(text, NODE_INDEXES).text(NAMES)


@given(DESCRIPTORS)
def test_text_comes_back(descriptor: Descriptor) -> None:
    assert parse_descriptor(descriptor.text(NAMES), NODE_INDEXES) == descriptor


@pytest.mark.parametrize(("text", "expected"), [
    ("a", "a"),
    ("Append(a)", "a"),
    ("Append(a, Append(b, input))", "Append(a, b, input)"),
    ("Offset(Append(a,b), 1)", "Append(Offset(a, 1), Offset(b, 1))"),
    ("Sum(Append(a,b), Append(b,a))", "Append(Sum(a, b), Sum(b, a))"),
    ("IfDefined(Append(a,b))", "Append(IfDefined(a), IfDefined(b))"),
    ("Failover(Append(a,b), Append(b,a))", "Append(Failover(a, b), Failover(b, a))"),
    ("Offset(Offset(a,1),2,3)", "Offset(a, 3, 3)"),
    ("Offset(Offset(a,1),-1)", "a"),
    ("Offset(a,0)", "a"),
    ("Offset(a,0,0)", "a"),
    ("Offset(Sum(a,b),1)", "Sum(Offset(a, 1), Offset(b, 1))"),
    ("Round(Failover(a,b),2)", "Failover(Round(a, 2), Round(b, 2))"),
    ("ReplaceIndex(IfDefined(a),t,0)", "IfDefined(ReplaceIndex(a, t, 0))"),
    ("Switch(Sum(a,b))", "Sum(Switch(a), Switch(b))"),
    ("Sum(a)", "a"),
    ("Sum(a,b,input)", "Sum(a, Sum(b, input))"),
    ("Sum(Sum(a,b),input)", "Sum(Sum(a, b), input)"),
    ("Scale(0.5, Offset(a,1))", "Offset(Scale(0.5, a), 1)"),
    ("Scale(2.0, Round(a,2))", "Round(Scale(2, a), 2)"),
    ("Scale(0.5, Sum(a,b))", "Sum(Scale(0.5, a), Scale(0.5, b))"),
    ("Scale(2, Scale(3, a))", "Scale(6, a)"),
    ("Scale(0.5, Scale(2, a))", "a"),
    ("Scale(-1, Append(a,Offset(b,2)))", "Append(Scale(-1, a), Offset(Scale(-1, b), 2))"),
    ("Scale(0.333333333, a)", "Scale(0.333333, a)"),
    ("Const(1.0,3)", "Const(1, 3)"),
    ("Append(input, Const(1e-7, 4))", "Append(input, Const(1e-07, 4))"),
    ("Offset(Const(1,3),0)", "Const(1, 3)"),
])
def test_normal_form(text: str, expected: str) -> None:
    assert normal_form(text) == expected


@pytest.mark.parametrize(("text", "message"), [
    ("", "Expected a Descriptor, got instead end of input"),
    ("Apend(a,b)", "Expected a Descriptor, got instead Apend .did you mean 'Append'"),
    ("inptu", "got instead inptu .did you mean 'input'"),
    ("a b", "Parsing Descriptor, expected end of input but got 'b'"),
    ("a)", "expected end of input but got '\\)'"),
    ("Append(a,b", "Expected '\\)' in Append"),
    ("Offset(a)", "Expected ',' in Offset"),
    ("Offset(a, 1.5)", "Expected an integer"),
    ("Offset(a, 99999999999)", "Expected an integer"),
    ("Offset(Offset(a, 2147483647), 1)", "more than 32 bits"),
    ("Round(a, 0)", "integer of at least 1"),
    ("Const(1, 0)", "integer of at least 1"),
    ("Const(nan, 1)", "Expected a number"),
    ("Scale(1e39, a)", "Expected a number"),
    ("ReplaceIndex(a, n, 1)", "Expected t or x"),
    ("a!", "Error tokenizing descriptor"),
    ("Failover(a)", "Expected ',' in Failover"),
    ("Sum(Append(a,b), a)", "different numbers of parts"),
    ("Switch(Sum(a,b), a)", "inside Switch\\(\\), we can't currently normalize this"),
    ("Switch(a, Sum(a,b))", "cannot stand inside Switch"),
    ("Scale(2, Failover(a,b))", "Unhandled case encountered when normalizing Descriptor"),
    ("Scale(2, Const(1,3))", "Unhandled case"),
    ("Offset(Const(1,3),1)", "Const\\(\\) appeared too deep in the expression"),
    ("Switch(a, Const(1,3))", "appeared too deep"),
    ("Offset(" * 3000 + "a", "nested"),
    (f"Sum({','.join('a' * 3000)})", "nested"),
])
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(DescriptorError, match=message):
        parse_descriptor(text, NODE_INDEXES)


@given(st.lists(st.sampled_from([*FUNCTIONS, *NAMES, "(", ")", ",", "1", "-2", "0.5", "t", "x"]), max_size=25))
def test_any_tokens_parse_or_are_refused(tokens: list[str]) -> None:
    try:
        descriptor = parse_descriptor(" ".join(tokens), NODE_INDEXES)
    except DescriptorError:
        return
    assert parse_descriptor(descriptor.text(NAMES), NODE_INDEXES) == descriptor


def value_at(e: Leaf, n: int, t: int, x: int) -> tuple[int, tuple[int, int, int]]:
    """Which node and index the expression takes for one index, by its definition."""
    if isinstance(e, Source):
        return e.node, (n, t, x)
    if isinstance(e, Offset):
        return value_at(e.child, n, t + e.t, x + e.x)
    if isinstance(e, Round):
        return value_at(e.child, n, (t // e.step) * e.step, x)
    if isinstance(e, ReplaceIndex):
        return value_at(e.child, n, e.value if e.variable == "t" else t, e.value if e.variable == "x" else x)
    assert isinstance(e, Switch)
    return value_at(e.alternatives[t % len(e.alternatives)], n, t, x)


INDEXES = st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9), st.integers(-2, 2)), max_size=12)


@given(LEAVES, INDEXES)
def test_mapping_is_the_definition(leaf: Leaf, rows: list[tuple[int, int, int]]) -> None:
    indexes = np.array(rows, dtype=np.int32).reshape(-1, 3)
    before = indexes.copy()
    nodes, mapped = leaf.map(indexes)
    expected = [value_at(leaf, *row) for row in rows]
    assert nodes.dtype == mapped.dtype == np.int32
    assert nodes.tolist() == [node for node, _ in expected]
    assert mapped.tolist() == [list(index) for _, index in expected]
    assert np.array_equal(indexes, before)


@given(LEAVES, INDEXES)
def test_padding_rows_stay(leaf: Leaf, rows: list[tuple[int, int, int]]) -> None:
    indexes = np.array([*rows, *((n, NO_TIME, x) for n, _, x in rows)], dtype=np.int32).reshape(-1, 3)
    _, mapped = leaf.map(indexes)
    assert np.array_equal(mapped[len(rows):], indexes[len(rows):])
    assert np.array_equal(mapped[:len(rows)], leaf.map(indexes[:len(rows)])[1])


@given(LEAVES, INTS, INTS, INDEXES)
def test_offsets_compose(leaf: Leaf, t: int, x: int, rows: list[tuple[int, int, int]]) -> None:
    indexes = np.array(rows, dtype=np.int32).reshape(-1, 3)
    shifted = indexes + np.array([0, t, x], dtype=np.int32)
    normalized = parse_descriptor(f"Offset({leaf.text(NAMES)}, {t}, {x})", NODE_INDEXES).parts[0]
    assert isinstance(normalized, Leaf)
    for found, expected in zip(normalized.map(indexes), leaf.map(shifted), strict=True):
        assert np.array_equal(found, expected)


def is_period_of_inner_parts(e: Leaf) -> bool:
    """False where Kaldi's rule leaves out the period of what stands inside Round or ReplaceIndex."""
    if isinstance(e, Round) and e.step % e.child.modulus():
        return False
    if isinstance(e, ReplaceIndex) and (e.variable == "t" or e.child.modulus() > 1):
        return False
    return all(is_period_of_inner_parts(child) for child in e.children() if isinstance(child, Leaf))


@given(LEAVES.filter(is_period_of_inner_parts), INDEXES)
def test_modulus_is_a_shift_that_changes_nothing(leaf: Leaf, rows: list[tuple[int, int, int]]) -> None:
    indexes = np.array(rows, dtype=np.int32).reshape(-1, 3)
    shift = np.array([0, leaf.modulus(), 0], dtype=np.int32)
    nodes, mapped = leaf.map(indexes)
    shifted_nodes, shifted = leaf.map(indexes + shift)
    assert np.array_equal(shifted_nodes, nodes)
    assert np.array_equal(shifted, mapped + shift)


@pytest.mark.parametrize(("text", "modulus"), [
    ("a", 1), ("Switch(a,b)", 2), ("Switch(a,Round(b,3))", 6), ("Round(Switch(a,b),4)", 4),
    ("ReplaceIndex(Switch(a,b),t,0)", 1), ("Sum(Round(a,4),Switch(a,b,c))", 12), ("Append(Round(a,2),Round(b,5))", 10),
    ("IfDefined(Round(a,3))", 3), ("Const(1,2)", 1),
])
def test_modulus(text: str, modulus: int) -> None:
    assert parse_descriptor(text, NODE_INDEXES).modulus() == modulus


def test_dims() -> None:
    text = "Append(input, Const(1,4), Sum(a,b), Switch(c,a), IfDefined(c))"
    assert parse_descriptor(text, NODE_INDEXES).dim(NNET) == 20
    with pytest.raises(DescriptorError, match="Sum expression with inconsistent dimension: 3 vs. 5"):
        parse_descriptor("Sum(a, c)", NODE_INDEXES).dim(NNET)
    with pytest.raises(DescriptorError, match="Failover expression with inconsistent dimension: 5 vs. 3"):
        parse_descriptor("Failover(c, a)", NODE_INDEXES).dim(NNET)


def part(text: str) -> Part:
    return parse_descriptor(text, NODE_INDEXES).parts[0]


def test_scales() -> None:
    assert part("Sum(Scale(0.5,a), Switch(b, Scale(0.5, a)))").scales() == {1: 0.5, 3: 1.0}
    with pytest.raises(DescriptorError, match="the scales 0.5 and 1 in one part"):
        part("Sum(Scale(0.5,a), Offset(a,1))").scales()


def test_constants() -> None:
    assert part("Sum(Const(1.5,3), Sum(a, Const(2,3)))").constant() == 3.5
    assert part("Failover(Sum(a, Const(2,3)), Const(2,3))").constant() == 2.0
    assert part("IfDefined(a)").constant() == 0.0
    with pytest.raises(DescriptorError, match="different constant terms"):
        part("Failover(a, Const(2,3))").constant()
    with pytest.raises(DescriptorError, match="inside IfDefined"):
        part("IfDefined(Sum(a, Const(2,3)))").constant()


def test_leaves_sources_and_renumbering() -> None:
    descriptor = parse_descriptor("Append(Sum(a, Const(1,3)), Switch(b, Offset(a,1)), c)", NODE_INDEXES)
    assert [leaf.text(NAMES) for leaf in descriptor.leaves()] == ["a", "Switch(b, Offset(a, 1))", "c"]
    assert [source.node for source in descriptor.sources()] == [1, 3, 1, 4]
    assert descriptor.source_nodes() == [1, 3, 4]
    renamed = descriptor.renumbered([9, 0, 9, 1, 2])
    assert renamed.text(["p", "q", "r"]) == "Append(Sum(p, Const(1, 3)), Switch(q, Offset(p, 1)), r)"


def test_substitution_normalizes() -> None:
    replacement = parse_descriptor("Append(b, Offset(input, -1))", NODE_INDEXES)
    result = substitute(parse_descriptor("Append(Offset(a, 1), Scale(0.5, a))", NODE_INDEXES), 1, replacement)
    assert result.text(NAMES) == "Append(Offset(b, 1), input, Scale(0.5, b), Offset(Scale(0.5, input), -1))"
