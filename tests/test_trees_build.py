"""nnet3py/trees/{questions,growing,build}.py: Kaldi's own biphone tree, and properties of small ones."""
from __future__ import annotations

from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
from paths import DATA

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.hmm.topology import HmmTopology
from nnet3py.hmm.tree import Constant, ContextDependency, Split, Table, stub_tree
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.streams import read_integer_lines, read_lines
from nnet3py.trees import BuildOptions
from nnet3py.trees.build import (
    build_tree,
    build_two_level,
    grow,
    leaves_of,
    read_roots,
    say_low_counts,
    substituted,
    warn_of_phones,
)
from nnet3py.trees.clustering import (
    Questions,
    QuestionsForKey,
    compiled_questions,
    phone_classes,
    question_sets,
    stats_of_sets,
)
from nnet3py.trees.stats import TreeStats, objective

TREES = DATA / "trees"
BIPHONE = BuildOptions(2, 1, max_leaves=90)
SINGLE = 1e-5          # gains are differences of float32 sums


@pytest.fixture(scope="module")
def stats() -> TreeStats:
    return read_object(TREES / "bi.treeacc", TreeStats.read)


@pytest.fixture(scope="module")
def questions() -> Questions:
    return read_object(TREES / "bi.qst", Questions.read)


@pytest.fixture(scope="module")
def topology() -> HmmTopology:
    return read_object(TREES / "topo.chain", HmmTopology.read)


ROOTS = read_roots(read_lines(str(TREES / "roots.int")))


def test_questions_are_kaldis(stats: TreeStats, topology: HmmTopology, tmp_path: Path) -> None:
    sets = read_integer_lines(str(TREES / "sets.int"))
    found = question_sets(stats, sets, [1], 1)
    expected = read_integer_lines(str(TREES / "bi.questions.int"))
    assert found == [tuple(phones) for phones in expected]
    compiled = compiled_questions(expected, 2, 2, 0)
    write_object(tmp_path / "qst", compiled.write, True)
    assert (tmp_path / "qst").read_bytes() == (TREES / "bi.qst").read_bytes()


def test_tree_is_kaldis(stats: TreeStats, questions: Questions, topology: HmmTopology, tmp_path: Path) -> None:
    tree = build_tree(stats, ROOTS, questions, topology, BIPHONE)
    write_object(tmp_path / "tree", tree.write, True)
    assert (tmp_path / "tree").read_bytes() == (TREES / "bi.tree").read_bytes()


def test_classes_of_phones(stats: TreeStats) -> None:
    sets = read_integer_lines(str(TREES / "sets.int"))
    classes, tries, frames = phone_classes(stats, sets, [0, 1], 1, 4)
    assert sorted(phone for one in classes for phone in one) == sorted(phone for one in sets for phone in one)
    assert len(tries) == 2 and frames == stats.moments[:, 0].sum()
    with pytest.raises(FormatError, match="All stats are NULL"):
        phone_classes(stats, sets, [7], 1, 4)
    with pytest.raises(FormatError, match="the statistics have no phone at position 2"):
        phone_classes(stats, sets, [0], 2, 4)


def test_what_is_warned_of_sets_of_phones(caplog: pytest.LogCaptureFixture) -> None:
    """Of ten statistics one is enough."""
    for number, few in ((10, []), (11, ["Only 1 of 11 statistics have these pdf classes"])):
        events = np.array([[0, 3], *[[1, phone] for phone in range(1, number)]], np.int32)
        small = TreeStats(events, np.tile([1.0, 2.0, 5.0], (number, 1)), np.full(number, 0.01))
        caplog.clear()
        assert stats_of_sets(small, [[2, 99], [4]], [0], 0).tolist() == [[0, 0, 0]] * 2
        assert caplog.messages == [*few, "Phones that have statistics but are in no set: 3",
                                   "No statistics for the phones 2 99", "No statistics for the phones 4"]
    caplog.clear()
    assert stats_of_sets(small, [[2, 3], [4, 5, 6, 7, 8, 9, 10, 1]], [1, 0], 0).tolist() == [[3, 6, 15], [8, 16, 40]]
    assert caplog.messages == []


def test_compiled_questions(caplog: pytest.LogCaptureFixture) -> None:
    compiled = compiled_questions([[3, 1], [1, 3], [2]], 2, 3, 5)
    about_phones = QuestionsForKey([(1, 3), (2,)], 5)
    assert compiled == Questions({0: about_phones, 1: about_phones, -1: QuestionsForKey([(0,), (0, 1)], 5)})
    assert caplog.messages == ["1 duplicate questions present"]


