"""nnet3-latgen-faster-looped and its sister: what nnet3-latgen-faster finds, computed as a stream."""
from __future__ import annotations

import numpy as np
import pytest
from test_cli_decoding import COST, DECODE, SAID, folder, read_table, write_table

from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.cli.decoding.latgen import latgen_faster
from nnet3py.cli.decoding.looped import latgen_faster_looped, latgen_faster_looped_parallel
from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR
from nnet3py.network.nnet import Nnet
from nnet3py.transducers.lattice import LATTICES

__all__ = ["folder"]      # the fixture

# Context on both sides, and a recurrence that nnet3-latgen-faster, too, computes in one chunk: utterances are short.
CONTEXT = """
input-node name=input dim=4
component name=s type=LogSoftmaxComponent dim=4
component-node name=s component=s input=Sum(input, Offset(input, -1), Offset(input, 1), \
IfDefined(Scale(0.2, Offset(s, -3))))
output-node name=output input=s
"""
WITH_IVECTOR = """
input-node name=input dim=4
input-node name=ivector dim=4
component name=s type=LogSoftmaxComponent dim=4
component-node name=s component=s input=Sum(input, ReplaceIndex(ivector, t, 0))
output-node name=output input=s
"""
PLACES = ["final.mdl", "graph/HCLG.fst", "ark:feats.ark"]


def use_network(config: str) -> None:
    """Give the model another network."""
    model = read_model("final.mdl")
    AcousticModel(model.transition_model, Nnet.from_config(config), model.priors).write("final.mdl")

RAW = "--determinize-lattice=false"      # rounding decides between alignments of a word that are equally good


def decode(command, *options: str, status: int = 0, outputs: str = "1") -> None:
    assert command.execute([*DECODE, *options, *PLACES, f"ark:lat{outputs}", f"ark,t:words{outputs}"]) == status


def assert_same_lattices(first: str, second: str) -> None:
    found, expected = read_table(f"ark:lat{first}", LATTICES), read_table(f"ark:lat{second}", LATTICES)
    assert list(found) == list(expected) == list(SAID)
    for key, lattice in expected.items():
        np.testing.assert_array_equal(found[key].input_labels, lattice.input_labels)
        np.testing.assert_allclose(found[key].weights, lattice.weights, atol=COST)


@pytest.mark.parametrize("factor", [1, 3])
def test_same_as_chunks_of_utterances(folder, capfd, factor):
    use_network(CONTEXT)
    subsampling = f"--frame-subsampling-factor={factor}"
    decode(latgen_faster, subsampling, RAW, outputs="1")
    expected = (folder / "words1").read_text()
    assert len(expected.splitlines()) == len(SAID)
    for frames in (1, 5, 20):
        capfd.readouterr()
        decode(latgen_faster_looped, subsampling, RAW, f"--frames-per-chunk={frames}", outputs="2")
        log = capfd.readouterr().err
        assert "Done 3 utterances, failed for 0" in log and "Overall log-likelihood per frame is" in log
        assert (folder / "words2").read_text() == expected
        assert_same_lattices("2", "1")


def test_right_words_with_threads_and_longer_beginning(folder, capfd):
    decode(latgen_faster_looped_parallel, "--num-threads=2", "--extra-left-context-initial=4", "--max-batch-size=4",
           "--minimize=true", "--word-determinize=false", "--word-symbol-table=graph/words.txt")
    log = capfd.readouterr().err
    for key, words in SAID.items():
        assert f"\n{key} {words}\n" in log


@pytest.mark.parametrize("command", [latgen_faster, latgen_faster_looped])
def test_commands_of_the_computation_are_logged_on_request(folder, capfd, command):
    lengths = []
    for value in ("false", "true"):
        capfd.readouterr()
        decode(command, f"--debug-computation={value}")
        lengths.append(len(capfd.readouterr().err.splitlines()))
    assert lengths[1] > lengths[0]


def test_the_computation_is_kept(folder, monkeypatch):
    decode(latgen_faster_looped, "--compiler.cache-dir=kept", outputs="1")
    assert len(list((folder / "kept").iterdir())) == 1
    monkeypatch.setattr("nnet3py.compiler.looped._compile", None)
    decode(latgen_faster_looped, "--compiler.cache-dir=kept", outputs="2")
    assert_same_lattices("2", "1")


def test_ivectors(folder, capfd):
    decode(latgen_faster_looped, RAW, outputs="1")
    use_network(WITH_IVECTOR)
    shift = np.array([5.0, 0.0, -3.0, 1.0], dtype=np.float32)
    feats = read_table("ark:feats.ark", FLOAT_MATRIX)
    write_table("ark:feats.ark", FLOAT_MATRIX, {key: matrix + shift for key, matrix in feats.items()})
    write_table("ark:iv.ark", FLOAT_VECTOR, dict.fromkeys(feats, -shift))
    write_table("ark:online.ark", FLOAT_MATRIX, {key: np.tile(-shift, (2, 1)) for key in ("u1", "u3")})
    decode(latgen_faster_looped, RAW, "--ivectors=ark:iv.ark", outputs="2")
    assert_same_lattices("2", "1")
    expected = dict(line.split(maxsplit=1) for line in (folder / "words1").read_text().splitlines())
    capfd.readouterr()
    decode(latgen_faster_looped, "--online-ivectors=ark:online.ark", "--online-ivector-period=10", outputs="3")
    log = capfd.readouterr().err
    assert "No online iVector available for utterance u2" in log and "Done 2 utterances, failed for 1" in log
    found = dict(line.split(maxsplit=1) for line in (folder / "words3").read_text().splitlines())
    assert found == {key: expected[key] for key in ("u1", "u3")}


def test_faults_of_single_utterances(folder, capfd):
    feats = read_table("ark:feats.ark", FLOAT_MATRIX)
    bad = feats["u2"].copy()
    bad[3, 1] = np.nan
    write_table("ark:feats.ark", FLOAT_MATRIX, {"bad": bad, "empty": bad[:0], "u1": feats["u1"]})
    decode(latgen_faster_looped)
    log = capfd.readouterr().err
    assert "Zero-length utterance: empty" in log and "utterance bad" in log
    assert "Done 1 utterances, failed for 2" in log
    write_table("ark:feats.ark", FLOAT_MATRIX, {"bad": bad})
    decode(latgen_faster_looped, status=1)


@pytest.mark.parametrize(("options", "message"), [
    (["--acoustic-scale=0"], "--acoustic-scale=0: expected above 0"), (["--beam=0"], "--beam"),
    (["--online-ivectors=ark:feats.ark"], "--online-ivector-period"),
    (["--ivectors=ark:feats.ark", "--online-ivectors=ark:feats.ark"], "cannot both"),
    (["--extra-right-context=3"], "extra-right-context")])
def test_options_that_cannot_be(folder, capfd, options, message):
    capfd.readouterr()
    decode(latgen_faster_looped, *options, status=255)
    error = capfd.readouterr().err
    assert message in error and "Traceback" not in error
    assert not (folder / "lat1").exists() and not (folder / "words1").exists()
