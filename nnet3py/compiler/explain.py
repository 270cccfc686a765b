"""The error for an output that cannot be computed: the path from it to a missing input row, and the frames to add.

The error holds the shortest path and the rows that each input lacks; the log has Kaldi's lines as well.
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
MAX_OUTPUTS = 10        # output rows that the log explains
MAX_LINES = 100         # of the log for each of these rows
MAX_SUMMARY = 4         # outputs, and inputs, that the error names
MAX_RANGES = 4          # ranges of times in a list
PATH_BEGIN, PATH_END = 4, 4     # nodes of a long path that are shown


def not_computable(builder: GraphBuilder, nnet: Nnet, request: ComputationRequest) -> NotComputableError:
    """Log which outputs cannot be computed and why, in Kaldi's words, and return the error to raise."""
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
    chains = [_shortest_path(builder, int(ids[0])) for ids in failed[:MAX_SUMMARY]]
    lines = [_path_text(builder, nnet, chain) for chain in chains]
    lines += [_failed_text(builder, nnet, ids) for ids in failed[:MAX_SUMMARY]]
    lacks, hints = _missing_inputs(builder, nnet, every)
    hints += _endless_recurrence(builder, nnet, chains)
    return NotComputableError(
        f"Not all outputs were computable, cannot create computation. {num_failed} output cindexes out of {total} were "
        "not computable.\n" + ".\n".join(lines + lacks[:MAX_SUMMARY]),
        "; ".join(hints[:MAX_SUMMARY]) or "compare the inputs' times with the network's left and right context")


def explain(builder: GraphBuilder, cindex: int, names: list[str]) -> list[str]:
    """Return Kaldi's lines of explanation: the dependencies that cannot be computed, breadth first from ``cindex``."""
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
    """Return n, t and x of a cindex; n is the first sequence of its shape."""
    shape, t, x = builder.space.indexes(builder.key[cindex:cindex + 1])[0].tolist()
    return int(builder.sequences.members[shape][0]), t, x


# -- the search for missing rows ---------------------------------------------------------------------------------------


def lacking(builder: GraphBuilder, node: int, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the dependencies of cindexes of one node, int64 (rows, columns), and which of them are lacking, bool.

    A row lacks a smallest set of dependencies: with all of them it could be computed, with fewer it could not. Optional
    terms (IfDefined) are not in the set; of alternatives (Failover) the first is.
    """
    dependencies = builder.tables[node].dependencies[builder.row[ids]]
    real = dependencies >= 0
    # A cindex has status "not computable" if it could not be computed even with all undecided dependencies.
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


def _search_missing(builder: GraphBuilder, start: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Search breadth first from ``start`` to all dependencies that cannot be computed.

    Returns
    -------
    parent : int64, for each cindex the cindex from which it was reached; -1 if it was not
    ends : cindexes that lack no dependency of their own, such as rows of an input that are not given
    """
    parent = np.full(builder.size, -1)
    parent[start] = start
    ends: list[int] = []
    while len(start):
        lacking_cindexes = []
        for node in distinct(builder.node[start]).tolist():
            ids = start[builder.node[start] == node]
            dependencies, lacks = lacking(builder, node, ids)
            ends += ids[~lacks.any(axis=1)].tolist()
            users = np.broadcast_to(ids[:, None], lacks.shape)[lacks]
            wanted = dependencies[lacks]
            new = parent[wanted] < 0
            parent[wanted[new][::-1]] = users[new][::-1]       # of several users, the first stays
            lacking_cindexes.append(wanted[new])
        start = distinct(np.concatenate(lacking_cindexes))
    return parent, ends


def _shortest_path(builder: GraphBuilder, cindex: int) -> list[int]:
    """Return a shortest path of dependencies from a cindex to one that is missing, as cindexes."""
    parent, ends = _search_missing(builder, np.array([cindex]))
    chain = ends[:1]
    while chain and chain[-1] != cindex:
        chain.append(int(parent[chain[-1]]))
    return chain[::-1] or [cindex]


def _path_text(builder: GraphBuilder, nnet: Nnet, chain: list[int]) -> str:
    """Return a path, without inputs of components, as text: ``output(0,5) needs input(0,11): not given``."""
    texts, others = [_cindex_text(builder, nnet, chain[0])], ""
    for user, used in zip(chain[:-1], chain[1:], strict=True):
        others = others or _alternatives(builder, nnet, user, used)
        if not nnet.is_component_input(int(builder.node[used])):
            texts.append(_cindex_text(builder, nnet, used) + others)
            others = ""
    if len(texts) > PATH_BEGIN + PATH_END + 1:
        left_out = len(texts) - PATH_BEGIN - PATH_END
        texts[PATH_BEGIN:-PATH_END] = [f"… ({left_out} more) …"]
    is_input = isinstance(nnet.nodes[int(builder.node[chain[-1]])], InputNode)
    return " needs ".join(texts) + (": not given" if is_input else ": there is nothing to compute it from")


def _endless_recurrence(builder: GraphBuilder, nnet: Nnet, chains: list[list[int]]) -> list[str]:
    """Return a hint, or nothing, on a recurrence without a beginning: a path that goes through a node several times."""
    for chain in chains:
        nodes = [int(node) for node in builder.node[chain] if nnet.is_component(int(node))]
        for node in nodes:
            if nodes.count(node) > 1:
                return [f"'{nnet.node_names[node]}' needs itself at other times without end: write IfDefined(…) around "
                        "the recurrence, so that it can begin"]
    return []


def _cindex_text(builder: GraphBuilder, nnet: Nnet, cindex: int) -> str:
    return format_cindex(nnet.node_names[int(builder.node[cindex])], _index(builder, cindex))


def _alternatives(builder: GraphBuilder, nnet: Nnet, user: int, used: int) -> str:
    """Return the alternatives to ``used`` from which ``user`` could be computed, as text: `` (or b(0,3))``."""
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
    return " (or one other)" if hidden else f" (or {_cindex_text(builder, nnet, others[0])})"


# -- summaries ---------------------------------------------------------------------------------------------------------


def _failed_text(builder: GraphBuilder, nnet: Nnet, ids: np.ndarray) -> str:
    """Return one line on the rows of one output that cannot be computed."""
    indexes = builder.space.indexes(builder.key[ids])
    shapes = distinct(indexes[:, 0])
    sequences = np.concatenate([builder.sequences.members[shape] for shape in shapes.tolist()])
    return (f"'{nnet.node_names[int(builder.node[ids[0]])]}' cannot be computed at t = {times_text(indexes[:, 1])} of "
            f"{_sequences_text(sequences)}")


def _missing_inputs(builder: GraphBuilder, nnet: Nnet, failed: np.ndarray) -> tuple[list[str], list[str]]:
    """Return a line for each input with missing rows, and hints on the frames to add."""
    ends = np.array(_search_missing(builder, failed)[1], np.int64)
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
    """Return a line and a hint on the frames that an input lacks.

    Only the first shape of sequences that lacks frames is described.
    """
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
    """Format times as ranges with inclusive ends, ``-3:9, 12:30:3``; a long list is shortened in the middle."""
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
