"""Random small networks and requests for property tests (hypothesis)."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import strategies as st

import nnet3py.compiler.graph as graph_module

DIM = 2
LIMIT = 150      # waves, instead of 10000, so that endless recursions are found soon


@contextmanager
def few_waves() -> Iterator[None]:
    """Give up on recurrences after LIMIT waves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_module, "MAX_DISTANCE", LIMIT)
        yield


@st.composite
def leaf(draw, names: list[str]) -> str:
    name = draw(st.sampled_from(names))
    kind = draw(st.sampled_from(["node", "node", "offset", "offset", "round", "switch", "replace", "nested"]))
    if kind == "offset":
        return f"Offset({name}, {draw(st.integers(-2, 2))})"
    if kind == "round":
        return f"Round({name}, {draw(st.integers(1, 3))})"
    if kind == "replace":
        return f"ReplaceIndex({name}, t, {draw(st.integers(0, 2))})"
    if kind == "switch":
        return f"Switch({name}, {draw(st.sampled_from(names))})"
    if kind == "nested":
        return f"Offset(Round({name}, 2), {draw(st.integers(-1, 1))})"
    return name


@st.composite
def expression(draw, earlier: list[str], later: list[str]) -> str:
    """Something of the dimension of every node; nodes that come later only in the past (or future), and optional."""
    first = draw(leaf(earlier))
    kind = draw(st.sampled_from(["leaf", "sum", "failover", "optional", "const", "recurrent", "recurrent"]))
    if kind == "sum":
        return f"Sum({first}, {draw(leaf(earlier))})"
    if kind == "failover":
        return f"Failover({first}, {draw(leaf(earlier))})"
    if kind == "optional":
        return f"Sum({first}, IfDefined({draw(leaf(earlier))}))"
    if kind == "const":
        return f"Sum({first}, Failover({draw(leaf(earlier))}, IfDefined({draw(leaf(earlier))})))"
    if kind == "recurrent" and later:
        return f"Sum({first}, IfDefined(Offset({draw(st.sampled_from(later))}, {draw(st.sampled_from([-1, -2, -3]))})))"
    return first


@st.composite
def config(draw, component: str = "type=NoOpComponent dim=2", max_nodes: int = 4) -> str:
    """Config text with nodes input, c0, c1, … (some behind a dim-range node) and output."""
    count = draw(st.integers(1, max_nodes))
    names = [f"c{i}" for i in range(count)]
    lines = [f"input-node name=input dim={DIM}"]
    usable = ["input"]
    for i, name in enumerate(names):
        lines.append(f"component name={name} {component}")
        text = draw(expression(usable, names[i:]))
        lines.append(f"component-node name={name} component={name} input={text}")
        usable.append(name)
        if draw(st.booleans()):
            lines.append(f"dim-range-node name=d{i} input-node={name} dim-offset=0 dim={DIM}")
            usable.append(f"d{i}")
    lines.append(f"output-node name=output input={draw(expression(usable[1:], []))}")
    return "\n".join(lines) + "\n"


@st.composite
def rows(draw, least: int, most: int) -> dict[str, list[tuple[int, int, int]]]:
    """Rows of input and output for a few sequences, some of the same shape."""
    sequences = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True))
    shapes = draw(st.lists(st.tuples(st.integers(-4, 0), st.integers(3, 7), st.integers(0, 2)), min_size=1, max_size=2))
    found: dict[str, list[tuple[int, int, int]]] = {"input": [], "output": []}
    for i, n in enumerate(sequences):
        begin, end, last = shapes[i % len(shapes)]
        found["input"] += [(n, t, 0) for t in range(begin, end)]
        found["output"] += [(n, t, 0) for t in range(last + 1)]
    return {"input": found["input"], "output": draw(st.permutations(found["output"]))}
