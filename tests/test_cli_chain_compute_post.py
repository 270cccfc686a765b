"""nnet3-chain-compute-post: posteriors are the derivatives of the denominator's log-probability."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chain_graphs import three_phones
from graph_sums import denominator_log_prob
from io_samples import read_table

from nnet3py.cli.main import load
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.formats.matrices import write_matrix
from nnet3py.io.object_files import write_object
from nnet3py.io.tables import write_table
from nnet3py.network.nnet import Nnet
from nnet3py.transducers.fst_text import write_fst_file

FATAL = 255
CONFIG = """input-node name=input dim=4
component name=a type=AffineComponent input-dim=4 output-dim=6 param-stddev=1.0 bias-stddev=1.0
component-node name=a component=a input=input
output-node name=output input=a
"""
STEP = 1e-4           # of the numerical derivative
TOLERANCE = 1e-5      # outputs and posteriors are float32


@pytest.fixture(autouse=True)
def folder(here: Path) -> None:
    Nnet.from_config(CONFIG, seed=1).write("raw")
    write_fst_file("den.fst", three_phones())
    rng = np.random.default_rng(0)
    write_table("ark:feats", FLOAT_MATRIX, {
        "u1": rng.normal(size=(7, 4)).astype(np.float32), "empty": np.zeros((0, 0), dtype=np.float32),
        "u2": rng.normal(size=(12, 4)).astype(np.float32)})


def run(name: str, *words: str) -> int:
    return load(name).execute([*words])


def matrices(name: str) -> dict[str, np.ndarray]:
    return read_table(f"ark:{name}", FLOAT_MATRIX)


def test_posteriors_are_derivatives(capsys):
    assert run("nnet3-chain-compute-post", "raw", "den.fst", "ark:feats", "ark:post") == 0
    assert "Done 2 utterances, failed for 1" in capsys.readouterr().err
    assert run("nnet3-compute", "raw", "ark:feats", "ark:out") == 0
    posteriors, outputs = matrices("post"), matrices("out")
    assert list(posteriors) == ["u1", "u2"]
    output = outputs["u1"].astype(np.float64)
    expected = np.empty_like(output)
    for place in np.ndindex(*output.shape):
        moved = [output.copy() for _ in range(2)]
        for one, step in zip(moved, (STEP, -STEP), strict=True):
            one[place] += step
        expected[place] = (denominator_log_prob(three_phones(), moved[0], 0.1)
                           - denominator_log_prob(three_phones(), moved[1], 0.1)) / (2 * STEP)
    np.testing.assert_allclose(posteriors["u1"], expected, atol=TOLERANCE)
    np.testing.assert_allclose(posteriors["u2"].sum(axis=1), 1.0, atol=TOLERANCE)


def test_posteriors_of_phones():
    transform = np.kron(np.eye(3), np.ones((1, 2))).astype(np.float32)
    write_object("mat", lambda writer: write_matrix(writer, transform))
    assert run("nnet3-chain-compute-post", "raw", "den.fst", "ark:feats", "ark:pdfs") == 0
    assert run("nnet3-chain-compute-post", "--transform-mat=mat", "raw", "den.fst", "ark:feats", "ark:phones") == 0
    pdfs, phones = matrices("pdfs")["u1"], matrices("phones")["u1"]
    np.testing.assert_allclose(phones, pdfs[:, ::2] + pdfs[:, 1::2], atol=TOLERANCE)


@pytest.mark.parametrize("words, complaint", [
    (["--transform-mat=mat"], "has 5 columns, but the network's output has the dimension 6"),
    (["--leaky-hmm-coefficient=0"], "--leaky-hmm-coefficient=0: expected above 0"),
])
def test_bad_options(words, complaint, capsys):
    write_object("mat", lambda writer: write_matrix(writer, np.zeros((2, 5), dtype=np.float32)))
    assert run("nnet3-chain-compute-post", *words, "raw", "den.fst", "ark:feats", "ark:post") == FATAL
    assert complaint in capsys.readouterr().err
    assert not Path("post").exists()


def test_graph_of_other_pdfs(capsys):
    fst = three_phones()
    fst.input_labels[:] += 1
    write_fst_file("den.fst", fst)
    assert run("nnet3-chain-compute-post", "raw", "den.fst", "ark:feats", "ark:post") == FATAL
    assert "the network's output has the dimension 6" in capsys.readouterr().err
    assert not Path("post").exists()
