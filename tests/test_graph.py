"""The computation graph against a slow one, and its errors."""
from __future__ import annotations

import logging
from contextlib import suppress

import numpy as np
import pytest
from compiler_cases import RNN, TDNN, product, request
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import LIMIT, config, few_waves, rows
from reference_graph import EndlessError, ReferenceGraph

from nnet3py.compiler.build_graph import build_graph
from nnet3py.compiler.graph import Graph, graph_builder, ragged
from nnet3py.compiler.node_rules import node_rules
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import CompileError, Nnet3Error, NotComputableError
from nnet3py.network.nnet import Nnet

FAR = 20      # frames: more than the first sweeps go back


def contents(graph: Graph) -> dict:
    """Each cindex of each sequence and what it uses."""
    nodes, members = graph.nodes(), graph.sequences.members
    cindexes = [(int(node), tuple(index)) for node, index in zip(nodes, graph.indexes.tolist(), strict=True)]
    found = {}
    for i, (node, (shape, t, x)) in enumerate(cindexes):
        used = [cindexes[d] for d in graph.dependencies_of(np.array([i])).tolist()]
        for n in members[shape].tolist():
            found[node, (n, t, x)] = {(d, (n, *index[1:])) for d, index in used}
    return found


@settings(deadline=None, max_examples=150)
@given(config(), rows(1, 4), st.booleans())
def test_waves_find_what_queues_find(text: str, wanted: dict, share: bool) -> None:
    nnet = Nnet.from_config(text)
    nodes = nnet.node_names.index("input"), nnet.node_names.index("output")
    ask = request(np.array(wanted["input"], np.int32), np.array(wanted["output"], np.int32))
    with few_waves():
        try:
            reference = ReferenceGraph(nnet, [(nodes[0], wanted["input"])], [(nodes[1], wanted["output"])], LIMIT)
        except EndlessError as error:
            if error.has_cycle:      # Kaldi counts uses, so a cycle keeps itself alive; here it is seen to be dead
                with suppress(CompileError, NotComputableError):
                    build_graph(nnet, ask, share)
                return
            with pytest.raises(CompileError, match="Loop detected"):
                build_graph(nnet, ask, share)
            return
        missing = reference.uncomputable_outputs()
        if missing:
            found = f"{len(missing)} output cindexes out of {len(reference.outputs)}"
            with pytest.raises(NotComputableError, match=found):
                build_graph(nnet, ask, share)
            return
        assert contents(build_graph(nnet, ask, share)) == reference.pruned()


def test_nodes_that_need_the_same_rows_are_handled_as_one() -> None:
    for text in (TDNN, RNN):
        nnet = Nnet.from_config(text)
        ask = request(product([0, 1], range(-8, 9)), product([0, 1], range(4)))
        apart = graph_builder(nnet, ask)
        apart.compute()
        joined = build_graph(nnet, ask)
        assert joined.chains is not None and len(joined.chains.nodes) < len(nnet.nodes)
        assert contents(joined) == contents(apart.prune())
        for chain in joined.chains.nodes:
            rows_of = [joined.indexes[joined.rows(node)].tolist() for node in chain]
            assert rows_of == rows_of[:1] * len(chain)


def test_rules_are_kept_until_the_network_changes() -> None:
    nnet = Nnet.from_config(TDNN)
    rules = node_rules(nnet)
    assert node_rules(nnet) is rules
    nnet.structure_changed()
    assert node_rules(nnet) is not rules
    assert node_rules(nnet.copy()) is not node_rules(nnet)


def test_graph_of_a_splicing_network() -> None:
    nnet = Nnet.from_config(TDNN)
    graph = build_graph(nnet, request(product([3, 5], range(-4, 6)), product([3, 5], range(4))))
    names = nnet.node_names
    assert graph.indexes[graph.rows(names.index("r"))][:, 1].tolist() == list(range(-3, 4))
    assert graph.indexes[graph.rows(names.index("b"))][:, 1].tolist() == list(range(4))
    assert [m.tolist() for m in graph.sequences.members] == [[3, 5]]
    assert graph.is_input.sum() == 10


