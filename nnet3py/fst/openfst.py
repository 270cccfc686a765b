"""The interface to OpenFst through kaldifst. FSTs are exchanged as files, the fastest way for whole graphs."""
from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.extras import load
from nnet3py.fst.operations import arc_sorted, is_sorted
from nnet3py.io.streams import open_input
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_binary import read_binary_fst, write_binary_fst
from nnet3py.transducers.state_graphs import strong_parts


def load_kaldifst() -> Any:
    """Return the module ``kaldifst``; Nnet3Error, with the way to get it, if it is not installed."""
    return load("kaldifst", "operations on graphs need", "chain")


@contextlib.contextmanager
def _temporary_file() -> Iterator[str]:
    """Yield the name of an empty temporary file, which is removed at the end."""
    import tempfile  # slow to load

    handle, name = tempfile.mkstemp(suffix=".fst")
    os.close(handle)
    try:
        yield name
    finally:
        os.unlink(name)


def to_openfst(fst: Fst) -> Any:
    """Convert a graph to ``kaldifst.StdVectorFst``, a lattice (arc type ``lattice4``) to ``kaldifst.Lattice``.

    Properties are computed, not copied from ``fst.stored``. Raises Nnet3Error if kaldifst is missing, FormatError for
    an FST with states that do not exist, labels below 0 or costs that are NaN.
    """
    kaldifst = load_kaldifst()
    kind = kaldifst.Lattice if fst.arc_type == "lattice4" else kaldifst.StdVectorFst
    if np.isnan(fst.weights).any() or np.isnan(fst.final_weights).any():
        raise FormatError("a graph has a cost that is not a number", hint="the file is damaged")
    least = min(int(fst.input_labels.min(initial=0)), int(fst.output_labels.min(initial=0)))
    if least < 0:                                                    # these would crash OpenFst
        raise FormatError(f"a graph has the label {least}, but labels are 0 or more", hint="the file is damaged")
    with _temporary_file() as name:
        with open(name, "wb") as stream:
            write_binary_fst(TokenWriter(stream, binary=True), dataclasses.replace(fst, stored=None), "vector")
        return kind.read(name)


def from_openfst(fst: Any) -> Fst:
    """Convert a graph or lattice of kaldifst to an Fst."""
    with _temporary_file() as name:
        if not fst.write(name):
            raise Nnet3Error(f"kaldifst could not write a graph to {name}", hint="is there room for temporary files?")
        with open_input(name) as stream:
            fst = read_binary_fst(TokenReader(stream, path=stream.path, size=stream.size))
    return dataclasses.replace(fst, stored=None)


# -- operations --------------------------------------------------------------------------------------------------------

MOST_STATES = 50_000_000                   # of a determinized graph: if there are more, it would never end
DELTA = 1.0 / 1024.0
_AMBIGUOUS = "does the lexicon have disambiguation symbols, and the grammar #0 on its back-off arcs?"


def compose(left: Fst, right: Fst, connect: bool = True) -> Any:
    """Compose two FSTs; return a kaldifst graph. The filter is the one that follows epsilons of ``left`` first.

    OpenFst: Compose; Kaldi: TableCompose.
    """
    kaldifst = load_kaldifst()
    left = left if is_sorted(left, by_output=True) else arc_sorted(left, by_output=True)
    right = right if is_sorted(right) else arc_sorted(right)
    return kaldifst.compose(to_openfst(left), to_openfst(right), connect=connect)


def determinize_star(graph: Any, use_log: bool = False, delta: float = DELTA, max_states: int = -1) -> bool:
    """Remove epsilons and determinize a graph of kaldifst in place; return whether ``max_states`` sufficed.

    Raises Nnet3Error for a graph that cannot be determinized. Kaldi: DeterminizeStarInLog, DeterminizeStar.
    """
    limit = max_states if max_states > 0 else MOST_STATES
    try:
        stopped = load_kaldifst().determinize_star(graph, delta=delta, max_states=limit, use_log=use_log)
    except RuntimeError as error:
        reason = str(error).split("[E]")[-1].strip().split("\n")[0]
        raise Nnet3Error(f"a graph cannot be determinized: {reason}", _AMBIGUOUS) from None
    if stopped and max_states <= 0:
        raise Nnet3Error(f"a graph cannot be determinized: it has more than {limit} states", _AMBIGUOUS)
    return not stopped


def determinize(graph: Any, delta: float = DELTA, kind: str = "functional") -> Any:
    """Return an equivalent deterministic graph of kaldifst; epsilons are treated as labels. OpenFst: Determinize.

    Raises Nnet3Error for a graph that grows without end.
    """
    determinized = load_kaldifst().determinize(graph, delta=delta, det_type=kind, nstate=MOST_STATES)
    if determinized.num_states >= MOST_STATES:
        raise Nnet3Error(f"a graph cannot be determinized: it has more than {MOST_STATES} states")
    return determinized


def shortest_path(fst: Fst, count: int = 1) -> Any:
    """Return the ``count`` cheapest paths as a kaldifst graph. OpenFst: ShortestPath.

    Raises Nnet3Error if there is an arc of negative cost in a cycle, since there may be no cheapest path.
    """
    if (fst.weights < 0.0).any():
        parts = strong_parts(fst.arc_starts, fst.next_states)
        inside = (parts[fst.sources] == parts[fst.next_states]) & (fst.weights < 0.0)
        if inside.any():
            raise Nnet3Error(f"the cycle that state {int(fst.sources[inside.argmax()])} is in has an arc of negative "
                             "cost, so that there may be no cheapest path", "take costs that are 0 or more")
    return load_kaldifst().shortest_path(to_openfst(fst), count)


def minimize_encoded(graph: Any, delta: float = DELTA) -> None:
    """Minimize a kaldifst graph in place, labels and rounded cost of an arc being one symbol. Kaldi: MinimizeEncoded.
    """
    load_kaldifst().minimize_encoded(graph, delta=delta)


def write_openfst(wxfilename: str, graph: Any) -> None:
    """Write a graph of kaldifst to a file."""
    import shutil

    from nnet3py.io.streams import open_output

    with _temporary_file() as name:
        if not graph.write(name):
            raise Nnet3Error(f"kaldifst could not write a graph to {name}", hint="is there room for temporary files?")
        with open(name, "rb") as source, open_output(wxfilename) as stream:
            shutil.copyfileobj(source, stream, 1 << 20)
