"""Epochs, phases and steps."""
from __future__ import annotations

import numpy as np
import pytest
from compiler_cases import RNN, TDNN, product, request
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import config, few_waves, rows

from nnet3py.compiler.build_graph import build_graph
from nnet3py.compiler.node_rules import node_epochs, node_rules
from nnet3py.compiler.request import ComputationRequest
from nnet3py.compiler.steps import Step, compute_steps
from nnet3py.errors import CompileError, NotComputableError
from nnet3py.network.nnet import Nnet


def steps_of(nnet: Nnet, asked: ComputationRequest, share: bool = True) -> list[Step]:
    return compute_steps(nnet, asked, build_graph(nnet, asked, share), node_rules(nnet))


@settings(deadline=None)
@given(st.integers(1, 9).flatmap(lambda n: st.lists(
    st.lists(st.integers(0, n - 1), unique=True, max_size=3).map(sorted), min_size=n, max_size=n)))
def test_epochs_put_sources_first_and_only_recurrences_together(sources: list[list[int]]) -> None:
    epochs = node_epochs(sources)
    reach = np.eye(len(sources), dtype=bool)
    for node, used in enumerate(sources):
        reach[node, used] = True
    for middle in range(len(sources)):
        reach |= reach[:, middle:middle + 1] & reach[middle:middle + 1]
    for node, used in enumerate(sources):
        assert all(epochs[source] <= epochs[node] for source in used)
    for a in range(len(sources)):
        for b in range(len(sources)):
            assert (epochs[a] == epochs[b]) == bool(reach[a, b] and reach[b, a])


def test_steps_of_a_splicing_network() -> None:
    nnet = Nnet.from_config(TDNN)
    asked = request(product([0, 1], range(-4, 6)), product([0, 1], range(4)))
    steps = steps_of(nnet, asked)
    assert [nnet.node_names[step.node] for step in steps] == [
        "input", "a_input", "a", "r_input", "r", "b_input", "b", "output"]
    assert (steps[0].indexes == asked.inputs[0].indexes).all()
    assert (steps[-1].indexes == asked.outputs[0].indexes).all()
    assert steps[2].indexes.tolist() == [[n, t, 0] for t in range(-3, 4) for n in range(2)]
    assert steps[1].indexes is steps[2].indexes


def test_a_recurrence_has_a_step_for_each_time() -> None:
    nnet = Nnet.from_config(RNN)
    steps = steps_of(nnet, request(product([0, 1], range(-1, 3)), product([0, 1], range(3))))
    inner = [(nnet.node_names[step.node], step.indexes[:, 1].tolist()) for step in steps[1:-1]]
    assert inner == [(name, [t, t]) for t in range(-1, 3) for name in ("a_input", "a", "t_input", "t")]


def test_a_recurrence_in_both_directions_is_an_error() -> None:
    nnet = Nnet.from_config(RNN.replace("input-dim=7", "input-dim=11").replace(
        "IfDefined(Offset(t, -1))", "IfDefined(Offset(t, -1)), IfDefined(Offset(t, 1))"))
    with pytest.raises(CompileError, match="recurrence"):
        steps_of(nnet, request(product([0], range(4)), product([0], range(4))))


@settings(deadline=None, max_examples=60)
@given(config(), rows(1, 4))
def test_steps_hold_every_cindex_once_and_after_what_it_uses(text: str, wanted: dict) -> None:
    nnet = Nnet.from_config(text)
    asked = request(np.array(wanted["input"], np.int32), np.array(wanted["output"], np.int32))
    try:
        with few_waves():
            graph = build_graph(nnet, asked)
        steps = compute_steps(nnet, asked, graph, node_rules(nnet))
    except (NotComputableError, CompileError):
        return
    place = {}
    for number, step in enumerate(steps):
        for row in map(tuple, step.indexes.tolist()):
            assert (step.node, row) not in place
            place[step.node, row] = number
        if nnet.is_component(step.node):
            assert steps[number - 1].node == step.node - 1
        if step.source >= 0:
            assert step.indexes is steps[step.source].indexes
    nodes = graph.nodes()
    for i, (shape, t, x) in enumerate(graph.indexes.tolist()):
        for n in graph.sequences.members[shape].tolist():
            number = place[int(nodes[i]), (n, t, x)]
            for d in graph.dependencies_of(np.array([i])).tolist():
                assert place[int(nodes[d]), (n, *graph.indexes[d, 1:].tolist())] < number
    unshared = steps_of(nnet, asked, share=False)
    assert [(s.node, s.source, s.indexes.tolist()) for s in unshared] == [
        (s.node, s.source, s.indexes.tolist()) for s in steps]
