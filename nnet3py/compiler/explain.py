"""Why an output cannot be computed: the path from it to a missing input row, and which frames to add.

The error carries the shortest path and what each input lacks; the log has Kaldi's lines as well.
Kaldi: ``ComputationGraphBuilder::ExplainWhyNotComputable``.
"""
from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.compiler.graph import COMPUTABLE, NOT_COMPUTABLE, GraphBuilder
from nnet3py.errors import NotComputableError
from nnet3py.index import distinct, format_cindex
from nnet3py.network.structure import InputNode

if TYPE_CHECKING:
    from nnet3py.compiler.request import ComputationRequest
    from nnet3py.network.nnet import Nnet

logger = logging.getLogger(__name__)

_STATUS_NAMES = ("kUnknown", "kComputable", "kNotComputable")
MAX_OUTPUTS = 10        # explained in the log
MAX_LINES = 100         # for each of them
MAX_SUMMARY = 4         # outputs, and inputs, of which the error speaks
MAX_RANGES = 4          # ranges of times that are listed
PATH_BEGIN, PATH_END = 4, 4     # what is shown of a long path


def not_computable(builder: GraphBuilder, nnet: Nnet, request: ComputationRequest) -> NotComputableError:
    """Log what cannot be computed and why, in Kaldi's words; returns the error to raise."""
    sizes = builder.sequences.sizes()
    failed, num_failed, total = [], 0, 0
    for ids, computable, indexes in zip(builder.output_ids, builder.computable_outputs(), builder.sequences.outputs,
                                        strict=True):
        failed.append(ids[~computable])
        num_failed += int(sizes[indexes[~computable, 0]].sum())
        total += int(sizes[indexes[:, 0]].sum())
    logger.info("%d output cindexes out of %d were not computable.", num_failed, total)
    logger.info("Computation request was: %s", request.describe())
    every = np.concatenate(failed)
    if len(every) > MAX_OUTPUTS:
        logger.info("Printing the reasons for %d of these.", MAX_OUTPUTS)
    for cindex in every[:MAX_OUTPUTS].tolist():
        logger.info("%s", "\n".join(explain(builder, cindex, nnet.node_names)))
    failed = [ids for ids in failed if len(ids)]
    chains = [_chain(builder, int(ids[0])) for ids in failed[:MAX_SUMMARY]]
    lines = [_path_text(builder, nnet, chain) for chain in chains]
    lines += [_failed_text(builder, nnet, ids) for ids in failed[:MAX_SUMMARY]]
    lacks, hints = _lacks(builder, nnet, every)
    hints += _endless(builder, nnet, chains)
    return NotComputableError(
        f"Not all outputs were computable, cannot create computation. {num_failed} output cindexes out of {total} were "
        "not computable.\n" + ".\n".join(lines + lacks[:MAX_SUMMARY]),
        "; ".join(hints[:MAX_SUMMARY]) or "compare the inputs' times with the network's left and right context")


def explain(builder: GraphBuilder, cindex: int, names: list[str]) -> list[str]:
    """The lines that lead from one cindex down to what is missing, breadth first, as Kaldi logs them."""
    lines = [f"*** cindex {_kaldi_text(builder, cindex, names)} is not computable for the following reason: ***"]
    queue, seen = [cindex], {cindex}
    while queue and len(lines) <= MAX_LINES:
        cindex = queue.pop(0)
        node = int(builder.node[cindex])
        dependencies = builder.tables[node].dependencies[builder.row[cindex]]
        dependencies = np.unique(dependencies[dependencies >= 0]).tolist()
        listed = ", ".join(f"{_kaldi_text(builder, d, names)}[{_STATUS_NAMES[builder.status[d]]}]"
                           for d in dependencies)
        status = _STATUS_NAMES[builder.status[cindex]]
        lines.append(f"{_kaldi_text(builder, cindex, names)} is {status}, dependencies: {listed}")
        for d in dependencies:
            if builder.status[d] != COMPUTABLE and d not in seen:
                seen.add(d)
                queue.append(d)
    return lines


def _kaldi_text(builder: GraphBuilder, cindex: int, names: list[str]) -> str:
    n, t, x = _index(builder, cindex)
    return f"{names[int(builder.node[cindex])]}({n}, {t}, {x})"


def _index(builder: GraphBuilder, cindex: int) -> tuple[int, int, int]:
    """n (of the first sequence that the cindex stands for), t and x."""
    shape, t, x = builder.space.indexes(builder.key[cindex:cindex + 1])[0].tolist()
    return int(builder.sequences.members[shape][0]), t, x


