"""Why an output cannot be computed: the chain from it down to the rows that are missing.

Kaldi: ``ComputationGraphBuilder::ExplainWhyNotComputable``.
"""
from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.errors import NotComputableError

if TYPE_CHECKING:
    from nnet3py.compiler.graph import GraphBuilder
    from nnet3py.compiler.request import ComputationRequest
    from nnet3py.network.nnet import Nnet

logger = logging.getLogger(__name__)

UNKNOWN, COMPUTABLE, NOT_COMPUTABLE = 0, 1, 2    # status of a cindex in a graph that is being built
_STATUS_NAMES = ("kUnknown", "kComputable", "kNotComputable")
MAX_OUTPUTS = 10        # explained
MAX_LINES = 100         # for each of them
MESSAGE_LINES = 8       # of the first explanation that the error itself repeats; the rest is logged


def not_computable(builder: GraphBuilder, nnet: Nnet, request: ComputationRequest) -> NotComputableError:
    """Log what cannot be computed and why; returns the error to raise."""
    sizes = builder.sequences.sizes()
    failed, num_failed, total = [], 0, 0
    for ids, computable, indexes in zip(builder.output_ids, builder.computable_outputs(), builder.sequences.outputs,
                                        strict=True):
        failed += ids[~computable].tolist()
        num_failed += int(sizes[indexes[~computable, 0]].sum())
        total += int(sizes[indexes[:, 0]].sum())
    logger.info("%d output cindexes out of %d were not computable.", num_failed, total)
    logger.info("Computation request was: %s", request.describe())
    if len(failed) > MAX_OUTPUTS:
        logger.info("Printing the reasons for %d of these.", MAX_OUTPUTS)
    names = nnet.node_names
    reasons = [explain(builder, i, names) for i in failed[:MAX_OUTPUTS]]
    for lines in reasons:
        logger.info("%s", "\n".join(lines))
    shown = reasons[0][:MESSAGE_LINES]
    if len(reasons[0]) > len(shown):
        shown.append("...")
    return NotComputableError(
        f"Not all outputs were computable, cannot create computation. {num_failed} output cindexes out of {total} were "
        "not computable.\n" + "\n".join(shown),
        "compare the inputs' times with the network's left and right context, and look for other missing inputs")


def explain(builder: GraphBuilder, cindex: int, names: list[str]) -> list[str]:
    """The lines that lead from one cindex down to what is missing, breadth first."""
    lines = [f"*** cindex {_text(builder, cindex, names)} is not computable for the following reason: ***"]
    queue, seen = [cindex], {cindex}
    while queue and len(lines) <= MAX_LINES:
        cindex = queue.pop(0)
        node = int(builder.node[cindex])
        dependencies = builder.tables[node].dependencies[builder.row[cindex]]
        dependencies = np.unique(dependencies[dependencies >= 0]).tolist()
        listed = ", ".join(f"{_text(builder, d, names)}[{_STATUS_NAMES[builder.status[d]]}]" for d in dependencies)
        status = _STATUS_NAMES[builder.status[cindex]]
        lines.append(f"{_text(builder, cindex, names)} is {status}, dependencies: {listed}")
        for d in dependencies:
            if builder.status[d] != COMPUTABLE and d not in seen:
                seen.add(d)
                queue.append(d)
    return lines


def _text(builder: GraphBuilder, cindex: int, names: list[str]) -> str:
    shape, t, x = builder.space.indexes(builder.key[cindex:cindex + 1])[0].tolist()
    return f"{names[int(builder.node[cindex])]}({builder.sequences.members[shape][0]}, {t}, {x})"
