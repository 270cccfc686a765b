"""Word error rates of a model folder on a data folder of the work, utterance by utterance."""
from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnet3py import log
from nnet3py.decoding.edit_distance import align
from nnet3py.decoding.grammar import read_transcripts
from nnet3py.decoding.word_errors import WordErrors
from nnet3py.drivers.egs.data_folder import read_list
from nnet3py.errors import within
from nnet3py.formats.foreign_files import FULL_SCALE, WAVE
from nnet3py.io.streams import write_text
from nnet3py.io.tables import SequentialReader
from nnet3py.recognition.recognizer import Recognizer

_GAP = "***"


@dataclass
class Scored:
    """What was recognized of a data folder.

    Attributes
    ----------
    references, hypotheses : words by utterance
    speakers : of each utterance
    """

    references: dict[str, list[str]]
    hypotheses: dict[str, list[str]]
    speakers: dict[str, str]

    def errors(self, speaker: str | None = None) -> WordErrors:
        """The errors of a speaker, or of all."""
        counted = WordErrors()
        for key, reference in self.references.items():
            if speaker is None or self.speakers[key] == speaker:
                counted.add(reference, self.hypotheses[key])
        return counted

    def correct(self, word: str) -> tuple[int, int]:
        """How often a word was said, and how many of these times it was recognized."""
        pairs = [pair for key, reference in self.references.items() if word in reference
                 for pair in align(reference, self.hypotheses[key], _GAP) if pair[0] == word]
        return len(pairs), sum(said == recognized for said, recognized in pairs)


def score(model: str | Path, data: Path, kept: Path) -> Scored:
    """Recognize each utterance of a data folder as a stream of its own.

    ``kept``: a file for the results; what is there already is not recognized again. Nnet3Error for a model that cannot
    be used.
    """
    references = read_transcripts(f"{data}/text")
    speakers = read_list(data / "utt2spk")
    if not kept.is_file():
        hypotheses = dict(_recognized(str(model), data, len(references)))
        write_text(str(kept), json.dumps(hypotheses, ensure_ascii=False, indent=0) + "\n")
    return Scored(references, json.loads(kept.read_text(encoding="utf-8")), speakers)


def _recognized(model: str, data: Path, count: int) -> Iterator[tuple[str, list[str]]]:
    recognizer = Recognizer(model)
    with SequentialReader(f"scp:{data}/wav.scp", WAVE) as reader:
        for number, (key, wave) in enumerate(reader, 1):
            log.show_status(f"{number} of {count} utterances recognized")
            with within(key):
                result = recognizer.transcribe((wave.samples[0] / FULL_SCALE).astype(np.float32), wave.rate,
                                               endpointing=False)
            yield key, result.text.split()
    log.show_status("")
