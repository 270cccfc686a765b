"""chain-get-supervision, nnet3-chain-get-egs, -e2e-get-egs and -normalize-egs."""
from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from chain_graphs import acceptor, three_phones
from graph_systems import SYSTEMS
from io_samples import damaged
from paths import DATA, ROOT
from test_chain_normalization import check_same, fst_of
from test_chain_supervision import training_graph

from nnet3py.chain.normalization import normalization_fst
from nnet3py.cli.main import load
from nnet3py.egs.chain_example import SUPERVISION, NnetChainExample, read_chain_egs, read_supervisions
from nnet3py.formats.general import to_dense
from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR
from nnet3py.io.object_files import write_object
from nnet3py.io.tables import TableWriter, write_table
from nnet3py.transducers.fst_text import FST, write_fst

CHAIN = DATA / "chain"
SUP, NORM = f"ark:{CHAIN / 'sup.ark'}", str(CHAIN / "normalization.fst")
CUT = ["--num-frames=60,45,30", "--frame-subsampling-factor=3", "--left-context=6", "--right-context=6"]
FEATURES = f"ark:{ROOT / 'egs' / 'digits' / 'data' / 'train' / 'feats.ark'}"
LATTICE = (b"u \n0 1 1 0.5,10,1_2_2_2_2_2\n1 2 2 1,4,3_4_4_4_4_4_4_4_4\n2 3 3 3,4,5_6_6_6\n"
           b"3 4 1 0.25,3,1_2_2_2_2_2_2_2\n4 0,0,\n\n")
LENGTHS = "u 1 6 ; 2 9 ; 3 4 ; 1 8"       # the worked example: 27 frames

Errors = Callable[[], str]


def run(name: str, *words: str) -> int:
    return load(name).execute(list(words))


def egs(table: str) -> dict[str, NnetChainExample]:
    return dict(read_chain_egs(table))


@pytest.fixture(autouse=True)
def folder(here: Path) -> Path:
    """A folder with the three-phone system, its normalization FST, and features of one utterance."""
    tree, model = SYSTEMS["chain"]()
    write_object("tree", tree.write, True)
    write_object("0.trans_mdl", model.write, True)
    write_object("norm.fst", lambda writer: write_fst(writer, normalization_fst(three_phones())), True)
    Path("len").write_text(LENGTHS + "\n")
    write_table("ark:feats", FLOAT_MATRIX, {"u": np.arange(27 * 2, dtype=np.float32).reshape(27, 2)})
    return here


@pytest.fixture
def errors(capfd: pytest.CaptureFixture[str]) -> Errors:
    return lambda: capfd.readouterr().err


def supervise(*options: str, lengths: str = "ark:len", out: str = "ark:sup") -> int:
    return run("chain-get-supervision", "--frame-subsampling-factor=3", *options, "tree", "0.trans_mdl", lengths, out)


# -- supervision -------------------------------------------------------------------------------------------------------


def test_supervision_in_kaldis_bytes(folder: Path, errors: Errors) -> None:
    files = [str(CHAIN / "tree"), str(CHAIN / "0.trans_mdl"), f"ark:{CHAIN / 'phones.len'}"]
    assert run("chain-get-supervision", "--frame-subsampling-factor=3", *files, "ark:out") == 0
    assert (folder / "out").read_bytes() == (CHAIN / "sup.ark").read_bytes()
    assert "Generated chain supervision information for 10 utterances, errors on 0" in errors()
    assert run("chain-get-supervision", "--frame-subsampling-factor=3", *files, "ark,t:text") == 0
    for key, one in read_supervisions("ark:text"):
        check_same(fst_of(one), fst_of(dict(read_supervisions(SUP))[key]))


def test_utterances_that_cannot_be_supervised_are_counted(folder: Path, errors: Errors) -> None:
    (folder / "len").write_text(f"a 1 1 ; 2 1 ; 3 1\n{LENGTHS}\n")
    assert supervise() == 1                               # not more than half
    err = errors()
    assert "utterance a: Supervision FST is empty (too many phones for too few frames?)" in err
    assert "for 1 utterances, errors on 1" in err and [key for key, _ in read_supervisions("ark:sup")] == ["u"]
    (folder / "len").write_text(f"a 1 1 ; 2 1 ; 3 1\n{LENGTHS}\nv 1 9\n")
    assert supervise() == 0
    (folder / "len").write_text("u 7 9\n")
    assert supervise(out="ark:other") == 255
    assert "utterance u: phone 7 of the graph is not in the model's topology" in errors()
    assert not (folder / "other").exists()
    assert supervise("--left-tolerance=0", "--right-tolerance=1") == 255
    assert "--frame-subsampling-factor=3 must be at most 2" in errors()


