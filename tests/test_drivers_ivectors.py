"""nnet3py/drivers/ivectors.py and ivector_extraction.py: trained and used on small data by real programs."""
from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from egs_source import NAMES, length
from job_recorder import Recorder
from preparation_cases import make_data

from nnet3py.cli.main import load
from nnet3py.drivers.data_folder import Ivectors
from nnet3py.drivers.ivectors import (
    NEEDED,
    ExtractorTraining,
    evenly,
    extract_ivectors,
    train_ivector_extractor,
    with_fewer_utterances,
)
from nnet3py.drivers.staged_options import ExtractorOptions, IvectorOptions
from nnet3py.errors import FormatError, UsageError
from nnet3py.formats.holders import read_matrices
from nnet3py.io.object_files import read_object
from nnet3py.ivectors.extractor import IvectorExtractor

SMALL = {"nj": 2, "pca_dim": 6, "num_gauss": 4, "ubm_num_iters": 1, "ubm_num_iters_init": 2, "ivector_dim": 3,
         "num_iters": 1}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("source"))


def options(source: Path, **changed: Any) -> ExtractorOptions:
    return ExtractorOptions(**{"feat_dir": str(source / "data"), **SMALL, **changed})


@pytest.mark.slow
def test_an_extractor_and_its_ivectors_by_the_command(source: Path, tmp_path: Path) -> None:
    folder, ivectors = tmp_path / "extractor", tmp_path / "ivectors"
    words = [f"--feat-dir={source}/data", "--dir", str(folder), "--nj=1", "--pca.dim=6", "--ubm.num-gauss=4",
             "--ubm.num-iters=1", "--ubm.num-iters-init=2", "--ivector-dim=3", "--num-iters=1", "--pca.subsample=1",
             f"--extract-to={ivectors}"]
    assert load("train-ivector-extractor").execute(words) == 0
    extractor = read_object(folder / "final.ie", IvectorExtractor.read)
    assert (extractor.num_gaussians, extractor.dim, extractor.ivector_dim) == (4, 6, 3)
    assert not extractor.weights_depend and (folder / "final.ie").readlink() == Path("1.ie")
    assert all((folder / name).is_file() for name in NEEDED)
    identity = hashlib.md5((folder / "1.ie").read_bytes()).hexdigest()
    assert (folder / "final.ie.id").read_text() == f"{identity}\n"
    assert not [*folder.glob("acc*"), *folder.glob("*.gz"), *folder.glob("0.*"), *folder.glob("*.acc")]
    found = Ivectors.read(ivectors)
    assert (found.dim, found.period, found.extractor_id) == (3, 10, identity)
    rows = {key: matrix for key, matrix in read_matrices(f"scp:{ivectors}/ivector_online.scp")}
    assert list(rows) == NAMES
    for number, name in enumerate(NAMES):
        assert rows[name].shape == (-(-length(number) // 10), 3) and np.isfinite(rows[name]).all()
    assert load("train-ivector-extractor").execute(words) == 0          # nothing is left to do


def recorded(source: Path, folder: Path, **changed: Any) -> list[str]:
    recorder = Recorder()
    folder.mkdir()
    for name in ("0.dubm", "final.dubm", "0.ie", "1.ie", "0.ubm", "post.1.gz", "post.2.gz"):
        (folder / name).touch()                              # what the jobs would make, and steps look for
    train_ivector_extractor(options(source, dir=str(folder), **changed), recorder)
    return recorder.ran


def test_a_given_transform_full_covariances_and_normalized_features(source: Path, tmp_path: Path) -> None:
    transform = tmp_path / "transform"
    transform.mkdir()
    (transform / "final.mat").touch()
    (transform / "splice_opts").write_text("--left-context=1 --right-context=2\n")
    conf = tmp_path / "cmvn.conf"
    conf.write_text("--norm-vars=true\n")
    folder = tmp_path / "exp"
    commands = recorded(source, folder, transform_dir=str(transform), full_num_iters=1, online_cmvn_iextractor=True,
                        online_cmvn_config=str(conf))
    assert not any("est-pca" in command for command in commands)
    assert (folder / "online_cmvn.conf").read_text() == "--norm-vars=true\n"
    assert (folder / "splice_opts").read_text() == "--left-context=1 --right-context=2\n"
    assert (folder / "online_cmvn_iextractor").is_file()
    (init,) = (command for command in commands if "extractor-init" in command)
    assert f"--use-weights=false {folder}/final.ubm {folder}/0.ie" in init
    (full,) = (command for command in commands if "fgmm-global-est" in command)
    assert "--remove-low-count-gaussians=false" in full
    statistics = [command for command in commands if "ivector-extractor-acc-stats" in command]
    assert len(statistics) == 2 and all("apply-cmvn-online" in command for command in statistics)
    (scale, _) = (command for command in commands if "scale-post" in command)
    assert "scale-post ark:- 0.2 " in scale                            # every second frame counts twice


def test_the_extractor_sees_plain_features_and_the_mixture_its_own_data(source: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.mkdir()
    for name in ("feats.scp", "utt2spk"):
        lines = (source / "data" / name).read_text().splitlines(keepends=True)
        (part / name).write_text("".join(lines[:8]))
    (part / "cmvn.scp").write_text("".join((source / "data/cmvn.scp").read_text().splitlines(keepends=True)[:2]))
    folder = tmp_path / "exp"
    commands = recorded(source, folder, ubm_feat_dir=str(part), pca_max_utts=4)
    for command in commands:
        if "ivector-extractor-acc-stats" in command:
            assert "apply-cmvn-online" not in command and "/split/all." in command
        if "gmm-gselect" in command:
            assert "/split/ubm." in command
    assert f"matrix-sum --binary=false scp:{part}/cmvn.scp {folder}/global_cmvn.stats" in commands[0]
    assert (folder / "split/ubm/feats.scp").read_text() == (part / "feats.scp").read_text()
    assert len((folder / "split/pca.scp").read_text().splitlines()) == 4


def test_speakers_are_taken_apart() -> None:
    utt2spk = {"a-1": "a", "a-2": "a", "a-3": "a", "b-1": "b"}
    assert with_fewer_utterances(utt2spk, 2) == {"a-1": "a-1", "a-2": "a-1", "a-3": "a-2", "b-1": "b-1"}


def test_utterances_at_equal_distances() -> None:
    assert evenly("abcdefgh", 3) == ["a", "c", "f"] and evenly("ab", 3) == ["a", "b"]


def test_what_does_not_fit_is_refused(source: Path, tmp_path: Path) -> None:
    for changed, message in (({"num_gauss": 0}, "--ubm.num-gauss=0"), ({"posterior_scale": 2.0}, "--posterior-scale=2"),
                             ({"min_post": 0.5}, "--min-post=0.5"), ({"feat_dir": ""}, "--feat-dir was not given"),
                             ({"initial_gauss_proportion": 0.1}, "a share that is at least one of 4 Gaussians"),
                             ({"online_cmvn_config": "nowhere"}, "nowhere does not exist")):
        with pytest.raises(UsageError, match=message):
            train_ivector_extractor(options(source, **{"dir": str(tmp_path / "no"), **changed}), Recorder())
    with pytest.raises(FormatError, match="folder with a transform, but it has no final.mat"):
        ExtractorTraining(options(source, dir=str(tmp_path / "no"), transform_dir=str(source)), Recorder()).run()
    with pytest.raises(FormatError, match="folder of an extractor, but it has no final.ie"):
        extract_ivectors(IvectorOptions(feat_dir=str(source / "data"), extractor_dir=str(source),
                                        dir=str(tmp_path / "no")), Recorder())
    assert not (tmp_path / "no").exists()
