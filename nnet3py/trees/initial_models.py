"""First models: a Gaussian for each pdf of a tree, from the tree's statistics, from all frames, or from nothing.

Kaldi: gmm-init-model, gmm-init-mono, gmm-init-biphone.
"""
from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.feat.cmvn import mean_and_variance
from nnet3py.gaussians.mixtures import DiagGmm, GmmModel
from nnet3py.hmm.topology import HmmTopology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import PDF_CLASS, Constant, ContextDependency, Map, Table, initial_transition_model
from nnet3py.random_sequence import CRandom
from nnet3py.trees.build import leaves_of
from nnet3py.trees.stats import TreeStats, check_not_empty

logger = logging.getLogger(__name__)

_FEW_FRAMES = 100          # of a pdf: worth a warning
_MAX_CLASSES = 2           # pdf classes that a biphone tree can have


@dataclass
class OldModel:
    """Older tree and model, from which pdfs are copied."""

    tree: ContextDependency
    model: GmmModel


def model_of_stats(tree: ContextDependency, stats: TreeStats, topology: HmmTopology, var_floor: float,
                   old: OldModel | None = None) -> tuple[GmmModel, np.ndarray]:
    """Make a model with one Gaussian for each pdf of a tree, estimated from its statistics, or copied from ``old``.

    Return the model; and float32 (pdfs,), number of frames of each pdf. Raises Nnet3Error for statistics, tree and
    topology of different systems.
    """
    check_not_empty(stats)
    transition_model = initial_transition_model(tree, topology)
    leaves = leaves_of(tree.to_pdf, stats.events)
    sums = np.zeros((tree.num_pdfs, stats.moments.shape[1]))
    np.add.at(sums, leaves, stats.moments)
    counts = sums[:, 0].astype(np.float32)
    if old is None:
        _warn_of_counts(counts, transition_model)
        total = sums.sum(0)
        pdfs = [_gaussian(row if row[0] > 0 else total, var_floor) for row in sums]
    else:
        pdfs = _copied(old, tree, stats, leaves)
    return GmmModel(transition_model, pdfs), counts


def _warn_of_counts(counts: np.ndarray, model: TransitionModel) -> None:
    for pdf, frames in enumerate(counts.tolist()):
        if frames < _FEW_FRAMES:
            phones = sorted({int(row[0]) for row in model.tuples if pdf in row[2:].tolist()})
            listed = "".join(f"{phone} " for phone in phones)
            if frames == 0:
                logger.warning("Tree has pdf-id %d with no stats; corresponding phone list: %s", pdf, listed)
            else:
                logger.warning("Very small count for state %d: %g; corresponding phone list: %s", pdf, frames, listed)


def _gaussian(moments: np.ndarray, var_floor: float) -> DiagGmm:
    """Return the Gaussian with the mean and variance of moments, float64 (1 + 2 dim,), in single precision as Kaldi."""
    frames, dim = np.float32(moments[0]), len(moments) // 2
    mean = moments[1:1 + dim].astype(np.float32) * (np.float32(1) / frames)
    square = moments[1 + dim:].astype(np.float32) * (np.float32(1) / frames)
    return DiagGmm.single(mean, np.maximum(square - mean * mean, np.float32(var_floor)))


def _copied(old: OldModel, tree: ContextDependency, stats: TreeStats, leaves: np.ndarray) -> list[DiagGmm]:
    """Return, for each pdf of the tree, the old model's pdf to which the old tree assigns most of its frames."""
    shift = tree.central_position - old.tree.central_position
    width = old.tree.context_width
    if shift < 0 or shift + width > tree.context_width:
        raise Nnet3Error(f"the old tree looks at {width} phones, position {old.tree.central_position}; the new one at "
                         f"{tree.context_width}, position {tree.central_position}",
                         "the new window must hold the old one")
    events = np.concatenate((stats.events[:, :1], stats.events[:, 1 + shift:1 + shift + width]), axis=1)
    frames = np.zeros((tree.num_pdfs, len(old.model.pdfs)))
    np.add.at(frames, (leaves, leaves_of(old.tree.to_pdf, events)), stats.moments[:, 0])
    return [old.model.pdfs[int(best)] for best in frames.argmax(axis=1)]


def global_gaussian(stats: np.ndarray) -> DiagGmm:
    """Return the Gaussian with the mean and variance of normalization statistics, float64 (2, dim + 1).

    Raises Nnet3Error if there are no frames, or a variance is 0.
    """
    if not stats[0, -1]:
        raise Nnet3Error("there are no features", "look at --train-feats")
    mean, variance = mean_and_variance(stats)
    if not (variance > 0).all():
        raise Nnet3Error(f"column {int((variance <= 0).argmax())} of the features has variance 0",
                         "leave out columns that are constant, for example by select-feats")
    return DiagGmm.single(mean.astype(np.float32), variance.astype(np.float32))


def same_for_all(tree: ContextDependency, topology: HmmTopology, gaussian: DiagGmm,
                 perturb_factor: float = 0.0) -> GmmModel:
    """Return a model whose pdfs are all the same.

    With ``perturb_factor`` their means are moved at random by that many standard deviations.
    """
    random, pdfs = CRandom(), []
    for _ in range(tree.num_pdfs):
        means = gaussian.means_inv_vars
        if perturb_factor != 0:
            moves = np.array([random.normal() for _ in range(gaussian.dim)], dtype=np.float32)
            means = means + np.float32(perturb_factor) * moves * np.sqrt(gaussian.inv_vars)
        pdfs.append(DiagGmm(gaussian.weights, means, gaussian.inv_vars))
    return GmmModel(initial_transition_model(tree, topology), pdfs)


