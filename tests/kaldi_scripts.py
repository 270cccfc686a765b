"""A folder in which Kaldi's own scripts run, with our launchers alone on PATH; and what scripts call."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from digits_cases import RECIPE, write_kaldi_dirs
from paths import ROOT, shared_folder

from nnet3py.acoustic_model import AcousticModel
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object
from nnet3py.network.nnet import Nnet

NUM_PDFS = 28
NO_NORMALIZATION = "--norm-means=false --norm-vars=false"
CONFIG = """
input-node name=input dim=40
component name=affine type=NaturalGradientAffineComponent input-dim=40 output-dim=28
component name=softmax type=LogSoftmaxComponent dim=28
component-node name=affine component=affine input=input
component-node name=softmax component=softmax input=affine
output-node name=output input=softmax
"""
PREPARE_LANG = r"""
mkdir -p dict
(cat kaldi/lang/lexicon.txt; echo "<UNK> SIL") | sort -u > dict/lexicon.txt
echo SIL | tee dict/silence_phones.txt > dict/optional_silence.txt
awk '$2 > 0 && $1 != "SIL" { print $1 }' kaldi/lang/phones.txt > dict/nonsilence_phones.txt
: > dict/extra_questions.txt
utils/prepare_lang.sh --position-dependent-phones false dict "<UNK>" dict/tmp lang_words
"""
_TIMEOUT = 900           # seconds
_SCRIPT = re.compile(r"(?:steps|utils)/[\w/.\-]+\.(?:sh|py|pl)")
# Where the name of a program can stand in a shell script, also in a string that becomes a command; names have hyphens,
# but for those of OpenFst's programs.
_PROGRAM = re.compile(r"(?:^|[|;&(\"'`:]|\.log|^\s*\w+=|\b(?:if !?|do|then|else))\s*((?:fst|[a-z0-9]+-)[a-z0-9]+"
                      r"(?:-[a-z0-9]+)*)(?=[\s;])", re.MULTILINE)
_IN_PYTHON = re.compile(r"\b(?:nnet3|chain|lattice|online2)-[a-z0-9]+(?:-[a-z0-9]+)*(?=\s)")


def copy_scripts(folder: Path, scripts: Path | None = None) -> None:
    """``steps`` and ``utils``, which can then be run; a file that holds but another's name is the link that it was.

    ``scripts``: the folder that has them; None: the one beside the checkout.
    """
    for name in ("utils", "steps"):
        shutil.copytree((scripts or shared_folder("kaldi-scripts")) / name, folder / name, symlinks=True)
    for path in sorted([*(folder / "utils").rglob("*"), *(folder / "steps").rglob("*")]):
        path.parent.chmod(0o755)
        if path.is_symlink() or not path.is_file():
            continue
        path.chmod(0o755)
        content = path.read_bytes()
        if len(content) < 100 and b"\n" not in content and (path.parent / content.decode()).exists():
            path.unlink()
            path.symlink_to(content.decode())


def write_scripts(folder: Path) -> None:
    """Scripts, path.sh, and a ``python`` in ``tools``."""
    copy_scripts(folder)
    (folder / "tools").mkdir()
    (folder / "tools" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -W ignore "$@"\n')
    (folder / "tools" / "python").chmod(0o755)
    (folder / "path.sh").write_text(
        f"export LC_ALL=C\nexport PATH={folder}/utils:{ROOT}/bin:{folder}/tools:/usr/bin:/bin\n")


def write_work_folder(folder: Path, utterances: dict[str, int], jobs: int, config: str = CONFIG) -> Path:
    """Scripts, path.sh, data, a lang folder and a model, ``exp/tdnn``, with random parameters; returns ``folder``."""
    write_scripts(folder)
    write_kaldi_dirs(folder / "kaldi", utterances, jobs)
    model = folder / "exp" / "tdnn"
    model.mkdir(parents=True)
    transitions = read_object(str(folder / "kaldi" / "ali_train" / "final.mdl"), TransitionModel.read)
    AcousticModel(transitions, Nnet.from_config(config, seed=1), np.full(NUM_PDFS, 1 / NUM_PDFS, np.float32)).write(
        str(model / "final.mdl"))
    shutil.copy(folder / "kaldi" / "ali_train" / "tree", model)
    shutil.copy(folder / "kaldi" / "lang" / "phones.txt", model)
    (model / "cmvn_opts").write_text(f"{NO_NORMALIZATION}\n")
    run(folder, "make-graph", "--phones=kaldi/lang/phones.txt", "--silence-phone=SIL", "--write-lang=lang",
        RECIPE / "data" / "lexicon.txt", "loop", model / "tree", model / "final.mdl", model / "graph")
    (folder / "lang" / "oov.int").write_text("1\n")
    return folder


def run(work: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in the folder; it must end with status 0."""
    environment = {**os.environ, "PATH": f"{ROOT / 'bin'}:{work / 'tools'}:/usr/bin:/bin",
                   "NNET3PY_PYTHON": sys.executable, "NNET3PY_NUM_THREADS": "1"}
    done = subprocess.run([str(word) for word in words], cwd=work, capture_output=True, text=True, timeout=_TIMEOUT,
                          env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def shell(work: Path, script: str) -> str:
    """What a script prints; it stops at the first command that fails."""
    return run(work, "bash", "-euc", f". ./path.sh\n{script}").stdout


def named_programs(text: str, is_python: bool = False) -> set[str]:
    """What stands where a program of Kaldi could in a script; comments and printed text are left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("#", "echo", "print"))]
    joined = "\n".join(lines).replace("\\|", "|").replace("\\\n", " ")
    return set((_IN_PYTHON if is_python else _PROGRAM).findall(joined))


def called_scripts(text: str) -> set[str]:
    """Other scripts that a script names."""
    return set(_SCRIPT.findall(text))