def test_supervision_of_lattices(folder: Path, errors: Errors) -> None:
    (folder / "lat").write_bytes(LATTICE + b"v \n0 1 0 0,0,1_2\n1 0,0,\n\n")
    assert supervise("--lattice-input=true", lengths="ark:lat", out="ark:sup2") == 1
    assert "utterance v: the lattice has an arc without a phone" in errors()
    assert supervise() == 0
    from_lattice, from_phones = dict(read_supervisions("ark:sup2")), dict(read_supervisions("ark:sup"))
    assert from_lattice.keys() == {"u"}
    check_same(fst_of(from_lattice["u"]), fst_of(from_phones["u"]))
    assert supervise("--lattice-input=true", "--lm-scale=1.5", lengths="ark:lat") == 255


# -- examples ----------------------------------------------------------------------------------------------------------


def test_kaldis_examples(errors: Errors) -> None:
    assert run("nnet3-chain-get-egs", *CUT, NORM, FEATURES, SUP, "ark:out") == 0
    err = errors()
    assert "No pdf-level posterior for key en-029-belinda-01" in err
    assert "470 utterances had errors and could not be processed." in err
    assert "Split 10 utts, with total length" in err
    made, wanted = egs("ark:out"), egs(f"ark:{CHAIN / 'cegs.ark'}")
    count = 0
    for key in made.keys() & wanted.keys():              # where Kaldi drew the same pieces
        ours, theirs = made[key], wanted[key]
        if len(ours.outputs[0].indexes) == len(theirs.outputs[0].indexes):
            count += 1
            assert ours.structure() == theirs.structure()
            assert np.array_equal(to_dense(ours.inputs[0].features), to_dense(theirs.inputs[0].features))
            assert np.array_equal(ours.outputs[0].deriv_weights, theirs.outputs[0].deriv_weights)
            check_same(fst_of(ours.outputs[0].supervision), fst_of(theirs.outputs[0].supervision))
    assert count >= 5


def test_normalizing_later_is_the_same(folder: Path, errors: Errors) -> None:
    assert run("nnet3-chain-get-egs", *CUT, NORM, FEATURES, SUP, "ark:once") == 0
    assert run("nnet3-chain-get-egs", *CUT, FEATURES, SUP, "ark:raw") == 0
    errors()
    assert run("nnet3-chain-normalize-egs", NORM, "ark:raw", "ark:twice") == 0
    assert f"Added normalization to {len(egs('ark:raw'))} egs; had errors on 0" in errors()
    assert (folder / "once").read_bytes() == (folder / "twice").read_bytes()


def test_the_worked_example(errors: Errors) -> None:
    assert supervise("--left-tolerance=1", "--right-tolerance=2") == 0
    cut = ["--num-frames=15", "--frame-subsampling-factor=3", "--left-context=2", "--right-context=1"]
    assert run("nnet3-chain-get-egs", *cut, "--compress=false", "norm.fst", "ark:feats", "ark:sup", "ark:out") == 0
    found = egs("ark:out")
    assert {key: one.outputs[0].deriv_weights.tolist() for key, one in found.items()} == {
        "u-0": [1, 1, 1, 1, 0.5], "u-12": [0.5, 1, 1, 1, 1]}
    one = found["u-12"]
    assert one.inputs[0].indexes[:, 1].tolist() == list(range(-2, 16))
    assert (to_dense(one.inputs[0].features)[:, 0] / 2).tolist() == [*range(10, 27), 26]
    assert one.outputs[0].indexes[:, 1].tolist() == [0, 3, 6, 9, 12]
    assert to_dense(found["u-0"].inputs[0].features)[:3, 0].tolist() == [0, 0, 0]
    check_same(fst_of(found["u-0"].outputs[0].supervision), acceptor(7, 0, [
        (0, 1, 1, 7.662611), (1, 2, 2, 0.0), (2, 2, 3, 0.0), (2, 3, 4, 0.0), (3, 3, 5, 0.0), (4, 4, 5, 0.0),
        (5, 4, 6, 0.0)], {6: 0.0}))
    assert run("nnet3-chain-get-egs", *cut, "--long-key=true", "norm.fst", "ark:feats", "ark:sup", "ark:out") == 0
    assert set(egs("ark:out")) == {"u-0-2-15-1-v1", "u-12-2-15-1-v1"}


