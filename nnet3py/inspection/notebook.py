"""Displays of notebooks: tables of networks, components, computations, examples and results, drawings of networks."""
from __future__ import annotations

import html
from functools import singledispatch
from typing import Any

from nnet3py.compiler.computation import CommandType, Computation
from nnet3py.compiler.request import ComputationRequest
from nnet3py.components.base import Component
from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.index import format_indexes
from nnet3py.inspection.summary import HEADINGS, Summary, summary
from nnet3py.network.nnet import Nnet
from nnet3py.recognition.results import Result
from nnet3py.report.draw_network import draw_network
from nnet3py.report.tables import bytes_text
from nnet3py.report.training_page import table_of
from nnet3py.training.train import COLUMNS, History


@singledispatch
def html_of(value: Any) -> str:
    """Return HTML for a network, component, computation, request, example or result; for others the value's text."""
    return f"<pre>{html.escape(repr(value))}</pre>"


@html_of.register
def _(nnet: Nnet) -> str:
    return html_of(summary(nnet))


@html_of.register
def _(shown: Summary) -> str:
    drawing = draw_network(shown.nnet).svg()
    return (f"<p>{html.escape(shown.headline)}</p>" + table_of(HEADINGS, [row.texts() for row in shown.rows])
            + f"<details><summary>drawing</summary>{drawing[drawing.index('<svg'):]}</details>")


@html_of.register
def _(component: Component) -> str:
    rows = [(name, " x ".join(map(str, value.shape)), f"{value.size:,}")
            for name, value in component.parameters().items()]
    described, _, settings = component.info().partition(", ")
    return (f"<p><b>{html.escape(described)}</b> {component.input_dim} → {component.output_dim}<br>"
            f"{html.escape(settings)}</p>" + (table_of(("parameter", "shape", "numbers"), rows) if rows else ""))


@html_of.register
def _(computation: Computation) -> str:
    kinds: dict[CommandType, int] = {}
    for command in computation.commands:
        kinds[command.type] = kinds.get(command.type, 0) + 1
    sizes = [4 * matrix.num_rows * matrix.num_cols for matrix in computation.matrices[1:]]
    counts = sorted(kinds.items(), key=lambda item: -item[1])
    return (f"<p>{len(computation.commands)} commands, {len(sizes)} matrices of {bytes_text(sum(sizes))} together; "
            "<code>print(computation.describe(nnet))</code> lists them</p>"
            + table_of(("command", "count"), [(kind.name, count) for kind, count in counts]))


@html_of.register
def _(request: ComputationRequest) -> str:
    rows = [(io.name, kind, len(io.indexes), format_indexes(io.indexes), "yes" if io.has_deriv else "no")
            for kind, ios in (("input", request.inputs), ("output", request.outputs)) for io in ios]
    return table_of(("node", "is", "rows", "indexes (n,t)", "derivative"), rows)


@html_of.register
def _(example: NnetExample) -> str:
    return table_of(("node", "rows", "columns", "matrix", "indexes (n,t)"), [
        (io.name, *io.features.shape, type(io.features).__name__, format_indexes(io.indexes)) for io in example.io])


@html_of.register
def _(io: NnetIo) -> str:
    return html_of(NnetExample([io]))


@html_of.register
def _(result: Result) -> str:
    return f"<p>{html.escape(result.text)}</p>" + table_of(("word", "from", "to", "confidence"), [
        (word.word, f"{word.start:.2f} s", f"{word.end:.2f} s", f"{word.confidence:.2f}") for word in result.words])


@html_of.register
def _(history: History) -> str:
    return table_of(COLUMNS, [[f"{getattr(epoch, name):.5g}".replace("nan", "–") for name in COLUMNS]
                              for epoch in history.epochs])