def test_a_recurrence_is_cut_off_where_the_input_ends() -> None:
    nnet = Nnet.from_config(RNN)
    graph = build_graph(nnet, request(product([0], range(-2, 3)), product([0], range(3))))
    assert graph.indexes[graph.rows(nnet.node_names.index("t"))][:, 1].tolist() == [-2, -1, 0, 1, 2]


def test_what_cannot_be_computed_is_explained(caplog: pytest.LogCaptureFixture) -> None:
    nnet = Nnet.from_config(TDNN)
    with caplog.at_level(logging.INFO, logger="nnet3py"), pytest.raises(NotComputableError) as caught:
        build_graph(nnet, request(product([2], range(-4, 5)), product([2], range(4))))
    assert "Not all outputs were computable, cannot create computation." in str(caught.value)
    assert "output(2,3) needs b(2,3) needs r(2,3) needs a(2,3) needs input(2,5): not given" in str(caught.value)
    assert "*** cindex output(2, 3, 0) is not computable for the following reason: ***" in caplog.text
    assert "1 output cindexes out of 4 were not computable." in caplog.text
    assert "a_input(2, 3, 0) is kNotComputable, dependencies: " in caplog.text
    assert "input(2, 5, 0)[kNotComputable]" in caplog.text


def test_unknown_nodes_and_endless_recursions_are_errors() -> None:
    nnet = Nnet.from_config(TDNN.replace("name=input dim", "name=feats dim").replace("input,", "feats,")
                            .replace("Offset(input", "Offset(feats"))
    with pytest.raises(Nnet3Error, match="Network has no input with name input"):
        build_graph(nnet, request(product([0], range(9)), product([0], [4])))
    nnet = Nnet.from_config(RNN.replace("Append(input, ", "Append(IfDefined(input), "))
    with few_waves(), pytest.raises(CompileError, match="Loop detected while building computation graph"):
        build_graph(nnet, request(product([0], range(9)), product([0], [4])))


def test_ragged_joins_ranges() -> None:
    assert ragged(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert ragged(np.zeros(0, int), np.zeros(0, int)).tolist() == []


def test_what_is_optional_is_used_only_as_a_whole() -> None:
    """``b`` could be computed, but not the sum that it is part of, so that nothing needs it."""
    nnet = Nnet.from_config("""
input-node name=input dim=2
component name=a type=NoOpComponent dim=2
component-node name=a component=a input=input
component name=b type=NoOpComponent dim=2
component-node name=b component=b input=input
output-node name=output input=Sum(a, IfDefined(Sum(b, Offset(a, 9))))
""")
    graph = build_graph(nnet, request(product([0], range(3)), product([0], range(3))))
    rows_of = {name: graph.rows(node) for node, name in enumerate(nnet.node_names)}
    assert len(graph.indexes[rows_of["a"]]) == 3 and not len(graph.indexes[rows_of["b"]])


def test_a_recurrence_is_followed_until_something_is_given() -> None:
    """Whether the output can be computed is unknown until the sweeps have gone back to the only row of the input."""
    nnet = Nnet.from_config("""
input-node name=input dim=2
input-node name=step dim=2
component name=a type=NoOpComponent dim=2
component-node name=a component=a input=Failover(input, Sum(step, Offset(a, -1)))
output-node name=output input=a
""")
    ask = ComputationRequest([IoSpecification("input", product([0], [0])),
                              IoSpecification("step", product([0], range(1, FAR + 1)))],
                             [IoSpecification("output", product([0], [FAR]))])
    graph = build_graph(nnet, ask)
    assert graph.indexes[graph.rows(nnet.node_names.index("a"))][:, 1].tolist() == list(range(FAR + 1))
