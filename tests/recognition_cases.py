"""A small recognizer of digits, laid out as a package, and what was said to it (tests/data/recognition)."""
from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import numpy as np

from nnet3py.formats.foreign_files import read_wave
from nnet3py.io.object_files import token_reader
from nnet3py.io.streams import open_input
from nnet3py.recognition.recognizer import Recognizer
from nnet3py.recognition.results import Result

DATA = Path(__file__).parent / "data" / "recognition"
PACKAGE = DATA / "package"            # a copy of Kaldi's models; the network is weak on purpose
SOUNDS = [DATA / "wav" / f"utt{number}.wav" for number in (1, 2, 3)]
RATE = 16000
SILENCE = RATE // 2
CHUNK = 0.18                          # seconds that streams decode at a time, which vosk was given for what is recorded


def samples_of(path: Path) -> np.ndarray:
    """int16 (samples,)."""
    with open_input(path) as stream:
        return read_wave(token_reader(stream)).samples[0].astype(np.int16)


@cache
def dialogue() -> np.ndarray:
    """int16: the three recordings with half a second of silence after each."""
    return np.concatenate([part for path in SOUNDS for part in (samples_of(path), np.zeros(SILENCE, np.int16))])


@cache
def recognizer() -> Recognizer:
    """Of the package; tests share it."""
    return Recognizer(PACKAGE, options={"chunk-length": CHUNK})


@cache
def recognized() -> Result:
    """What the recognizer says of the dialogue, with segments."""
    return recognizer().transcribe(dialogue())


def kaldi_folder(folder: Path) -> Path:
    """The same models as Kaldi's training leaves them, with options in ``conf/``."""
    shutil.copytree(PACKAGE / "graph", folder / "graph")
    shutil.copytree(PACKAGE / "ivector", folder / "ivector_extractor")
    (folder / "conf").mkdir()
    shutil.copy(PACKAGE / "conf" / "mfcc.conf", folder / "conf")
    shutil.copy(PACKAGE / "am" / "final.mdl", folder)
    (folder / "frame_subsampling_factor").write_text("3\n")
    return folder


def online_folder(folder: Path, prefix: str) -> Path:
    """The same as prepare_online_decoding.sh leaves them, conf files naming others as in a folder ``prefix``."""
    kaldi_folder(folder)
    (folder / "conf" / "online_cmvn.conf").write_text("# nothing\n")
    shutil.copy(PACKAGE / "ivector" / "splice.conf", folder / "conf")
    names = {"cmvn-config": "conf/online_cmvn.conf", "splice-config": "conf/splice.conf",
             "lda-matrix": "ivector_extractor/final.mat", "global-cmvn-stats": "ivector_extractor/global_cmvn.stats",
             "diag-ubm": "ivector_extractor/final.dubm", "ivector-extractor": "ivector_extractor/final.ie"}
    (folder / "conf" / "ivector_extractor.conf").write_text(
        "".join(f"--{option}={prefix}/{name}\n" for option, name in names.items()) + "--max-count=100\n")
    (folder / "conf" / "online.conf").write_text(
        f"--feature-type=mfcc\n--mfcc-config={prefix}/conf/mfcc.conf\n"
        f"--ivector-extraction-config={prefix}/conf/ivector_extractor.conf\n--endpoint.silence-phones=1\n")
    return folder