def test_every_split_gains(stats: TreeStats, questions: Questions) -> None:
    leaves = np.zeros(len(stats), dtype=np.int64)
    before = float(objective(stats.moments.sum(0), stats.var_floor))
    gains = []
    for max_leaves in (2, 3, 6, 12):
        grown = grow(stats, leaves, 1, questions, 0.0, max_leaves)
        found = leaves_of(grown.trees[0], stats.events)
        assert sorted(set(found.tolist())) == list(range(max_leaves)) and grown.num_splits == max_leaves - 1
        after = sum(float(objective(stats.moments[found == leaf].sum(0), stats.var_floor))
                    for leaf in range(max_leaves))
        assert grown.gain == pytest.approx(after - before, rel=SINGLE)
        gains.append(grown.gain)
    assert all(a < b for a, b in pairwise(gains))


def test_first_split_is_the_best(stats: TreeStats, questions: Questions) -> None:
    def gain(key: int, values: tuple[int, ...]) -> float:
        is_yes = np.isin(stats.events[:, key + 1], values)
        parts = [stats.moments[mask].sum(0) for mask in (is_yes, ~is_yes)]
        return sum(float(objective(part, stats.var_floor)) for part in parts) - float(
            objective(stats.moments.sum(0), stats.var_floor))

    without_ci = stats.events[:, 1] >= 0
    stats = stats.chosen(without_ci)
    tree = grow(stats, np.zeros(len(stats), dtype=np.int64), 1, questions, 0.0, 2).trees[0]
    assert isinstance(tree, Split)
    best = max(gain(key, values) for key, asked in questions.by_key.items() for values in asked.sets)
    assert gain(tree.key, tuple(tree.values)) == pytest.approx(best, rel=SINGLE)


def test_a_split_must_gain_more_than_the_threshold(stats: TreeStats, questions: Questions) -> None:
    leaves = np.zeros(len(stats), dtype=np.int64)
    first = grow(stats, leaves, 1, questions, 0.0, 2)
    assert (first.num_leaves, first.num_splits) == (2, 1) and first.gain == first.smallest > 0
    assert grow(stats, leaves, 1, questions, float(first.gain), 0).num_splits == 0
    assert grow(stats, leaves, 1, questions, float(np.nextafter(first.gain, np.float32(0))), 0).num_splits == 1
    none = grow(stats, leaves, 1, questions, 0.0, 1)
    assert none.trees == {0: Constant(0)} and (none.num_leaves, none.num_splits, none.gain) == (1, 0, 0)
    assert none.smallest == np.float32(1e20)
    few = grow(stats, leaves, 1, questions, float(first.gain) / 10, -1)
    assert 1 < few.num_splits and float(first.gain) / 10 < few.smallest < first.gain < few.gain


def test_roots_as_a_tree(topology: HmmTopology) -> None:
    """Table for roots of one phone, else halves; a leaf for each pdf class, or for all of a shared root."""
    lines = ["not-shared split 1", "shared split 2", "not-shared not-split 3"]
    one, two, three = ((Constant(0), Constant(1)), Constant(2), (Constant(3), Constant(4)))
    assert stub_tree(read_roots(lines), topology, 1, count()) == Table(1, (None, Table(-1, one), two, Table(-1, three)))
    assert stub_tree(read_roots([*lines[:2], "not-shared split 5 3"]), topology, 0, count()) == Split(
        0, frozenset([1]), Table(-1, one), Split(0, frozenset([2]), two, Table(-1, three)))


