"""nnet3py/compiler/build_graph.py: the left and right context of networks."""
from __future__ import annotations

import re

import pytest
from compiler_cases import RNN, TDNN
from paths import shared_golden

from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.errors import Nnet3Error
from nnet3py.network.nnet import Nnet


@pytest.mark.parametrize(("config", "context"), [
    (TDNN, (4, 2)),
    (RNN, (0, 0)),                       # what is optional does not count
    (TDNN.replace("Offset(r, -3)", "Round(r, 4)"), (4, 2)),
    (TDNN.replace("Offset(r, -3)", "Offset(r, -50)"), (51, 2)),     # more than the first window holds
    (TDNN.replace("Offset(r, -3)", "ReplaceIndex(r, t, 0)"), None)])
def test_contexts(config: str, context: tuple[int, int] | None) -> None:
    if context is None:      # t = 0 plus the context is not in the window of every shift
        assert Nnet.from_config(config).is_simple()
    else:
        assert compute_simple_nnet_context(Nnet.from_config(config)) == context


def test_ivectors_are_found_at_the_times_that_a_period_needs() -> None:
    config = TDNN.replace("dim=2\n", "dim=2\ninput-node name=ivector dim=2\n", 1)
    config = config.replace("input, Offset(input, 2)", "input, Round(ivector, 5)")
    assert compute_simple_nnet_context(Nnet.from_config(config)) == (4, 0)


def test_networks_that_are_not_simple_or_need_too_much_are_errors() -> None:
    nnet = Nnet.from_config(TDNN.replace("name=output", "name=other"))
    assert not nnet.is_simple()
    with pytest.raises(Nnet3Error, match="'output'"):
        compute_simple_nnet_context(nnet)
    with pytest.raises(Nnet3Error, match="computes no output from 640 frames"):
        compute_simple_nnet_context(Nnet.from_config(TDNN.replace("Offset(r, -3)", "Offset(r, -900)")))


def test_contexts_are_kaldis() -> None:
    from nnet3py import read_nnet

    checked = 0
    for name in ("net-tdnn", "net-lstm", "net-blstm", "rnn-clockwork", "descriptor-switch-round-replace",
                 "tdnn-component"):
        folder = shared_golden() / "cases" / name
        expected = re.search(r"left-context: (\d+)\nright-context: (\d+)", (folder / "info.txt").read_text())
        nnet = read_nnet(str(folder / "nnet.raw"))
        if expected and nnet.is_simple():
            assert compute_simple_nnet_context(nnet) == (int(expected[1]), int(expected[2])), name
            checked += 1
    assert checked > 3


def test_a_period_that_nobody_meant_is_refused_at_once() -> None:
    nnet = Nnet.from_config("input-node name=input dim=2\n"
                            "output-node name=output input=Append(Round(input, 100003), Round(input, 100019))\n")
    with pytest.raises(Nnet3Error, match="of 10002200057 frames, expected at most"):
        compute_simple_nnet_context(nnet)