def test_frames_are_weighted_once_over_all_pieces() -> None:
    """What is in several pieces counts in each in part; with given weights, those remain."""
    assert run("nnet3-chain-get-egs", *CUT, "--num-frames-overlap=9", NORM, FEATURES, SUP, "ark:out") == 0
    sums = {key: np.zeros(one.frames_per_sequence) for key, one in read_supervisions(SUP)}
    for key, example in egs("ark:out").items():
        utterance, _, first = key.rpartition("-")
        weights = example.outputs[0].deriv_weights
        sums[utterance][int(first) // 3:][:len(weights)] += weights
    every = np.concatenate(list(sums.values()))
    assert set(np.round(every, 5)) <= {0.0, 1.0} and every.mean() > 0.9


def test_given_weights_and_ivectors(errors: Errors) -> None:
    assert supervise() == 0
    write_table("ark:w", FLOAT_VECTOR, {"u": np.linspace(0.0, 1.0, 8).astype(np.float32)})
    write_table("ark:iv", FLOAT_MATRIX, {"u": np.arange(9, dtype=np.float32).reshape(3, 3)})
    cut = ["--num-frames=15", "--frame-subsampling-factor=3"]
    rest = ["norm.fst", "ark:feats", "ark:sup", "ark:out"]
    more = ["--deriv-weights-rspecifier=ark:w", "--online-ivectors=ark:iv", "--online-ivector-period=10"]
    assert run("nnet3-chain-get-egs", *cut, *more, *rest) == 0
    last = egs("ark:out")["u-12"]
    given = np.append(np.linspace(0.0, 1.0, 8), 0.0)[4:]
    assert last.outputs[0].deriv_weights == pytest.approx(given * [0.5, 1, 1, 1, 1])
    assert [one.name for one in last.inputs] == ["input", "ivector"] and last.inputs[1].features.shape == (1, 3)
    errors()
    for wrong, message in (
            (["--online-ivectors=ark:iv", "--length-tolerance=10"], "exceeds tolerance 10"),
            (["--deriv-weights-rspecifier=ark:w", "--supervision-length-tolerance=0"],
             "mismatch between deriv weights 8 and supervision 9"),
            (["--online-ivectors=ark:none"], "No iVectors for utterance u"),
            (["--deriv-weights-rspecifier=ark:none"], "No deriv weights for utterance u")):
        Path("none").touch()
        assert run("nnet3-chain-get-egs", *cut, *wrong, *rest) == 1
        err = errors()
        assert message in err and "1 utterances had errors" in err


def test_supervision_of_another_rate_is_skipped(errors: Errors) -> None:
    assert supervise() == 0
    rest = ["norm.fst", "ark:feats", "ark:sup", "ark:out"]
    assert run("nnet3-chain-get-egs", "--num-frames=15", *rest) == 1
    assert "Supervision does not have expected length for utterance u: expected length = 27, got 9" in errors()
    assert run("nnet3-chain-get-egs", "--num-frames=14", "--frame-subsampling-factor=2", *rest) == 1
    assert "expected length = (27 + 2 - 1) / 2 = 14, got: 9 (note: --frame-subsampling-factor=2)" in errors()
    assert run("nnet3-chain-get-egs", "--num-frames=90", "--frame-subsampling-factor=3", *rest) == 1
    assert "Not producing egs for utterance u because it is too short: 27 frames." in errors()
    assert run("nnet3-chain-get-egs", "--num-frames=3", "--frame-subsampling-factor=3", *rest) == 255
    assert "chain examples need two or more" in errors()


def test_a_piece_without_a_path_is_written_as_it_is(folder: Path, errors: Errors) -> None:
    """By nnet3-chain-get-egs; nnet3-chain-normalize-egs leaves it out."""
    assert supervise() == 0
    write_object("other.fst", lambda writer: write_fst(writer, acceptor(1, 0, [(0, 1, 0, 0.5)], {0: 0.0})), True)
    cut = ["--num-frames=15", "--frame-subsampling-factor=3"]
    assert run("nnet3-chain-get-egs", *cut, "other.fst", "ark:feats", "ark:sup", "ark:out") == 0
    assert ("For utterance u, feature frames 0 to 15, FST was empty after composing with normalization FST"
            in errors())
    assert run("nnet3-chain-get-egs", *cut, "ark:feats", "ark:sup", "ark:raw") == 0
    assert (folder / "out").read_bytes() == (folder / "raw").read_bytes()
    assert run("nnet3-chain-normalize-egs", "other.fst", "ark:raw", "ark:none") == 1
    err = errors()
    assert "example u-0: FST was empty" in err and "Added normalization to 0 egs; had errors on 2" in err
    eps = acceptor(1, 0, [(0, 0, 0, 0.5)], {0: 0.0})
    write_object("eps.fst", lambda writer: write_fst(writer, eps), True)
    assert run("nnet3-chain-normalize-egs", "eps.fst", "ark:raw", "ark:none") == 255
    assert "eps.fst: the normalization FST has epsilons" in errors()


def test_unconstrained_examples(errors: Errors) -> None:
    pytest.importorskip("kaldifst", reason="cyclic FSTs are minimized by OpenFst")
    assert supervise("--convert-to-pdfs=false") == 0
    cut = ["--num-frames=15", "--frame-subsampling-factor=3", "--transition-model=0.trans_mdl"]
    assert run("nnet3-chain-get-egs", *cut, "norm.fst", "ark:feats", "ark:sup", "ark:out") == 0
    supervision = egs("ark:out")["u-0"].outputs[0].supervision
    assert supervision.is_end_to_end and supervision.label_dim == 6 and len(supervision.alignment_pdfs) == 5
    assert run("nnet3-chain-merge-egs", "--minibatch-size=2", "ark:out", "ark:merged") == 0
    merged = egs("ark:merged")["merged-0-2"].outputs[0]
    assert len(merged.supervision.e2e_fsts) == 2 and not len(merged.supervision.alignment_pdfs)
    assert merged.deriv_weights.tolist() == [1, 0.5, 1, 1, 1, 1, 1, 1, 0.5, 1]


def test_feat_that_are_no_numbers_and_broken_supervision(errors: Errors) -> None:
    assert supervise() == 0
    good = dict(read_supervisions("ark:sup"))["u"]
    write_table("ark:feats2", FLOAT_MATRIX, {
        "u": np.full((27, 2), np.nan, dtype=np.float32), "v": np.zeros((27, 2), dtype=np.float32)})
    with TableWriter("ark:sup2", SUPERVISION) as writer:
        writer.write("u", good)
        good.fst = acceptor(2, 0, [(0, 1, 1, 0.0)], {1: 0.0})
        writer.write("v", good)
    assert run("nnet3-chain-get-egs", "--num-frames=15", "--frame-subsampling-factor=3", "norm.fst", "ark:feats2",
               "ark:sup2", "ark:out") == 1
    err = errors()
    assert "Skipping utterance u: the feature matrix" in err and "Skipping utterance v: the paths of a supe" in err
    assert "2 utterances had errors" in err


def test_mistakes_that_are_easily_made(errors: Errors) -> None:
    """Costs added twice, the denominator FST in place of the other, pdfs in place of transition-ids."""
    assert supervise() == 0
    rest = ["ark:feats", "ark:sup", "ark:out"]
    cut = ["--num-frames=15", "--frame-subsampling-factor=3"]
    assert run("nnet3-chain-get-egs", *cut, "norm.fst", *rest) == 0
    errors()
    assert run("nnet3-chain-normalize-egs", "norm.fst", "ark:out", "ark:twice") == 0
    assert errors().count("seems to have the costs of the normalization FST already") == 1
    write_object("den.fst", lambda writer: write_fst(writer, three_phones()), True)
    assert run("nnet3-chain-get-egs", *cut, "den.fst", *rest) == 0
    err = errors()
    assert "Not all states of the normalization FST are final: is it the denominator FST?" in err
    assert "2 of 2 examples were written without normalization" in err
    assert run("nnet3-chain-get-egs", *cut, "--transition-model=0.trans_mdl", "norm.fst", *rest) == 255
    assert "are not transition-ids of the model in an order that it allows" in errors()


INPUTS = [
    ("chain-get-supervision", "<tree>", "0.trans_mdl", "ark:len", "ark:out"),
    ("chain-get-supervision", "tree", "<0.trans_mdl>", "ark:len", "ark:out"),
    ("chain-get-supervision", "tree", "0.trans_mdl", "ark:<len>", "ark:out"),
    ("chain-get-supervision", "--lattice-input=true", "tree", "0.trans_mdl", "ark:<lat>", "ark:out"),
    ("nnet3-chain-get-egs", "--num-frames=9", "<norm.fst>", "ark:feats", "ark:sup1", "ark:out"),
    ("nnet3-chain-get-egs", "--num-frames=9", "norm.fst", "ark:<feats>", "ark:sup1", "ark:out"),
    ("nnet3-chain-get-egs", "--num-frames=9", "norm.fst", "ark:feats", "ark:<sup1>", "ark:out"),
    ("nnet3-chain-normalize-egs", "<norm.fst>", "ark:raw", "ark:out"),
    ("nnet3-chain-normalize-egs", "norm.fst", "ark:<raw>", "ark:out"),
    ("nnet3-chain-e2e-get-egs", "--num-frames=27", "norm.fst", "ark:feats", "ark:<fsts>", "0.trans_mdl", "ark:out"),
    ("nnet3-chain-e2e-get-egs", "--num-frames=27", "norm.fst", "ark:feats", "ark:fsts", "<0.trans_mdl>", "ark:out"),
]
DAMAGES = 15


@pytest.mark.parametrize("words", INPUTS, ids=" ".join)
def test_damaged_files_give_one_clear_error(words: tuple[str, ...], folder: Path, errors: Errors) -> None:
    (folder / "lat").write_bytes(LATTICE)
    assert run("chain-get-supervision", "tree", "0.trans_mdl", "ark:len", "ark:sup1") == 0
    assert run("nnet3-chain-get-egs", "--num-frames=9", "ark:feats", "ark:sup1", "ark:raw") == 0
    write_table("ark:fsts", FST, {"u": training_graph()})
    found = re.search("<(.*)>", " ".join(words))
    assert found is not None
    filled = [word.replace(f"<{found[1]}>", "bad") for word in words]
    (folder / "bad").write_bytes((folder / found[1]).read_bytes())
    assert run(*filled) == 0
    for data in damaged((folder / found[1]).read_bytes(), DAMAGES, 1):
        (folder / "bad").write_bytes(data)
        errors()
        status, err = run(*filled), errors()
        assert status in (0, 1, 255) and "internal error" not in err and "Traceback" not in err, err
        assert (status == 255) == (err.count("\nERROR ") == 1), err


# -- end to end --------------------------------------------------------------------------------------------------------


def test_end_to_end_examples(errors: Errors) -> None:
    write_table("ark:fsts", FST, {key: training_graph() for key in ("u", "v")})
    cut = ["--frame-subsampling-factor=3", "--left-context=1", "--right-context=2", "--left-context-initial=0"]
    rest = ["norm.fst", "ark:feats", "ark:fsts", "0.trans_mdl", "ark:out"]
    assert run("nnet3-chain-e2e-get-egs", *cut, "--num-frames=27,28", "--compress=false", *rest) == 0
    err = errors()
    assert "to: 27,30" in err and "No features for utterance v" in err and "1 utterances had errors" in err
    example = egs("ark:out")["u"]
    output = example.outputs[0]
    assert output.supervision.frames_per_sequence == 9 and output.deriv_weights.tolist() == [1] * 9
    assert example.inputs[0].indexes[:, 1].tolist() == list(range(29))
    assert (to_dense(example.inputs[0].features)[:, 0] / 2).tolist() == [*range(27), 26, 26]
    first = output.supervision.e2e_fsts[0]
    assert first.weights[0] == pytest.approx(4.704516, abs=1e-5)

    assert run("nnet3-chain-e2e-get-egs", *cut, "--num-frames=24", "--compress=false", *rest) == 0
    assert "has length: 27 closest allowed length is off by 3 frames. Will try to fix it.." in errors()
    example = egs("ark:out")["u"]
    assert (to_dense(example.inputs[0].features)[:, 0] / 2).tolist() == [*range(24), 23, 23]
    assert run("nnet3-chain-e2e-get-egs", *cut, "--num-frames=21", *rest) == 255
    assert "Too much length difference for utterance u" in errors()
    assert run("nnet3-chain-e2e-get-egs", "--num-frames=27", "--frame-subsampling-factor=9", *rest) == 0
    assert "utterance u: there are too many phones for too few frames" in errors()