# -- the search for what is missing ------------------------------------------------------------------------------------


def lacking(builder: GraphBuilder, node: int, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What cindexes of one node depend on, int64 (rows, columns), and which of these each lacks, bool.

    What a row lacks is a smallest set: it could be computed if it had that, and not with less. Terms that it can do
    without (IfDefined) are not in it; of several that would each do (Failover), the first is.
    """
    dependencies = builder.tables[node].dependencies[builder.row[ids]]
    real = dependencies >= 0
    # A cindex is called not computable if it is not even with all that is undecided.
    hopeless = builder.status[ids] == NOT_COMPUTABLE
    status = builder.status[dependencies]
    available = real & np.where(hopeless[:, None], status != NOT_COMPUTABLE, status == COMPUTABLE)
    indexes = builder.space.indexes(builder.key[ids])
    kept = real
    for column in reversed(range(dependencies.shape[1])):
        if (kept & ~available)[:, column].any():
            without = kept.copy()
            without[:, column] &= available[:, column]
            enough = builder.rules[node].computable(indexes, without)[0]
            kept = np.where(enough[:, None], without, kept)
    return dependencies, kept & ~available


def _search(builder: GraphBuilder, start: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """From ``start`` to everything that is lacking, breadth first: which cindex needs each one (-1: none); the ends."""
    parent = np.full(builder.size, -1)
    parent[start] = start
    ends: list[int] = []
    while len(start):
        lacking_ones = []
        for node in distinct(builder.node[start]).tolist():
            ids = start[builder.node[start] == node]
            dependencies, lacks = lacking(builder, node, ids)
            ends += ids[~lacks.any(axis=1)].tolist()
            users = np.broadcast_to(ids[:, None], lacks.shape)[lacks]
            wanted = dependencies[lacks]
            new = parent[wanted] < 0
            parent[wanted[new][::-1]] = users[new][::-1]       # the first user stays
            lacking_ones.append(wanted[new])
        start = distinct(np.concatenate(lacking_ones))
    return parent, ends


def _chain(builder: GraphBuilder, cindex: int) -> list[int]:
    """A shortest chain of needs from a cindex to something that is missing."""
    parent, ends = _search(builder, np.array([cindex]))
    chain = ends[:1]
    while chain and chain[-1] != cindex:
        chain.append(int(parent[chain[-1]]))
    return chain[::-1] or [cindex]


def _path_text(builder: GraphBuilder, nnet: Nnet, chain: list[int]) -> str:
    """``output(0,5) needs tdnn3(0,8) needs input(0,11): not given``; inputs of components are not named."""
    texts, others = [_text(builder, nnet, chain[0])], ""
    for user, used in zip(chain[:-1], chain[1:], strict=True):
        others = others or _alternatives(builder, nnet, user, used)
        if not nnet.is_component_input(int(builder.node[used])):
            texts.append(_text(builder, nnet, used) + others)
            others = ""
    if len(texts) > PATH_BEGIN + PATH_END + 1:
        left_out = len(texts) - PATH_BEGIN - PATH_END
        texts[PATH_BEGIN:-PATH_END] = [f"… ({left_out} more) …"]
    is_input = isinstance(nnet.nodes[int(builder.node[chain[-1]])], InputNode)
    return " needs ".join(texts) + (": not given" if is_input else ": there is nothing to compute it from")


def _endless(builder: GraphBuilder, nnet: Nnet, chains: list[list[int]]) -> list[str]:
    """What to try if a chain went through a node several times: its recurrence has no beginning."""
    for chain in chains:
        nodes = [int(node) for node in builder.node[chain] if nnet.is_component(int(node))]
        for node in nodes:
            if nodes.count(node) > 1:
                return [f"'{nnet.node_names[node]}' needs itself at other times without end: write IfDefined(…) around "
                        "the recurrence, so that it can begin"]
    return []


def _text(builder: GraphBuilder, nnet: Nnet, cindex: int) -> str:
    return format_cindex(nnet.node_names[int(builder.node[cindex])], _index(builder, cindex))


def _alternatives(builder: GraphBuilder, nnet: Nnet, user: int, used: int) -> str:
    """What could have been used instead of ``used``: `` (or b(0,3))``."""
    node = int(builder.node[user])
    dependencies, lacks = (rows[0] for rows in lacking(builder, node, np.array([user])))
    indexes = builder.space.indexes(builder.key[user:user + 1])
    have = (dependencies >= 0) & (builder.status[dependencies] != NOT_COMPUTABLE) | lacks
    have &= dependencies != used
    others = []
    for column in np.flatnonzero((dependencies >= 0) & ~have & (dependencies != used)).tolist():
        trial = have.copy()
        trial[column] = True
        if builder.rules[node].computable(indexes, trial[None])[0][0]:
            others.append(int(dependencies[column]))
    if not others:
        return ""
    if len(others) > 1:
        return f" (or any of {len(others)} others)"
    hidden = nnet.is_component_input(int(builder.node[others[0]]))
    return " (or one other)" if hidden else f" (or {_text(builder, nnet, others[0])})"


# -- summaries ---------------------------------------------------------------------------------------------------------


def _failed_text(builder: GraphBuilder, nnet: Nnet, ids: np.ndarray) -> str:
    """One line on the rows of one output that cannot be computed."""
    indexes = builder.space.indexes(builder.key[ids])
    shapes = distinct(indexes[:, 0])
    sequences = np.concatenate([builder.sequences.members[shape] for shape in shapes.tolist()])
    return (f"'{nnet.node_names[int(builder.node[ids[0]])]}' cannot be computed at t = {times_text(indexes[:, 1])} of "
            f"{_sequences_text(sequences)}")


def _lacks(builder: GraphBuilder, nnet: Nnet, failed: np.ndarray) -> tuple[list[str], list[str]]:
    """Which rows of which inputs are missing: a line for each input, and what to try."""
    ends = np.array(_search(builder, failed)[1], np.int64)
    lines, hints = [], []
    for node in distinct(builder.node[ends]).tolist():
        if not isinstance(nnet.nodes[node], InputNode):
            continue
        name = nnet.node_names[node]
        table = builder.tables[node]
        given = builder.space.indexes(builder.key[table.ids[builder.is_input[table.ids]]])
        missing = builder.space.indexes(builder.key[ends[builder.node[ends] == node]])
        if not len(given):
            lines.append(f"'{name}' is missing at t = {times_text(missing[:, 1])}: it is not in the request")
            hints.append(f"give '{name}' as well")
            continue
        shapes = missing[~np.isin(missing[:, 0], given[:, 0]), 0]
        if len(shapes):
            sequences = [builder.sequences.members[shape] for shape in distinct(shapes).tolist()]
            lines.append(f"'{name}' is not given at all for {_sequences_text(np.concatenate(sequences))}")
            hints.append(f"give '{name}' for every sequence")
        missing = missing[np.isin(missing[:, 0], given[:, 0])]
        if len(missing):
            line, hint = _missing_frames(name, given, missing)
            lines.append(line)
            hints.append(hint)
    return lines, hints


def _missing_frames(name: str, given: np.ndarray, missing: np.ndarray) -> tuple[str, str]:
    """The sequences of one shape have what others lack, so the first shape that lacks something stands for all."""
    shape = missing[0, 0]
    have, lack = (rows[rows[:, 0] == shape, 1] for rows in (given, missing))
    first, last = int(have.min()), int(have.max())
    left, right = first - int(min(lack.min(), first)), int(max(lack.max(), last)) - last
    inside = ((lack > first) & (lack < last)).any()
    wanted = [f"{count} more frame{'s' if count > 1 else ''} on the {side}"
              for count, side in ((left, "left"), (right, "right")) if count]
    hint = f"give {' and '.join(wanted)} of '{name}'" if wanted else f"give '{name}' at these times"
    if inside and wanted:
        hint += ", and those in between"
    return f"'{name}' is given at t = {times_text(have)} and missing at t = {times_text(lack)}", hint


def times_text(times: Iterable[int] | np.ndarray) -> str:
    """Distinct times as ranges with inclusive ends, ``-3:9, 12:30:3``; many ranges are cut in the middle."""
    values = distinct(np.asarray(times, np.int64)).tolist()
    ranges = []
    while values:
        step = values[1] - values[0] if len(values) > 1 else 1
        count = 1
        while count < len(values) and values[count] - values[count - 1] == step:
            count += 1
        if count == 2 and step > 1:
            count = 1
        begin, end = values[0], values[count - 1]
        ranges.append(str(begin) if count == 1 else f"{begin}:{end}" + (f":{step}" if step > 1 else ""))
        values = values[count:]
    if len(ranges) > MAX_RANGES:
        ranges[MAX_RANGES - 1:-1] = ["…"]
    return ", ".join(ranges)


def _sequences_text(sequences: np.ndarray) -> str:
    if len(sequences) == 1:
        return f"sequence n = {sequences[0]}"
    return f"{len(sequences)} sequences, n = {times_text(sequences)}"
