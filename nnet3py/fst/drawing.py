"""Drawings of FSTs for GraphViz. OpenFst: ``fstdraw``."""
from __future__ import annotations

from nnet3py.fst.symbols import names_of
from nnet3py.fst.text import TextForm
from nnet3py.transducers.fst import Fst

_FONT = "fontsize = 14"


def drawing_text(fst: Fst, form: TextForm, portrait: bool = False, title: str = "", digits: int = 5,
                 show_zero: bool = False) -> bytes:
    """The drawing: states from left to right, the start in bold, final states as double circles with their costs."""
    orientation = b"" if portrait else b"orientation = Landscape;\n"
    parts = [b"digraph FST {\nrankdir = LR;\nsize = \"8.5,11\";\nlabel = \"", title.encode("utf-8", "surrogateescape"),
             b"\";\ncenter = 1;\n", orientation, b"ranksep = \"0.4\";\nnodesep = \"0.25\";\n"]
    tables = [None if table is None else names_of(table) for table in (form.inputs, form.outputs)]

    def label(number: int, side: int) -> bytes:
        table = tables[side]
        name = b"%d" % number if table is None else table.get(number, b"%d" % number)
        return name.replace(b"\\", b"\\\\").replace(b'"', b'\\"')

    def cost(value: float) -> bytes:
        return b"" if value == 0.0 and not show_zero else b"/%.*g" % (digits, value)

    others = [state for state in range(fst.num_states) if state != fst.start]
    for state in ([fst.start] if fst.start >= 0 else []) + others:
        ends = bool(fst.is_final[state])
        text = b"%d%b" % (state, cost(float(fst.final_weights[state])) if ends else b"")
        parts.append(b'%d [label = "%b", shape = %b, style = %b, %b]\n' % (
            state, text, b"doublecircle" if ends else b"circle", b"bold" if state == fst.start else b"solid",
            _FONT.encode()))
        for arc in range(int(fst.arc_starts[state]), int(fst.arc_starts[state + 1])):
            words = label(int(fst.input_labels[arc]), 0)
            if not form.acceptor:
                words += b":" + label(int(fst.output_labels[arc]), 1)
            parts.append(b'\t%d -> %d [label = "%b%b", %b];\n' % (
                state, int(fst.next_states[arc]), words, cost(float(fst.weights[arc])), _FONT.encode()))
    return b"".join(parts) + b"}\n"
