"""Graphs for decoding: read or mapped they are the same; damaged ones are refused with what is wrong."""
from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import numpy as np
import pytest
from decoding_cases import DATA, MODEL, count_refused

from nnet3py.decoding.decoding_graph import DecodingGraph
from nnet3py.decoding.graph import read_fst_file
from nnet3py.decoding.lattice_decoder import LatticeDecoder
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.io.streams import open_output
from nnet3py.io.tokens import TokenWriter
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_binary import const_tables, write_binary_fst

HEAD = 65                      # bytes before the tables of states
MUTATIONS = 150


@pytest.fixture(scope="module")
def fst() -> Fst:
    return read_fst_file(DATA / "HCLG.fst")


def tables(graph: DecodingGraph) -> list[list[int]]:
    return [table.ravel().tolist() for table in graph._tables]


def aligned(path: Path) -> Path:
    """The const file with its tables at multiples of 16 bytes."""
    content = (DATA / "HCLG.fst").read_bytes()
    states = struct.unpack_from("<q", content, HEAD - 16)[0] * 20
    head = bytearray(content[:HEAD])
    head[29:33] = struct.pack("<i", 4)                           # flags: aligned
    parts = [bytes(head), content[HEAD:HEAD + states], content[HEAD + states:]]
    written = b""
    for part in parts:
        written += b"\0" * (-len(written) % 16) + part
    path.write_bytes(written)
    return path


def test_const_vector_text_and_aligned_files(tmp_path, fst):
    expected = DecodingGraph.of_fst(fst, MODEL)
    mapped = DecodingGraph.read(DATA / "HCLG.fst", MODEL)
    assert tables(mapped) == tables(expected) and mapped.start == expected.start == fst.start
    with open_output(tmp_path / "vector.fst") as stream:
        write_binary_fst(TokenWriter(stream, binary=True), fst, "vector")
    assert tables(DecodingGraph.read(tmp_path / "vector.fst", MODEL)) == tables(expected)
    assert tables(DecodingGraph.read(f"cat {DATA / 'HCLG.fst'} |", MODEL)) == tables(expected)
    with pytest.raises(Nnet3Error, match="status 3"):
        DecodingGraph.read(f"cat {DATA / 'HCLG.fst'}; exit 3 |", MODEL)
    assert tables(DecodingGraph.read(aligned(tmp_path / "aligned.fst"), MODEL)) == tables(expected)
    np.testing.assert_array_equal(mapped.final_costs, fst.final_weights)


def changed(fst: Fst, name: str, place: int, value: float) -> Fst:
    values = getattr(fst, name).copy()
    values[place] = value
    return dataclasses.replace(fst, **{name: values}, stored=None)


@pytest.mark.parametrize(("name", "value", "message"), [
    ("input_labels", 9999, "has the input label 9999, but the model's transition-ids are 1 to 60"),
    ("input_labels", -1, "input label -1"), ("output_labels", -5, "output label -5"),
    ("weights", np.nan, "a cost that is not a number"), ("weights", -np.inf, "a cost that is not a number"),
    ("next_states", 76, "leads to state 76, but there are 76"), ("next_states", -1, "leads to state -1")])
def test_what_is_refused(fst, name, value, message):
    with pytest.raises(ShapeError, match=message):
        DecodingGraph.of_fst(changed(fst, name, 100, value), MODEL)


def test_final_costs_that_are_none(fst):
    with pytest.raises(ShapeError, match="not a number"):
        DecodingGraph.of_fst(changed(fst, "final_weights", 3, np.nan), MODEL)


def test_tables_that_do_not_fit(fst):
    states, arcs = (np.frombuffer(table, dtype=np.int32).reshape(-1, width).copy()
                    for table, width in zip(const_tables(fst), (5, 4), strict=True))
    pdfs, columns = MODEL.transition_id_to_pdf, MODEL.num_pdfs
    for column, message in ((1, "arcs from arc"), (2, "arcs from arc"), (3, "arcs without input labels")):
        broken = states.copy()
        broken[5, column] += 1000
        with pytest.raises(ShapeError, match=message):
            DecodingGraph(fst.start, broken, arcs, pdfs, columns)
    for start in (-1, len(states)):
        with pytest.raises(ShapeError, match="needs states and arcs"):
            DecodingGraph(start, states, arcs, pdfs, columns)


def test_damaged_files(tmp_path):
    """Nothing but one error, or a graph that can be searched."""
    path = tmp_path / "HCLG.fst"
    likes = np.zeros((3, MODEL.num_pdfs), dtype=np.float32)
    assert count_refused((DATA / "HCLG.fst").read_bytes(), path, lambda: LatticeDecoder(
        DecodingGraph.read(path, MODEL)).advance(likes), MUTATIONS) > MUTATIONS // 2
