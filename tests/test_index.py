"""Order, keys, lookup and printing of indexes."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnet3py.errors import Nnet3Error
from nnet3py.index import (
    NO_TIME,
    KeySpace,
    as_indexes,
    distinct,
    first_duplicate,
    format_cindex,
    format_cindexes,
    format_indexes,
    format_integers,
    lookup,
    numbers_by_appearance,
    sequence_keys,
    sequences_of,
    shorten,
    sort_order,
)

times = st.one_of(st.integers(-2**31, 2**31 - 1), st.integers(-5, 5), st.just(NO_TIME))
rows = st.lists(st.tuples(st.integers(0, 300), times, st.integers(-40, 40)), max_size=30)


def array(items: list[tuple[int, int, int]]) -> np.ndarray:
    return np.array(items, np.int32).reshape(-1, 3)


@settings(deadline=None)
@given(rows)
def test_keys_sort_as_t_x_n_and_decode(items: list[tuple[int, int, int]]) -> None:
    indexes = array(items)
    expected = sorted(range(len(items)), key=lambda i: (items[i][1], items[i][2], items[i][0]))
    assert sort_order(indexes).tolist() == expected
    space = KeySpace.of([indexes])
    assert (space.indexes(space.keys(indexes)) == indexes).all()


@given(st.lists(st.tuples(times, times, times), max_size=30))
def test_sequence_keys_sort_as_n_x_and_decode(items: list[tuple[int, int, int]]) -> None:
    indexes = array(items)
    keys = sequence_keys(indexes)
    assert sequences_of(keys).dtype == np.int32 and (sequences_of(keys) == indexes[:, [0, 2]]).all()
    assert sequences_of(distinct(keys)).tolist() == [list(pair) for pair in sorted({(n, x) for n, _, x in items})]


@settings(deadline=None)
@given(rows, rows)
def test_lookup_finds_what_a_dictionary_finds(table: list[tuple[int, int, int]],
                                              wanted: list[tuple[int, int, int]]) -> None:
    table = list(dict.fromkeys(table))
    wanted = wanted + table[::2]
    where = {row: i for i, row in enumerate(table)}
    assert lookup(array(table), array(wanted)).tolist() == [where.get(row, -1) for row in wanted]


@settings(deadline=None)
@given(rows)
def test_duplicates_are_found(items: list[tuple[int, int, int]]) -> None:
    row = first_duplicate(array(items))
    assert (row < 0) == (len(set(items)) == len(items))
    assert row < 0 or items[row] in items[:row]


def test_too_far_apart_or_malformed_is_an_error() -> None:
    with pytest.raises(Nnet3Error, match="too large"):
        KeySpace(0, 2**20).keys(array([(0, 0, 5000)]))
    with pytest.raises(Nnet3Error, match="too far"):
        KeySpace(0, 2**31 - 1)
    for bad in ([[1, 2]], [[0.5, 1.0, 2.0]], [[2**40, 0, 0]]):
        with pytest.raises(Nnet3Error):
            as_indexes(np.array(bad))
    assert as_indexes([]).shape == (0, 3)


@pytest.mark.parametrize(("items", "text"), [
    ([], "[ ]"),
    ([(0, -1, 0), (0, 0, 0), (0, 1, 0), (1, 5, 0)], "[(0,-1:1), (1,5)]"),
    ([(0, 3, 2), (0, 4, 2), (0, 4, 0)], "[(0,3:4,2), (0,4)]"),
    ([(0, 0, 0), (1, 0, 0), (0, 1, 0)], "[(0,0), (1,0), (0,1)]"),
    ([(0, NO_TIME, 0), (0, NO_TIME + 1, 0)], f"[(0,{NO_TIME}:{NO_TIME + 1})]"),
])
def test_index_lists_print_as_in_kaldi(items: list[tuple[int, int, int]], text: str) -> None:
    assert format_indexes(array(items)) == text


def test_long_index_lists_are_shortened() -> None:
    indexes = array([(n, t, 0) for t in range(2000) for n in range(2)])
    whole = "[" + ", ".join(f"({n},{t})" for n, t, _ in indexes.tolist()) + "]"
    assert format_indexes(indexes) == whole[:100] + " ... " + whole[-100:]
    assert shorten("x" * 200) == "x" * 200
    assert len(shorten("x" * 201)) == 205


def test_cindexes_print_node_by_node() -> None:
    assert format_cindex("tdnn1", (0, -3, 0)) == "tdnn1(0,-3)"
    assert format_cindex("tdnn1", (0, -3, 7)) == "tdnn1(0,-3,7)"
    text = format_cindexes(np.array([0, 0, 2]), array([(0, -1, 0), (0, 0, 0), (1, 5, 0)]), ["a", "b", "c"])
    assert text == "a[(0,-1:0)]c[(1,5)]"
    assert format_cindexes(np.zeros(0, int), array([]), []) == "[ ]"


def slow_integers(values: list[int]) -> str:
    """The rule, read off a list from left to right."""
    items, at = [], 0
    while at < len(values):
        end = at + 1
        step = values[end] - values[at] if end < len(values) else None
        if step in (0, 1):
            while end < len(values) and values[end] - values[end - 1] == step:
                end += 1
        length = end - at
        if length >= 3:
            items.append(f"{values[at]}x{length}" if step == 0 else f"{values[at]}:{values[end - 1]}")
        else:
            items += [str(v) for v in values[at:end]]
        at = end
    return f"[{', '.join(items)}]" if items else "[ ]"


@pytest.mark.parametrize(("values", "text"), [
    ([0, 1, 2, 3, -1, -1], "[0:3, -1, -1]"), ([-1] * 10 + list(range(1, 21)), "[-1x10, 1:20]"),
    ([0, 1, 2, 3, 4, 7, 7, 7, 9, 10], "[0:4, 7x3, 9, 10]"), ([5], "[5]"), ([], "[ ]")])
def test_integer_lists_print_as_in_kaldi(values: list[int], text: str) -> None:
    assert format_integers(np.array(values, int)) == text


@settings(deadline=None)
@given(st.lists(st.integers(-1, 3), max_size=25))
def test_integer_lists_print_as_the_slow_rule(values: list[int]) -> None:
    assert format_integers(np.array(values, int)) == slow_integers(values)


@settings(deadline=None)
@given(st.lists(st.integers(-5, 5), max_size=30))
def test_distinct_values(values):
    array = np.array(values, dtype=np.int64)
    assert np.array_equal(distinct(array), np.unique(array))


@settings(deadline=None)
@given(st.lists(st.integers(-4, 4), max_size=30), st.sampled_from([1, 10**12]))
def test_values_are_numbered_as_they_appear(values, factor):
    names = list(dict.fromkeys(values))
    numbers, count = numbers_by_appearance(np.array(values, np.int64) * factor)
    assert numbers.tolist() == [names.index(value) for value in values]
    assert count == len(names)
