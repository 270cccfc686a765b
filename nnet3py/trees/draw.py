"""Drawing of trees in GraphViz's language. Kaldi: ``TreeRenderer``."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from nnet3py.errors import Nnet3Error
from nnet3py.hmm.tree import PDF_CLASS, Constant, ContextDependency, Map, Split

_PLAIN, _ON_PATH = ("black", 1), ("red", 3)          # color and width of lines


class _Drawing:
    """Writes nodes depth first."""

    def __init__(self, tree: ContextDependency, names: Mapping[int, str], tooltips: bool) -> None:
        self._tree, self._names, self._tooltips = tree, names, tooltips
        self._ids = count()

    def node(self, tree: Map, number: int, event: Sequence[int] | None) -> Iterator[str]:
        """Lines of a node and what is below; ``event``: pdf class and phones of a path to show, or None."""
        color, width = _PLAIN if event is None else _ON_PATH
        if isinstance(tree, Constant):
            yield f"{number}[shape=doublecircle, label={tree.answer},color={color}, penwidth={width}];"
            return
        yield f"{number}[label={self._label(tree.key)}, color={color}, penwidth={width}];"
        value = None if event is None else event[tree.key + 1]
        if isinstance(tree, Split):
            on_yes = value is not None and value in tree.values
            yield from self._yes(tree, number, event if on_yes else None)
            yield from self._child(tree.no, number, "[label=NO", event if value is not None and not on_yes else None)
            return
        for entry, child in enumerate(tree.children):
            if tree.key == PDF_CLASS or entry > 0:
                label = f" [label={entry if tree.key == PDF_CLASS else self._name(entry)}"
                yield from self._child(child, number, label, event if value == entry else None)

    def _yes(self, tree: Split, number: int, event: Sequence[int] | None) -> Iterator[str]:
        values = ", ".join(str(value) if tree.key == PDF_CLASS else self._name(value)
                           for value in sorted(tree.values))
        width = (_PLAIN if event is None else _ON_PATH)[1]
        label = f' [tooltip="{values}", label=YES' if self._tooltips else f' [label="{values}", penwidth={width}'
        yield from self._child(tree.yes, number, label, event, width_first=True)

    def _child(self, child: Map | None, parent: int, label: str, event: Sequence[int] | None,
               width_first: bool = False) -> Iterator[str]:
        number = next(self._ids)
        color, width = _PLAIN if event is None else _ON_PATH
        lines = f"penwidth={width}, color={color}" if width_first else f"color={color}, penwidth={width}"
        yield f"\t{parent} -> {number}{label}, {lines}];"
        if child is not None:          # Kaldi also draws the line that leads to nothing
            yield from self.node(child, number, event)

    def _name(self, phone: int) -> str:
        if phone not in self._names:
            raise Nnet3Error(f"the symbol table has no name for phone {phone}", "is it that of the tree?")
        return self._names[phone]

    def _label(self, key: int) -> str:
        width, position = self._tree.context_width, self._tree.central_position
        if key == PDF_CLASS:
            return '"PdfClass = ?"'
        if key == 0 and (width, position) == (1, 0):
            return '"Phone = ?"'
        if key == 0 and (width, position) == (3, 1):
            return '"LContext = ?"'
        if key == position:
            return '"Center = ?"'
        if key == 0:
            return ""                    # as Kaldi leaves it
        if key == 2 and (width, position) == (3, 1):
            return '"RContext = ?"'
        return f'"Ctx Position {key} = ?"'

    def lines(self, event: Sequence[int] | None) -> Iterator[str]:
        """All lines."""
        yield "digraph EventMap {"
        if self._tree.to_pdf is not None:
            yield from self.node(self._tree.to_pdf, next(self._ids), event)
        yield "}"


def drawing(tree: ContextDependency, names: Mapping[int, str], event: Sequence[int] | None = None,
            tooltips: bool = False) -> str:
    """The tree for GraphViz's ``dot``; ``event``: a pdf class and the phones of a window, whose path is shown in red.

    Nnet3Error for a phone without a name.
    """
    return "\n".join([*_Drawing(tree, names, tooltips).lines(event), ""])


def parsed_query(text: str, numbers: Mapping[str, int], width: int) -> list[int]:
    """The event that ``CLASS/PHONE/…`` names. Nnet3Error for anything else."""
    first, *phones = text.split("/")
    if not (first.isascii() and first.isdigit()) or len(phones) != width:
        raise Nnet3Error(f"expected a query such as 0{'/PHONE' * width}, found '{text}'")
    unknown = [phone for phone in phones if phone not in numbers]
    if unknown:
        raise Nnet3Error(f"the symbol table has no phone '{unknown[0]}' of the query '{text}'")
    return [int(first), *(numbers[phone] for phone in phones)]