def test_what_is_logged_of_phones_and_rare_pdfs(stats: TreeStats, topology: HmmTopology,
                                                caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        warn_of_phones(stats, ROOTS, topology, 1)
    assert not caplog.records
    seen = sorted(set(stats.events[:, 2].tolist()))
    with caplog.at_level("DEBUG"):
        warn_of_phones(stats.chosen(stats.events[:, 2] != seen[1]), ROOTS[1:], topology, 1)
    of_first = " ".join(map(str, sorted(ROOTS[0].phones)))
    unseen = [seen[1]] if seen[1] not in ROOTS[0].phones else []
    assert caplog.messages == [f"The phones of roots and topology differ: {of_first}", *(
        f"Saw no stats for following phones: {phone}" for phone in unseen)]
    caplog.clear()
    rare = TreeStats(np.array([[0, 1], [1, 1], [0, 2]], np.int32), np.array([[99.5, 0, 0], [100, 0, 0], [3, 0, 0]]),
                     np.full(3, 0.01))
    with caplog.at_level("DEBUG"):
        say_low_counts(rare, ContextDependency(1, 0, Table(0, (None, Table(-1, (Constant(0), Constant(1))),
                                                               Constant(2)))))
    assert caplog.messages == ["For pdf-id 0, low count 99.5", "For pdf-id 2, low count 3"]


@pytest.mark.parametrize("options", [
    BuildOptions(2, 1, max_leaves=70, round_num_leaves=False), BuildOptions(2, 1, max_leaves=70, cluster_threshold=0.0),
    BuildOptions(2, 1, threshold=1000.0, cluster_threshold=1500.0), BuildOptions(2, 1, max_leaves=1)])
def test_leaves_are_numbered_without_gaps(stats: TreeStats, questions: Questions, topology: HmmTopology,
                                          options: BuildOptions) -> None:
    tree = build_tree(stats, ROOTS, questions, topology, options)
    found = leaves_of(tree.to_pdf, stats.events)
    assert tree.num_pdfs >= len(ROOTS)
    assert set(range(tree.num_pdfs)) >= set(found.tolist())
    if options.round_num_leaves and tree.num_pdfs > 32:
        assert tree.num_pdfs % 8 == 0


def test_two_levels(stats: TreeStats, questions: Questions, topology: HmmTopology) -> None:
    tree, parents = build_two_level(stats, ROOTS, questions, topology, BuildOptions(
        2, 1, threshold=0.0, max_leaves=50, cluster_threshold=0.0), 80)
    assert tree.num_pdfs == len(parents) and list(parents) == sorted(parents)
    assert set(parents.tolist()) == set(range(parents.max() + 1)) and parents.max() + 1 < len(parents)
    options = BuildOptions(2, 1, threshold=0.0, max_leaves=50, cluster_threshold=0.0)
    first = leaves_of(build_tree(stats, ROOTS, questions, topology, options).to_pdf, stats.events)
    assert parents[leaves_of(tree.to_pdf, stats.events)].tolist() == first.tolist()
    whole, parents = build_two_level(stats, ROOTS, questions, topology, options, 80, cluster_leaves=False)
    assert tree.num_pdfs < whole.num_pdfs == 80
    assert parents[leaves_of(whole.to_pdf, stats.events)].tolist() == first.tolist()


def test_what_makes_no_tree(stats: TreeStats, questions: Questions, topology: HmmTopology) -> None:
    with pytest.raises(Nnet3Error, match="threshold above 0"):
        build_tree(stats, ROOTS, questions, topology, BuildOptions(2, 1, threshold=0.0))
    with pytest.raises(Nnet3Error, match="may be split"):
        build_tree(stats, read_roots([f"shared not-split {root.phones[0]}" for root in ROOTS]), questions, topology,
                   BIPHONE)
    with pytest.raises(Nnet3Error, match="no leaf for the event"):
        build_tree(stats, ROOTS[:-1], questions, topology, BIPHONE)
    with pytest.raises(Nnet3Error, match="no phone 99"):
        build_tree(stats, [*ROOTS, *read_roots(["shared split 99"])], questions, topology, BIPHONE)


@pytest.mark.parametrize("line", ["shared", "shared split", "shared split a", "shared split 0", "", "shared split -1",
                                  "shared split 1000000000"])
def test_bad_roots(line: str) -> None:
    with pytest.raises(FormatError, match="line 2 of the roots"):
        read_roots(["shared split 1", line])


def test_roots_name_a_phone_once() -> None:
    with pytest.raises(FormatError, match="phone 3 occurs twice"):
        read_roots(["shared split 1 3", "not-shared split 2 3"])
    assert [(root.shared, root.split) for root in read_roots(["shared split 1", "not-shared not-split 2"])] == [
        (True, True), (False, False)]


def test_leaves_of_events() -> None:
    tree = Split(0, frozenset([1, 3]), Constant(0), Table(-1, (Constant(1), None, Constant(2))))
    events = np.array([[0, 1], [2, 3], [0, 2], [2, 2]], dtype=np.int32)
    assert leaves_of(tree, events).tolist() == [0, 0, 1, 2]
    with pytest.raises(Nnet3Error, match="no leaf"):
        leaves_of(tree, np.array([[1, 2]], dtype=np.int32))
    with pytest.raises(Nnet3Error, match="no leaf"):                  # a question about a phone that events do not have
        leaves_of(Split(1, frozenset([1]), Constant(0), Constant(1)), events)
    other = substituted(tree, {0: Table(-1, (Constant(5), Constant(6)))})
    assert isinstance(other, Split) and leaves_of(other, events[:1]).tolist() == [5]


def test_bad_questions_are_refused(tmp_path: Path) -> None:
    whole = (TREES / "bi.qst").read_bytes()
    for damaged in (whole[:300], whole.replace(b"<Key>", b"<Kay>", 1), whole[:-13]):
        (tmp_path / "qst").write_bytes(damaged)
        with pytest.raises(FormatError):
            read_object(tmp_path / "qst", Questions.read)


def test_kaldis_tree_reads_back() -> None:
    tree = read_object(TREES / "bi.tree", ContextDependency.read)
    assert (tree.num_pdfs, tree.context_width, tree.central_position) == (48, 2, 1)
