"""The door to OpenFst: graphs go to kaldifst and come back through OpenFst's files.

kaldifst hands out states and arcs one Python object at a time; whole graphs pass quickest as files of its format.
"""
from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from nnet3py.errors import Nnet3Error
from nnet3py.extras import install_command
from nnet3py.io.fst import Fst, read_binary_fst, write_binary_fst
from nnet3py.io.object_files import token_reader
from nnet3py.io.streams import open_input
from nnet3py.io.tokens import TokenWriter


def load_kaldifst() -> Any:
    """The module ``kaldifst``; Nnet3Error that says how to get it if it is not installed."""
    try:
        import kaldifst
    except ImportError as error:
        raise Nnet3Error(f"operations on graphs need the package kaldifst: {error}",
                         hint=install_command("chain")) from None
    return kaldifst


@contextlib.contextmanager
def _temporary_file() -> Iterator[str]:
    """The name of an empty file of our own, which is removed in the end."""
    import tempfile  # slow to load

    handle, name = tempfile.mkstemp(suffix=".fst")
    os.close(handle)
    try:
        yield name
    finally:
        os.unlink(name)


def to_openfst(fst: Fst) -> Any:
    """A graph as ``kaldifst.StdVectorFst``, a lattice (arc type ``lattice4``) as ``kaldifst.Lattice``.

    What the graph's own file said of its properties is not trusted but found out. Raises Nnet3Error if kaldifst is
    missing, FormatError for a graph with states that do not exist.
    """
    kaldifst = load_kaldifst()
    kind = kaldifst.Lattice if fst.arc_type == "lattice4" else kaldifst.StdVectorFst
    with _temporary_file() as name:
        with open(name, "wb") as stream:
            write_binary_fst(TokenWriter(stream, binary=True), dataclasses.replace(fst, stored=None), "vector")
        return kind.read(name)


def from_openfst(fst: Any) -> Fst:
    """A graph or lattice of kaldifst as an Fst."""
    with _temporary_file() as name:
        if not fst.write(name):
            raise Nnet3Error(f"kaldifst could not write a graph to {name}", hint="is there room for temporary files?")
        with open_input(name) as stream:
            return dataclasses.replace(read_binary_fst(token_reader(stream)), stored=None)
