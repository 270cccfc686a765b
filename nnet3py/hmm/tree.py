"""Decision trees from phones in context to pdfs, and the initial transition model of a tree and a topology.

Kaldi: ``ContextDependency``, ``EventMap``, and the constructor of ``TransitionModel``.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.hmm.topology import NO_PDF, HmmTopology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.tokens import TokenReader, TokenWriter

PDF_CLASS = -1        # the key of the pdf class; the others are positions in the window of phones
MAX_WIDTH = 100       # phones in a window; real trees look at one to five
MAX_DEPTH = 200       # of questions, one below the other
SMALLEST_ENTRY = 3    # bytes of a table's entry, in text: a letter pair and a space


@dataclass(frozen=True)
class Constant:
    """A leaf of a tree, with its pdf-id."""

    answer: int


@dataclass(frozen=True)
class Table:
    """A node with a subtree for each value of a key; None: no subtree."""

    key: int
    children: tuple[Map | None, ...]


@dataclass(frozen=True)
class Split:
    """A node with one subtree for the values of a key that are in ``values``, and another for all others."""

    key: int
    values: frozenset[int]
    yes: Map | None
    no: Map | None


Map = Constant | Table | Split


@dataclass(frozen=True)
class _Values:
    """Possible values of a key: those in ``allowed`` (None: all) that are not in ``excluded``."""

    allowed: frozenset[int] | None = None
    excluded: frozenset[int] = frozenset()

    def inside(self, values: frozenset[int]) -> _Values | None:
        left = (values if self.allowed is None else values & self.allowed) - self.excluded
        return _Values(left) if left else None

    def outside(self, values: frozenset[int]) -> _Values | None:
        if self.allowed is None:
            return _Values(None, self.excluded | values)
        left = self.allowed - values
        return _Values(left) if left else None


_ANY = _Values()


@dataclass
class ContextDependency:
    """A decision tree from phones in context to pdfs.

    Attributes
    ----------
    context_width : int, phones in the window
    central_position : int, position of the phone itself in the window
    to_pdf : root node of the tree
    """

    context_width: int
    central_position: int
    to_pdf: Map | None

    @classmethod
    def read(cls, reader: TokenReader) -> ContextDependency:
        """Read from ``ContextDependency`` to ``EndContextDependency``; FormatError for other contents."""
        reader.expect("ContextDependency")
        width, position = reader.integer(), reader.integer()
        token = reader.token()
        if token == "ToLength":
            _read_map(reader, 0)
            token = reader.token()
        if token != "ToPdf":
            raise reader.unexpected(token, "ToPdf in a tree")
        to_pdf = _read_map(reader, 0)
        reader.expect("EndContextDependency")
        if not 0 <= position < width <= MAX_WIDTH:
            raise reader.error(f"expected a central position in a window of at most {MAX_WIDTH} phones, found position "
                               f"{position} of {width}")
        return cls(width, position, to_pdf)

    def write(self, writer: TokenWriter) -> None:
        """Write the tree, text or binary."""
        writer.token("ContextDependency")
        writer.integer(self.context_width)
        writer.integer(self.central_position)
        writer.token("ToPdf")
        _write_map(writer, self.to_pdf)
        writer.token("EndContextDependency")

    @property
    def num_pdfs(self) -> int:
        """The number of pdfs, which count from 0. Kaldi: NumPdfs."""
        return max((pdf for pdf, _ in _leaves(self.to_pdf, {})), default=-1) + 1

    def pdf(self, window: Sequence[int], pdf_class: int) -> int:
        """Return the pdf-id for a window of phones (0: none) and a pdf class of its central phone. Kaldi: Compute.

        Nnet3Error if the tree has none.
        """
        tree = self.to_pdf if len(window) == self.context_width else None
        while tree is not None and not isinstance(tree, Constant):
            if not PDF_CLASS <= tree.key < len(window):
                raise FormatError(f"a question of the tree is about position {tree.key} in a window of phones; "
                                  f"expected 0 to {len(window) - 1}, or {PDF_CLASS} for the pdf class")
            value = pdf_class if tree.key == PDF_CLASS else window[tree.key]
            if isinstance(tree, Split):
                tree = tree.yes if value in tree.values else tree.no
            else:
                tree = tree.children[value] if 0 <= value < len(tree.children) else None
        if tree is None:
            raise Nnet3Error(f"the tree has no pdf for pdf class {pdf_class} of the phones {tuple(window)}, of which "
                             f"the one at {self.central_position} is meant", "was the tree made for other phones?")
        return tree.answer

    def pdfs(self, phone: int, *pdf_classes: int) -> list[tuple[int, ...]]:
        """Return the tuples of pdf-ids that the given pdf classes of a phone have in some context, sorted."""
        values = {self.central_position: _Values(frozenset([phone]))}
        return sorted(set(self._pdfs((), pdf_classes, values)))

    def _pdfs(self, events: tuple[int, ...], pdf_classes: tuple[int, ...],
              values: dict[int, _Values]) -> Iterator[tuple[int, ...]]:
        if not pdf_classes:
            yield events
            return
        start = {**values, PDF_CLASS: _Values(frozenset([pdf_classes[0]]))}
        for pdf, then in _leaves(self.to_pdf, start):
            yield from self._pdfs((*events, pdf), pdf_classes[1:], then)


def _leaves(tree: Map | None, values: dict[int, _Values]) -> Iterator[tuple[int, dict[int, _Values]]]:
    """Yield the leaves that the possible values of keys lead to, each with the values that are possible there."""
    if tree is None:
        return
    if isinstance(tree, Constant):
        yield tree.answer, values
        return
    own = values.get(tree.key, _ANY)
    branches: list[tuple[Map | None, _Values | None]]
    if isinstance(tree, Table):
        branches = [(child, own.inside(frozenset([value]))) for value, child in enumerate(tree.children)
                    if child is not None]
    else:
        branches = [(tree.yes, own.inside(tree.values)), (tree.no, own.outside(tree.values))]
    for child, narrowed in branches:
        if narrowed is not None:
            yield from _leaves(child, {**values, tree.key: narrowed})


def _read_map(reader: TokenReader, depth: int) -> Map | None:
    if depth > MAX_DEPTH:
        raise reader.error(f"a tree has more than {MAX_DEPTH} questions one below the other")
    token = reader.token()
    if token == "NULL":
        return None
    if token == "CE":
        return Constant(reader.integer())
    if token == "TE":
        key, count = reader.integer(), reader.integer("uint32")
        reader.check_count(count, SMALLEST_ENTRY, "entries of a table")
        reader.expect("(")
        children = tuple(_read_map(reader, depth + 1) for _ in range(count))
        reader.expect(")")
        return Table(key, children)
    if token == "SE":
        key, values = reader.integer(), reader.integer_vector()
        reader.expect("{")
        yes, no = _read_map(reader, depth + 1), _read_map(reader, depth + 1)
        reader.expect("}")
        return Split(key, frozenset(values.tolist()), yes, no)
    raise reader.unexpected(token, "NULL, CE, TE or SE in a tree")


def _write_map(writer: TokenWriter, tree: Map | None) -> None:
    if tree is None:
        writer.token("NULL")
    elif isinstance(tree, Constant):
        writer.token("CE")
        writer.integer(tree.answer)
    elif isinstance(tree, Table):
        writer.token("TE")
        writer.integer(tree.key)
        writer.integer(len(tree.children), "uint32")
        _write_children(writer, "(", tree.children, ")")
    else:
        writer.token("SE")
        writer.integer(tree.key)
        writer.integer_vector(sorted(tree.values))
        _write_children(writer, "{", (tree.yes, tree.no), "}")


def _write_children(writer: TokenWriter, opening: str, children: tuple[Map | None, ...], closing: str) -> None:
    writer.token(opening)
    for child in children:
        _write_map(writer, child)
    writer.token(closing)
    writer.newline_if_text()


def monophone_tree(topology: HmmTopology, shared_phones: Sequence[Sequence[int]] | None = None) -> ContextDependency:
    """Return the tree whose pdfs depend only on the phone and its pdf class. Kaldi: MonophoneContextDependency[Shared].

    Each set of ``shared_phones`` shares pdfs, numbered in their order; None: a set for each phone. Raises FormatError
    for sets that overlap or lack phones.
    """
    sets = [[phone] for phone in topology.phones] if shared_phones is None else shared_phones
    groups = [sorted(phones) for phones in sets]
    given = sorted(phone for group in groups for phone in group)
    if given != topology.phones or [] in groups:
        wrong = sorted(set(given) ^ set(topology.phones)) or [a for a, b in pairwise(given) if a == b]
        fault = f"this fails for phones {wrong[:5]}" if wrong else "a set is empty"
        raise FormatError(f"expected every phone of the topology in just one set of shared phones; {fault}")
    roots = [Root(tuple(phones), shared=False) for phones in groups]
    return ContextDependency(1, 0, stub_tree(roots, topology, 0, count()))


@dataclass(frozen=True)
class Root:
    """Phones that share a root of the tree."""

    phones: tuple[int, ...]
    shared: bool             # one root for all pdf classes; otherwise a root for each class
    split: bool = False      # whether tree building may split the root's data further


def stub_tree(roots: Sequence[Root], topology: HmmTopology, position: int, leaves: Iterator[int]) -> Map:
    """Return the tree that finds the root of the phone at ``position``; ``leaves`` yields pdf-ids for its leaves.

    Kaldi: GetStubMap.
    """
    if len(roots) == 1:
        (root,) = roots
        if root.shared:
            return Constant(next(leaves))
        num_classes = max(topology.num_pdf_classes(phone) for phone in root.phones)
        return Table(PDF_CLASS, tuple(Constant(next(leaves)) for _ in range(num_classes)))
    if all(len(root.phones) == 1 for root in roots):
        of_phone = {root.phones[0]: stub_tree([root], topology, position, leaves) for root in roots}
        return Table(position, tuple(of_phone.get(phone) for phone in range(max(of_phone) + 1)))
    left, right = roots[:len(roots) // 2], roots[len(roots) // 2:]
    yes = stub_tree(left, topology, position, leaves)
    return Split(position, frozenset(phone for root in left for phone in root.phones), yes,
                 stub_tree(right, topology, position, leaves))


def initial_transition_model(tree: ContextDependency, topology: HmmTopology) -> TransitionModel:
    """Return the transition model of a tree with the topology's probabilities.

    It has a transition-state for each combination of phone, HMM state and pdfs. Raises FormatError for a phone of the
    topology for which the tree has no pdf.
    """
    tuples: list[tuple[int, ...]] = []
    probabilities: list[float] = []
    for phone in topology.phones:
        for number, state in enumerate(topology.entries[topology.entry_of_phone[phone]]):
            if state.forward_pdf_class == NO_PDF:
                continue
            same = state.forward_pdf_class == state.self_loop_pdf_class
            classes = (state.forward_pdf_class,) if same else (state.forward_pdf_class, state.self_loop_pdf_class)
            pdfs = tree.pdfs(phone, *classes)
            if not pdfs:
                raise FormatError(f"the tree has no pdf for phone {phone}, pdf class {state.forward_pdf_class}",
                                  hint="tree and topology must be for the same phones")
            tuples += [(phone, number, pdf_pair[0], pdf_pair[-1]) for pdf_pair in pdfs]
            probabilities += [probability for _, probability in state.transitions] * len(pdfs)
    with np.errstate(divide="ignore"):
        log_probs = np.log(np.array([1.0, *probabilities], dtype=np.float32))
    return TransitionModel(topology, np.array(tuples, dtype=np.int32), log_probs)
