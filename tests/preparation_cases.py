"""Small data for the drivers that come before networks: a data directory with statistics, a language, alignments."""
from __future__ import annotations

from pathlib import Path

import numpy as np
from egs_source import DIM, NAMES, make_source

from nnet3py.cli.main import load
from nnet3py.drivers.data_folder import AliFolder
from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR
from nnet3py.hmm.alignment import phone_starts
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.tables import SequentialReader, write_table

NUM_PHONES = 28


def _write_features(source: Path, model: TransitionModel) -> None:
    """Features that depend on the phone and, less, on the one before; else there is nothing for a tree to find."""
    rng = np.random.default_rng(1)
    own, left = 5.0 * rng.normal(size=(NUM_PHONES + 1, DIM)), 3.0 * rng.normal(size=(NUM_PHONES + 1, DIM))
    found = {}
    with SequentialReader(AliFolder(source / "ali").all_rspecifier, INT_VECTOR) as alignments:
        for key, ids in alignments:
            starts, _ = phone_starts(model, ids)
            phones = model.transition_id_to_phone[np.asarray(ids)[starts]]
            means = own[phones] + left[np.concatenate(([0], phones[:-1]))]
            frames = np.repeat(means, np.diff([*starts, len(ids)]), axis=0)
            found[key] = (frames + rng.normal(size=frames.shape)).astype(np.float32)
    write_table(f"ark,scp:{source}/own.ark,{source}/data/feats.scp", FLOAT_MATRIX, {key: found[key] for key in NAMES})


def make_data(path: Path) -> Path:
    """``data`` with statistics for normalizing, ``ali``, and ``lang``, under ``path``."""
    source = make_source(path)
    data = source / "data"
    model = read_object(source / "ali" / "final.mdl", TransitionModel.read)
    _write_features(source, model)
    speakers: dict[str, list[str]] = {}
    for line in (data / "utt2spk").read_text().splitlines():
        utterance, speaker = line.split()
        speakers.setdefault(speaker, []).append(utterance)
    (data / "spk2utt").write_text("".join(f"{speaker} {' '.join(keys)}\n" for speaker, keys in speakers.items()))
    assert load("compute-cmvn-stats").execute([f"--spk2utt=ark:{data}/spk2utt", f"scp:{data}/feats.scp",
                                               f"ark,scp:{data}/cmvn.ark,{data}/cmvn.scp"]) == 0
    phones = source / "lang" / "phones"
    phones.mkdir(parents=True)
    write_object(str(source / "lang" / "topo"), model.topology.write, False)
    (source / "lang" / "phones.txt").write_text("<eps> 0\n" + "".join(
        f"p{phone} {phone}\n" for phone in range(1, NUM_PHONES + 1)))
    numbers = range(1, NUM_PHONES + 1)
    (phones / "sets.int").write_text("".join(f"{phone}\n" for phone in numbers))
    (phones / "roots.int").write_text("".join(f"shared split {phone}\n" for phone in numbers))
    (phones / "context_indep.csl").write_text("1\n")
    (phones / "extra_questions.int").write_text("1\n")
    return source
