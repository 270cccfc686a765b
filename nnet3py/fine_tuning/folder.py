"""Stage 8, the new model folder: a copy of the old one with the new network and, with new words, another graph.

Word error rates of a model folder on a data folder, for choosing parameters (stage 7) and for the report (stage 9).
"""
from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnet3py import log
from nnet3py.decoding.symbols import SymbolTable, read_transcripts
from nnet3py.decoding.word_errors import WordErrors, align
from nnet3py.drivers.data_folder import read_list
from nnet3py.errors import within
from nnet3py.fine_tuning.plan import SHARE, FineTuneOptions, WorkFolder
from nnet3py.fine_tuning.words import GRAMMAR, HCL, renumbered_words, union_of_graphs, words_file
from nnet3py.formats.foreign_files import FULL_SCALE, WAVE
from nnet3py.io.streams import write_text
from nnet3py.io.tables import SequentialReader
from nnet3py.recognition.model_folder import ModelFolder, read_model_folder
from nnet3py.recognition.recognizer import Recognizer
from nnet3py.system import link_or_copy
from nnet3py.transducers.fst_text import read_fst_file, write_fst_file

NOTE = "FINE-TUNED.txt"
_NEW_GRAPH_FILES = ("words.txt", "phones.txt", "phones/word_boundary.int", "phones/align_lexicon.int")


def run(work: WorkFolder, options: FineTuneOptions) -> None:
    """Write ``new_model/``. Raises Nnet3Error if the graphs have different words."""
    partial = work.new_model.with_name(work.new_model.name + ".partial")
    for path in (partial, work.new_model):
        shutil.rmtree(path, ignore_errors=True)
    write_folder(work, options, partial, work.final_model)
    choice = json.loads(work.choice.read_text(encoding="utf-8"))
    write_text(str(partial / NOTE), f"Fine-tuned by nnet3py fine-tune; the parameters are "
                                    f"{'the old ones' if choice['is_old'] else 'new'}, the graph is "
                                    f"{'new' if any(work.graph.glob('*.fst')) else 'the old one'}.\n")
    os.replace(partial, work.new_model)
    log.log(f"{work.new_model} is complete")


def write_folder(work: WorkFolder, options: FineTuneOptions, target: Path, model: Path, links: bool = False) -> None:
    """Make a folder in the layout of the old one, with another acoustic model, and with the new graph if there is one.

    ``links`` : whether unchanged files are hard links instead of copies
    """
    folder = read_model_folder(options.model)
    shutil.copytree(os.path.abspath(folder.path), target, copy_function=link_or_copy if links else shutil.copy2)
    replace_model(options, target, model)
    if (work.graph / "HCLG.fst").is_file():
        _write_graph(work, folder, target / _inside(folder, folder.graph), options)
    if (work.graph / GRAMMAR).is_file():
        for path, name in ((folder.graph, HCL), (folder.grammar, GRAMMAR), (words_file(folder), "words.txt")):
            if (work.graph / name).is_file():
                _replace(work.graph / name, target / _inside(folder, path))
    if folder.rnnlm and any((work.graph / name).is_file() for name in ("HCLG.fst", GRAMMAR)):
        shutil.rmtree(target / _inside(folder, folder.rnnlm))               # the RNN language model lacks the new words


def replace_model(options: FineTuneOptions, target: Path, model: Path) -> None:
    """Replace the acoustic model in a folder with the old folder's layout."""
    folder = read_model_folder(options.model)
    _replace(model, target / _inside(folder, folder.model))


def _inside(folder: ModelFolder, path: str) -> str:
    """Return the path of a file relative to its model folder."""
    return os.path.relpath(path, folder.path)


def _replace(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)                 # it may be a link to the old folder
    shutil.copyfile(source, target)


def _write_graph(work: WorkFolder, folder: ModelFolder, target: Path, options: FineTuneOptions) -> None:
    """Write the union of the old and the new graph, with the new table of words."""
    new, words = read_fst_file(work.graph / "HCLG.fst"), SymbolTable.read(str(work.graph / "words.txt"))
    old = renumbered_words(read_fst_file(folder.graph), SymbolTable.read(folder.words), words)
    target.unlink(missing_ok=True)
    write_fst_file(target, union_of_graphs(old, new, SHARE * options.lm_weight))
    for name in _NEW_GRAPH_FILES:
        if (work.graph / name).is_file():
            _replace(work.graph / name, target.parent / name)


# -- word error rates --------------------------------------------------------------------------------------------------

_GAP = "***"


@dataclass
class Scored:
    """Recognition results on a data folder."""

    # references, hypotheses: words by utterance
    references: dict[str, list[str]]
    hypotheses: dict[str, list[str]]
    speakers: dict[str, str]  # speaker by utterance

    def errors(self, speaker: str | None = None) -> WordErrors:
        """Count the word errors of a speaker; None for all speakers."""
        counted = WordErrors()
        for key, reference in self.references.items():
            if speaker is None or self.speakers[key] == speaker:
                counted.add(reference, self.hypotheses[key])
        return counted

    def correct(self, word: str) -> tuple[int, int]:
        """Return how often a word is in the references, and how often it was recognized there."""
        pairs = [pair for key, reference in self.references.items() if word in reference
                 for pair in align(reference, self.hypotheses[key], _GAP) if pair[0] == word]
        return len(pairs), sum(said == recognized for said, recognized in pairs)


def score(model: str | Path, data: Path, kept: Path) -> Scored:
    """Recognize each utterance of a data folder as a separate stream.

    Parameters
    ----------
    model : model folder
    kept : file for the results; if it exists, it is read instead of recognizing again

    Raises Nnet3Error for an unusable model.
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
