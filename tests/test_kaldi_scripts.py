"""Kaldi's own scripts, unmodified, with our launchers alone on PATH; they lie beside the checkout, or are not tried."""
from __future__ import annotations

from pathlib import Path

import pytest
from kaldi_scripts import run, write_work_folder

from nnet3py.formats.holders import INT_VECTOR
from nnet3py.io.tables import SequentialReader

UTTERANCES = {"train": 4, "test": 4}
JOBS = 1             # their first utterances are of one speaker, and Kaldi splits by speakers


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder: scripts, path.sh, data, a model with random parameters, a lang folder."""
    pytest.importorskip("kaldifst", reason="graphs are made with kaldifst")
    return write_work_folder(tmp_path_factory.mktemp("work"), UTTERANCES, JOBS)


def test_align(work: Path) -> None:
    """With its defaults: it waits for a GPU where there is one, and computes on the CPU where there is none."""
    done = run(work, "steps/nnet3/align.sh", "--nj", str(JOBS), "--cmd", "run.pl", "kaldi/data/test", "lang",
               "exp/tdnn", "exp/ali")
    assert "align.sh: done aligning data." in done.stdout
    lengths = dict(line.split() for line in (work / "kaldi/data/test/utt2num_frames").read_text().splitlines())
    found: dict[str, int] = {}
    for job in range(1, JOBS + 1):
        with SequentialReader(f"ark:gunzip -c {work}/exp/ali/ali.{job}.gz |", INT_VECTOR) as alignments:
            found |= {key: len(alignment) for key, alignment in alignments}
    assert found == {key: int(length) for key, length in lengths.items()}


def test_training_graphs_with_the_scales_of_end_to_end_training(work: Path) -> None:
    """steps/nnet3/chain/e2e/prepare_e2e.sh calls the program so."""
    command = ("compile-train-graphs --transition-scale=0.0 --self-loop-scale=0.0 --read-disambig-syms=lang/phones/"
               "disambig.int exp/tdnn/tree exp/tdnn/final.mdl lang/L.fst 'ark:utils/sym2int.pl --map-oov 1 -f 2- "
               "lang/words.txt < kaldi/data/test/text |' ark,scp:fst.ark,fst.scp")
    assert f"succeeded for {UTTERANCES['test']} graphs, failed for 0" in run(work, "bash", "-c", command).stderr
