"""nnet3py/inspection/summary.py: the table of a network's nodes."""
from __future__ import annotations

from runtime_cases import LSTM, TDNN

import nnet3py
from nnet3py.network.nnet import Nnet

WITH_OFFSETS = """
input-node name=input dim=3
component name=a type=TdnnComponent input-dim=3 output-dim=4 time-offsets=-1,0,2
component name=r type=RectifiedLinearComponent dim=4
component-node name=a component=a input=input
component-node name=r1 component=r input=a
output-node name=output input=r1
"""


def test_the_table() -> None:
    lines = str(nnet3py.summary(Nnet.from_config(TDNN))).splitlines()
    assert lines[0].split() == ["node", "type", "takes", "input", "output", "parameters"]
    assert lines[2] == "a       Affine      input (−1, 0, +2)      9       5          50"
    assert len(lines) == 10
    assert lines[-1] == "130 parameters in 3 of 6 components; context 5 frames left, 3 right"


def test_rows_are_data() -> None:
    shown = Nnet.from_config(LSTM).summary()
    rows = {row.node: row for row in shown.rows}
    assert rows["gates"].takes == "input, m (−1)" and rows["c"].type == "range"
    assert (rows["c"].input_dim, rows["c"].output_dim, rows["output"].input_dim) == (4, 2, 3)
    assert sum(row.num_parameters for row in shown.rows) == shown.facts.num_parameters
    assert shown.headline.endswith("recurrent") and repr(shown) == str(shown)


def test_a_component_s_own_offsets_and_one_that_works_twice() -> None:
    rows = Nnet.from_config(WITH_OFFSETS).summary().rows
    assert rows[1].takes == "input at −1, 0, +2" and rows[1].num_parameters == 3 * 3 * 4 + 4
    twice = Nnet.from_config(TDNN + "component-node name=again component=c input=Append(s, s)\n"
                                    "output-node name=more input=again\n").summary().rows
    assert [row.num_parameters for row in twice if row.node in ("c", "again")] == [36, 0]
