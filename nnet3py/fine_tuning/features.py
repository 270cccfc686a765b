"""Stage 4: the network's inputs, features and i-vectors, as the model's folder configures them.

Training data are also perturbed in speed and volume. I-vector estimation begins anew with each utterance, as in a new
stream.
"""
from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nnet3py.drivers.data_folder import read_list, spk2utt, write_list
from nnet3py.errors import Nnet3Error
from nnet3py.feat.sound import random_volume, with_speed
from nnet3py.fine_tuning.plan import FineTuneOptions, WorkFolder
from nnet3py.formats.foreign_files import WAVE, Wave
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.streams import write_text
from nnet3py.io.tables import SequentialReader, TableWriter
from nnet3py.recognition.model_folder import read_model_folder
from nnet3py.recognition.pipeline import FeaturePipeline, PipelineModels
from nnet3py.recognition.recognizer import folder_pipeline

logger = logging.getLogger(__name__)

SPEEDS = (0.9, 1.0, 1.1)
VOLUMES = (0.125, 2.0)              # as Kaldi's perturb_data_dir_volume.sh
PERIOD = 10                         # frames from one i-vector to the next


class Inputs(NamedTuple):
    """Inputs of the network for one utterance."""

    features: np.ndarray         # float32 (frames, dim)
    ivectors: np.ndarray | None  # float32 (ceil(frames / PERIOD), dim); None for a network without i-vectors


def run(work: WorkFolder, options: FineTuneOptions) -> None:
    """Write ``features/`` and ``ivectors/`` for training, held-out and old data.

    Raises Nnet3Error if no utterance is long enough for a frame.
    """
    models = folder_pipeline(read_model_folder(options.model))
    for part in trained_parts(work):
        is_train = part == "train"
        speeds = SPEEDS if is_train and options.speed_perturb else (1.0,)
        make_features(models, work.data(part), work.features(part), work.ivectors(part), speeds,
                      options.srand if is_train and options.volume_perturb else None)


def trained_parts(work: WorkFolder) -> list[str]:
    """Return the parts of the data that examples are made from; ``old_data`` only if the user gave them."""
    return [part for part in ("train", "held_out", "old_data") if work.data(part).is_dir()]


def make_features(models: PipelineModels, data: Path, features: Path, ivectors: Path,
                  speeds: tuple[float, ...] = (1.0,), volume_seed: int | None = None) -> None:
    """Make data folders of features and i-vectors from a data folder of sound.

    Parameters
    ----------
    speeds : factors, ascending; with several, copies and their speakers have the prefix ``spSPEED-``, and ``utt2uniq``
        maps each copy to its original
    volume_seed : seed of the volume factors; None for the original volume
    """
    tables = {name: read_list(data / name) for name in ("text", "utt2spk")}
    new: dict[str, dict[str, str]] = {name: {} for name in ("text", "utt2spk", "utt2uniq", "utt2num_frames", "utt2dur")}
    for folder in (features, ivectors):
        folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        feats = stack.enter_context(TableWriter(f"ark,scp:{features}/feats.ark,{features}/feats.scp", FLOAT_MATRIX))
        vectors = None if models.ivectors is None else stack.enter_context(TableWriter(
            f"ark,scp:{ivectors}/ivector_online.ark,{ivectors}/ivector_online.scp", FLOAT_MATRIX))
        for speed in speeds:                        # ascending, so that the tables are sorted
            mark = f"sp{speed:g}-" if len(speeds) > 1 else ""
            for utterance, wave in _sounds(data):
                key = mark + utterance
                inputs = inputs_of(models, _perturbed(wave, speed, key, volume_seed), wave.rate)
                if not len(inputs.features):
                    logger.warning("%s is too short for a single frame", key)
                    continue
                feats.write(key, inputs.features)
                if vectors is not None and inputs.ivectors is not None:
                    vectors.write(key, inputs.ivectors)
                new["text"][key], new["utt2spk"][key] = tables["text"][utterance], mark + tables["utt2spk"][utterance]
                new["utt2uniq"][key] = utterance
                new["utt2num_frames"][key] = str(len(inputs.features))
                new["utt2dur"][key] = f"{wave.duration / speed:.3f}"
    if not new["text"]:
        raise Nnet3Error(f"no utterance of {data} is long enough for a single frame")
    for name, table in new.items():
        write_list(features / name, table)
    write_list(features / "spk2utt", {speaker: " ".join(keys) for speaker, keys in spk2utt(new["utt2spk"]).items()})
    write_text(str(ivectors / "ivector_period"), f"{PERIOD}\n")


def _sounds(data: Path) -> Iterator[tuple[str, Wave]]:
    with SequentialReader(f"scp:{data}/wav.scp", WAVE) as reader:
        yield from reader


def _perturbed(wave: Wave, speed: float, key: str, volume_seed: int | None) -> np.ndarray:
    """Change the speed of a sound, and its volume at random; return float32 (samples,) in the range of 16 bits."""
    samples = with_speed(wave.samples[:1].astype(np.float32), speed)[0]
    return samples if volume_seed is None else samples * random_volume(volume_seed, key, *VOLUMES)


def inputs_of(models: PipelineModels, samples: np.ndarray, rate: float) -> Inputs:
    """Compute features and i-vectors of one utterance, float32 (samples,) in the range of 16-bit integers."""
    pipeline = FeaturePipeline(models)
    pipeline.accept_waveform(samples, rate)
    pipeline.finish()
    count = pipeline.num_frames_ready
    features = pipeline.frames(0, count).copy()
    if models.ivectors is None or not count:
        return Inputs(features, None)
    return Inputs(features, np.stack([pipeline.ivector(frame) for frame in range(0, count, PERIOD)]))
