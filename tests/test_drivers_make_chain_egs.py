"""Whole folders of chain examples, and the commands for lattices."""
from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from egs_source import DIM, NAMES, make_source
from io_samples import read_table
from job_recorder import Recorder
from paths import DATA

from nnet3py.cli.main import load
from nnet3py.drivers.egs_folder import EgsFolder
from nnet3py.drivers.make_chain_egs import make_chain_egs
from nnet3py.drivers.options import ChainEgsOptions
from nnet3py.egs.chain_example import CHAIN_EXAMPLE, NnetChainExample
from nnet3py.errors import FormatError, UsageError

NO_MEANS = "--norm-means=false"
NUM_PDFS = 56


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_source(tmp_path_factory.mktemp("source"))


def examples(path: Path) -> dict[str, NnetChainExample]:
    return read_table(f"ark:{path}", CHAIN_EXAMPLE)


def test_examples_of_alignments_by_the_command(source: Path, tmp_path: Path) -> None:
    # These alignments are random, and the normalization graph knows the phones of digits in their order only: a few
    # examples cannot be normalized. Training loses them; the diagnostics keep them as they are, as in Kaldi.
    egs = tmp_path / "egs"
    words = ["--nj=1", f"--cmvn-opts={NO_MEANS}", "--frames-per-eg=15", "--left-context=3", "--num-egs-diagnostic", "3"]
    status = load("make-chain-egs").execute([*words, str(source / "data"), str(DATA / "chain"), str(source / "ali"),
                                             str(egs)])
    assert status == 0
    folder = EgsFolder(egs)
    folder.verify(DIM, 0, None, 3, 4)
    assert (folder.kind, folder.frame_subsampling_factor, folder.frames_per_eg) == ("cegs", 3, "15")
    assert (egs / "info" / "num_pdfs").read_text() == f"{NUM_PDFS}\n"
    valid = (egs / "valid_uttlist").read_text().split()
    training = examples(folder.archive(1))
    assert training and {key[:5] for key in training} <= set(NAMES) - set(valid)
    for key, eg in (training | examples(folder.diagnostic("valid_diagnostic"))).items():
        assert eg.inputs[0].features.shape == (3 + 15 + 4, DIM), key
        assert eg.outputs[0].supervision.frames_per_sequence == 5
        assert eg.outputs[0].supervision.label_dim == NUM_PDFS
    assert len(examples(folder.diagnostic("valid_diagnostic"))) == 3


def recorded(source: Path, folder: Path, labels: Path, **changed: object) -> list[str]:
    recorder = Recorder()
    make_chain_egs(source / "data", DATA / "chain", labels, folder, ChainEgsOptions(
        **{"cmvn_opts": NO_MEANS, "nj": 1, "frames_per_iter": 600, **changed}), recorder)
    return recorder.ran


@pytest.fixture
def lattices(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with lattices (empty files), and Kaldi's programs for them on PATH; what they would write is there."""
    path = tmp_path / "lat"
    path.mkdir()
    for name in ("lat.1.gz", "lat.2.gz", "final.mdl"):
        (path / name).touch()
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("lattice-copy", "lattice-align-phones"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    egs = tmp_path / "egs"
    egs.mkdir()
    for number in (1, 2):
        lines = [f"{name} {egs}/lat.{number}.ark:7\n" for name in NAMES[number - 1::2]]
        (egs / f"lat.{number}.scp").write_text("".join(lines))
    (egs / "utt2num_frames").write_text("".join(f"{name} 50\n" for name in NAMES))
    return path


def test_the_commands_of_lattices(source: Path, tmp_path: Path, lattices: Path) -> None:
    egs, chain, data = tmp_path / "egs", DATA / "chain", source / "data"
    ran = recorded(source, egs, lattices, lattice_lm_scale=0.5, alignment_subsampling_factor=1, srand=4)
    # (The first command finds out the numbers of frames.)
    assert ran[1] == (f'lattice-copy "ark:gunzip -c {lattices}/lat.1.gz |" ark,scp:{egs}/lat.1.ark,{egs}/lat.1.scp '
                      f"&& touch {egs}/.steps/lattice_copy.1")
    feats = (f'"ark,s,cs:apply-cmvn --norm-means=false --utt2spk=ark:{data}/utt2spk scp:{data}/cmvn.scp '
             f'scp:{egs}/split/{{}}/feats.scp ark:- |"')
    supervision = ("chain-get-supervision --frame-subsampling-factor=1 --left-tolerance=5 --right-tolerance=5 "
                   f"--lattice-input=true --lm-scale=0.5 {chain}/tree {chain}/0.trans_mdl ark:- ark:-")
    align = (f"lattice-align-phones --replace-output-symbols=true {lattices}/final.mdl "
             f"scp:{egs}/split/{{}}/lat.scp ark:-")
    options = "--left-context=4 --right-context=4 --compress=true --num-frames=25 --frame-subsampling-factor=3"
    assert ran[3] == (
        f"{align.format('valid')} | {supervision} | nnet3-chain-get-egs --srand=4 {options} "
        f"--normalization-fst-scale=0.5 {chain}/normalization.fst {feats.format('valid')} ark,s,cs:- "
        f"ark:{egs}/valid_all.cegs && touch {egs}/.steps/create_valid")
    originals = [f"{egs}/cegs_orig.1.{number}.ark" for number in (1, 2, 3)]
    assert (f"{align.format('1')} | {supervision} | nnet3-chain-get-egs --srand=5 {options} {feats.format('1')} "
            "ark,s,cs:- ark:- | nnet3-chain-copy-egs --random=true --srand=5 ark:- "
            f"{' '.join(f'ark:{name}' for name in originals)} && touch {egs}/.steps/get_egs.1") in ran
    assert (f"nnet3-chain-normalize-egs --normalization-fst-scale=0.5 {chain}/normalization.fst "
            f'"ark:cat {originals[1]} |" ark:- | nnet3-chain-shuffle-egs --srand=6 ark:- ark:{egs}/cegs.2.ark '
            f"&& touch {egs}/.steps/shuffle.2") in ran


def test_unconstrained_examples(source: Path, tmp_path: Path, lattices: Path) -> None:
    ran = recorded(source, tmp_path / "egs", lattices, constrained=False, deriv_weights_scp="w.scp")
    making = next(command for command in ran if "nnet3-chain-get-egs" in command)
    assert "--convert-to-pdfs=false" in making and f"--transition-model={DATA / 'chain'}/0.trans_mdl" in making
    assert "--deriv-weights-rspecifier=scp:w.scp" in making


def test_what_is_missing_is_said(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="are for lattices"):
        recorded(source, tmp_path / "egs", source / "ali", lattice_lm_scale=0.5)
    with pytest.raises(UsageError, match="--lattice-lm-scale=1: expected 0 or more and below 1"):
        recorded(source, tmp_path / "egs", source / "ali", lattice_lm_scale=1.0)
    with pytest.raises(UsageError, match=r"expected at most --left-tolerance \+ --right-tolerance \+ 1"):
        recorded(source, tmp_path / "egs", source / "ali", left_tolerance=0, right_tolerance=1)
    chain = tmp_path / "chain"
    shutil.copytree(DATA / "chain", chain)
    (chain / "normalization.fst").unlink()
    with pytest.raises(FormatError, match=r"it has no normalization\.fst"):
        make_chain_egs(source / "data", chain, source / "ali", tmp_path / "egs", ChainEgsOptions(), Recorder())
