"""Questions, sets of values of a key that tree nodes may ask for, found by clustering phones. Kaldi: ``Questions``."""
from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.hmm.tree import PDF_CLASS
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.random_sequence import CRandom
from nnet3py.trees.clustering import Clusters, best_of, k_means, top_down
from nnet3py.trees.stats import TreeStats

logger = logging.getLogger(__name__)

_NEAREST = 2              # clusters that refining a question tries, of two
_FEW_KEPT = 10            # keeping less than a tenth of the statistics is worth a warning


@dataclass
class QuestionsForKey:
    """Sets of values, ascending, and how many times a chosen set is refined at each node."""

    sets: list[tuple[int, ...]] = field(default_factory=list)
    num_iters_refine: int = 0


@dataclass
class Questions:
    """Questions by key: the pdf class (-1) and positions in the window."""

    by_key: dict[int, QuestionsForKey]

    @classmethod
    def read(cls, reader: TokenReader) -> Questions:
        """Read questions; FormatError for anything else."""
        reader.expect("<Questions>")
        by_key: dict[int, QuestionsForKey] = {}
        while (token := reader.token()) == "<Key>":
            key = reader.integer()
            if key in by_key:
                raise reader.error(f"key {key} has questions twice")
            by_key[key] = _read_key(reader)
        reader.check_token(token, "</Questions>")
        return cls(by_key)

    def write(self, writer: TokenWriter) -> None:
        """Write them, text or binary."""
        writer.token("<Questions>")
        for key, questions in sorted(self.by_key.items()):
            writer.token("<Key>")
            writer.integer(key)
            writer.token("<QuestionsForKey>")
            writer.integer(len(questions.sets))
            for values in questions.sets:
                writer.integer_vector(values)
            writer.token("<RefineClustersOptions>")
            writer.integer(questions.num_iters_refine)
            writer.integer(_NEAREST)
            writer.token("</RefineClustersOptions>")
            writer.token("</QuestionsForKey>")
        writer.token("</Questions>")


def _read_key(reader: TokenReader) -> QuestionsForKey:
    reader.expect("<QuestionsForKey>")
    count = reader.integer()
    reader.check_count(count, 2, "questions")
    sets = [tuple(sorted(set(reader.integer_vector().tolist()))) for _ in range(count)]
    reader.expect("<RefineClustersOptions>")
    iterations, _ = reader.integer(), reader.integer()
    reader.expect("</RefineClustersOptions>")
    reader.expect("</QuestionsForKey>")
    return QuestionsForKey(sets, iterations)


def compiled_questions(sets: Sequence[Sequence[int]], width: int, num_pdf_classes: int,
                       num_iters_refine: int) -> Questions:
    """All sets of phones as questions of every position, and the first pdf classes as questions of the class."""
    ordered = sorted({tuple(sorted(phones)) for phones in sets})
    if len(ordered) < len(sets):
        logger.warning("%d duplicate questions present", len(sets) - len(ordered))
    by_key = {key: QuestionsForKey(list(ordered), num_iters_refine) for key in range(width)}
    by_key[PDF_CLASS] = QuestionsForKey([tuple(range(last)) for last in range(1, num_pdf_classes)], num_iters_refine)
    return Questions(by_key)


def stats_of_sets(stats: TreeStats, sets: Sequence[Sequence[int]], pdf_classes: Sequence[int],
                  position: int) -> np.ndarray:
    """float64 (sets, 1 + 2 dim): the moments of phones at ``position``, in some pdf classes, summed over each set.

    Raises
    ------
    FormatError : a phone in no set, or in two, or nothing left
    """
    kept = np.isin(stats.events[:, 0], np.asarray(pdf_classes))
    if position + 1 >= stats.events.shape[1]:
        raise FormatError(f"the statistics have no phone at position {position}", hint="look at --central-position")
    phones = stats.events[:, position + 1]
    kept &= phones >= 0
    if not kept.any():
        raise FormatError("All stats are NULL.", hint="no statistics have these pdf classes; look at --pdf-class-list")
    if _FEW_KEPT * np.count_nonzero(kept) < len(stats):
        logger.warning("Only %d of %d statistics have these pdf classes", np.count_nonzero(kept), len(stats))
    by_phone = np.zeros((int(phones[kept].max()) + 1, stats.moments.shape[1]))
    np.add.at(by_phone, phones[kept], stats.moments[kept])
    seen = set(np.flatnonzero(by_phone[:, 0]).tolist())
    missing = seen - {phone for phones_of_set in sets for phone in phones_of_set}
    if missing:
        logger.warning("Phones that have statistics but are in no set: %s", " ".join(map(str, sorted(missing))))
    sums = np.zeros((len(sets), stats.moments.shape[1]))
    for total, phones_of_set in zip(sums, sets, strict=True):
        for phone in sorted(phones_of_set):
            if phone < len(by_phone):
                total += by_phone[phone]
    for total, phones_of_set in zip(sums, sets, strict=True):
        if total[0] == 0:
            logger.warning("No statistics for the phones %s", " ".join(map(str, phones_of_set)))
    return sums


def question_sets(stats: TreeStats, sets: Sequence[Sequence[int]], pdf_classes: Sequence[int],
                  position: int) -> list[tuple[int, ...]]:
    """Sets of phones that sound alike: the nodes of a binary tree of the sets. Kaldi: AutomaticallyObtainQuestions.

    Nnet3Error if there is nothing to split.
    """
    points = stats_of_sets(stats, sets, pdf_classes, position)
    tree = top_down(points, CRandom(), stats.var_floor)
    if not tree.nodes:
        raise Nnet3Error("the sets of phones cannot be split", "are there statistics of two of them?")

    def phones(points_of_node: np.ndarray) -> tuple[int, ...]:
        return tuple(sorted(phone for point in points_of_node.tolist() for phone in sets[point]))

    leaves = range(int(tree.leaves.max()), -1, -1)
    questions = [phones(members) for members in tree.nodes[1:]]
    questions += [phones(np.flatnonzero(tree.leaves == leaf)) for leaf in leaves]
    questions += [tuple(sorted(phones_of_set)) for phones_of_set in sets]
    return [phone_set for phone_set in dict.fromkeys(questions) if phone_set]


def phone_classes(stats: TreeStats, sets: Sequence[Sequence[int]], pdf_classes: Sequence[int], position: int,
                  num_classes: int) -> tuple[list[tuple[int, ...]], list[Clusters], float]:
    """Phones in ``num_classes`` classes by k-means; the classes, both tries, and the number of frames.

    Kaldi: KMeansClusterPhones.
    """
    points = stats_of_sets(stats, sets, pdf_classes, position)
    tries = k_means(points, num_classes, 2, CRandom(), stats.var_floor)
    assignment = best_of(tries).assignment
    classes = [tuple(sorted(phone for point in np.flatnonzero(assignment == number).tolist() for phone in sets[point]))
               for number in range(num_classes)]
    return classes, tries, float(points[:, 0].sum())