@dataclass(frozen=True)
class BiphoneCounts:
    """Counts of phones and biphones, and the counts that they need to get pdfs of their own."""

    phones: Mapping[int, int]                # occurrences by phone
    biphones: Mapping[tuple[int, int], int]  # occurrences by left phone (0: none) and phone
    least_biphone: int = 100                 # occurrences that a biphone needs for own pdfs
    least_monophone: int = 20                # a phone needs more for pdfs that its rare biphones share

    @classmethod
    def parse(cls, lines: Sequence[str], num_phones: int, least_biphone: int, least_monophone: int,
              path: str = "") -> BiphoneCounts:
        """Parse lines ``LEFT PHONE COUNT`` and ``PHONE COUNT``; FormatError for others."""
        phones: dict[int, int] = {}
        biphones: dict[tuple[int, int], int] = {}
        for number, line in enumerate(lines, 1):
            words = line.split()
            if not words:
                continue
            numeric = all(word.isascii() and word.isdigit() and len(word) < 10 for word in words)
            if len(words) not in (2, 3) or not numeric or any(int(word) > num_phones for word in words[:-1]):
                raise FormatError(f"line {number} is not 'LEFT PHONE COUNT' or 'PHONE COUNT': {line.strip()[:80]!r}",
                                  path=path, hint=f"phones are numbers up to {num_phones}; no left phone is 0")
            *key, frames = map(int, words)
            if len(key) == 1:
                phones[key[0]] = frames
            else:
                biphones[key[0], key[1]] = frames
        return cls(phones, biphones, least_biphone, least_monophone)


def biphone_tree(topology: HmmTopology, sets: Sequence[Sequence[int]], ci_phones: Sequence[int],
                 counts: BiphoneCounts | None = None) -> ContextDependency:
    """Make a tree with separate pdfs for each pair of a set of left phones and a set of central phones.

    The pdfs of ``ci_phones`` (context-independent) do not depend on the left phone; those of rare pairs by ``counts``
    are shared. Kaldi: BiphoneContextDependencyFull. Raises Nnet3Error for phones with more than two pdf classes.
    """
    classes = {topology.num_pdf_classes(phone) for phone in topology.phones}
    if not classes <= set(range(1, _MAX_CLASSES + 1)):
        raise Nnet3Error(f"a phone has {max(classes)} pdf classes; a biphone tree is for one or two",
                         "a chain topology has two")
    num_classes = topology.num_pdf_classes(min(topology.phones))
    return _BiphoneTree(topology, sets, ci_phones, counts, num_classes).tree()


class _BiphoneTree:
    def __init__(self, topology: HmmTopology, sets: Sequence[Sequence[int]], ci_phones: Sequence[int],
                 counts: BiphoneCounts | None, num_classes: int) -> None:
        self._ci_phones, self._counts, self._num_classes = sorted(ci_phones), counts, num_classes
        self._sets = [kept for phones in sets if (kept := [phone for phone in phones if phone not in ci_phones])]
        self._highest = max(topology.phones)
        self._pdfs = count()
        self._of_all: Map | None = None

    def tree(self) -> ContextDependency:
        """Make the tree; log how many pdfs it has."""
        by_phone: dict[int, Map] = {phone: self._new() for phone in self._ci_phones}
        for number, phones in enumerate(self._sets):
            table = self._left_table(phones, number)
            by_phone.update(dict.fromkeys(phones, table))
        logger.info("Num PDFs: %d", next(self._pdfs))
        return ContextDependency(2, 1, self._table(1, by_phone))

    def _table(self, key: int, children: Mapping[int, Map]) -> Table:
        return Table(key, tuple(children.get(phone) for phone in range(self._highest + 1)))

    def _new(self) -> Map:
        return Table(PDF_CLASS, tuple(Constant(next(self._pdfs)) for _ in range(self._num_classes)))

    def _left_table(self, phones: Sequence[int], number: int) -> Map:
        """Return the table from the left phone to pdfs, for the set ``phones`` of central phones, set ``number``."""
        if self._num_classes == 1:
            of_left: dict[int, Map] = {0: Constant(next(self._pdfs))}
            for left_set in self._sets:
                of_left.update(dict.fromkeys(left_set, Constant(next(self._pdfs))))
            return self._table(0, of_left)
        lefts = dict.fromkeys([0, *self._ci_phones], self._new())
        of_rare: Map | None = None
        for left_set in self._sets:
            pair = left_set[0], phones[0]
            chosen: Map
            if self._counts is None or self._counts.biphones.get(pair, 0) >= self._counts.least_biphone:
                chosen = self._new()
            elif self._counts.phones.get(phones[0], 0) > self._counts.least_monophone:
                logger.debug("Reverting to mono for biphone (%d,%d)", *pair)
                if of_rare is None:
                    logger.debug("Reserving mono PDFs for phone-set %d", number)
                    of_rare = self._new()
                chosen = of_rare
            else:
                logger.debug("Reverting to zerophone for biphone (%d,%d)", *pair)
                if self._of_all is None:
                    logger.debug("Reserving zero PDFs.")
                    self._of_all = self._new()
                chosen = self._of_all
            lefts.update(dict.fromkeys(left_set, chosen))
        return self._table(0, lefts)


def phone_sets(lines: Iterator[Sequence[int]] | Sequence[Sequence[int]], path: str = "") -> list[tuple[int, ...]]:
    """Check and return sets of phones, one per line. Raises FormatError for an empty set, or a phone in two sets."""
    sets = [tuple(line) for line in lines]
    every = [phone for phones in sets for phone in phones]
    if not all(sets) or len(set(every)) < len(every) or min(every, default=1) < 1:
        raise FormatError("expected lines of phones, numbers from 1, none of them empty, and each phone once",
                          path=path)
    return sets
