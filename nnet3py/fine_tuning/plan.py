"""Shared by all stages of fine-tuning, without numpy: options, utterances, problems, and the files of the work."""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple

from nnet3py.drivers.staged_options import WorkOptions
from nnet3py.errors import UsageError
from nnet3py.option_fields import GPU_CHOICES, CheckedOptions, opt, options_class

PARTS = ("train", "held_out", "old_data", "old_test")
# The new grammar has the weight SHARE * --lm-weight beside the old one: with equal weights, words of old data were
# misrecognized that had been right before.
SHARE = 0.2
OLD_MARK = "old-"            # prefix of utterances and speakers of --old-data


class Utterance(NamedTuple):
    """Piece of sound with its text."""

    key: str      # name of the utterance, without blanks
    speaker: str  # name of the speaker
    sound: str    # sound file, or an entry of Kaldi's wav.scp (a pipe, a place in an archive)
    # start, end: in seconds; an end of -1 is the end of the sound
    start: float
    end: float
    text: tuple[str, ...]  # words


class Problem(NamedTuple):
    """Fault of the data."""

    key: str        # the utterance, file or word
    kind: str       # short name by which problems are counted, such as ``too long`` or ``unknown word``
    message: str    # the fault, with figures
    is_fatal: bool  # whether the utterance cannot be used


@dataclass
class SpeechData:
    """Utterances of the data, and the problems found so far."""

    utterances: list[Utterance] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


@options_class
class FineTuneOptions(WorkOptions):
    """Options of fine-tuning; ``model``, ``data`` and ``out`` are arguments on the command line."""

    dir: str = opt("work-dir", "", "Folder for logs and what is needed on the way; blank: OUT.work", harmless=True)
    model: str = opt("model", "", "The model folder, of any layout that transcribe takes", harmless=True)
    data: str = opt("data", "", "Data folder of Kaldi, folder of sounds with a text file each, or table (csv, tsv, "
                    "jsonl) of file and text", harmless=True)
    out: str = opt("out", "", "The new model folder", harmless=True)
    check_only: bool = opt("check", False, "Only look at model and data, and say what can be done", harmless=True)

    held_out_data: str | None = opt("held-out-data", None, "Data that decide when training stops and are scored before "
                                    "and after; blank: a part of the data", harmless=True)
    held_out: float = opt("held-out", 0.1, "That part: whole speakers if there are several", least=0,
                          most=1)
    old_data: str | None = opt("old-data", None, "Speech and text like those that the model was made for, of many "
                               "speakers: trained on beside the new data, so that less is forgotten", harmless=True)
    old_test: str | None = opt("old-test", None, "Data like those that the model was made for: scored before and "
                               "after, so that forgetting is seen", harmless=True)
    max_forgetting: float = opt("max-forgetting", 0.1, "Per cent (absolute) by which the word error rate on --old-test "
                                "may rise: the parameters go back towards the old ones as far as that needs; with "
                                "more, the old model stays", least=0)
    speaker_column: str = opt("speaker-column", "speaker", "Column of a table that names the speaker, if it is there")
    min_seconds: float = opt("min-seconds", 0.3, "Shorter utterances are set aside", least=0)
    max_seconds: float = opt("max-seconds", 40.0, "Longer utterances are set aside", least=0)
    allow_upsample: bool = opt("allow-upsample", False, "Take sound with a lower rate than the model's, too")
    max_unknown: float = opt("max-unknown", 0.3, "Part of all words that the model may not know before the text is "
                             "taken for one of another language", least=0, most=1)

    unknown_words: str = opt("unknown-words", "pronounce", "pronounce: by --lexicon, or by what is learned of the "
                             "model's lexicon; spell: by spelling where there is none, too; leave-out: utterances with "
                             "them are set aside", choices=("pronounce", "spell", "leave-out"))
    lexicon: str | None = opt("lexicon", None, "Lexicon (WORD PHONE ...) with the phones of the model, for new words",
                              harmless=True)
    lm_text: str | None = opt("lm-text", None, "Sentences, one per line, for the language model, beside those of the "
                              "data", harmless=True)
    lm_weight: float = opt("lm-weight", 0.5, "Weight of the new text in the language model, beside the old one's",
                           above=0, most=1)
    lm_order: int = opt("lm-order", 3, "Order of language models that are estimated", least=1)

    layers: str = opt("layers", "all", "last: only the output layers learn; upper: the upper half; lower: the lower "
                      "half, which learns voices and rooms and forgets least; all: all, the lower ones more slowly",
                      choices=("last", "upper", "lower", "all"))
    learning_rate: float = opt("learning-rate", 0.0, "Learning rate at first; 0: chosen by held-out data", least=0)
    num_epochs: float = opt("num-epochs", 2.0, "Passes over the data, at most", least=0)
    l2_old: float = opt("l2-old", 0.01, "Strength of the pull towards the old parameters", least=0)
    speed_perturb: bool = opt("speed-perturb", True, "Also train on copies at 0.9 and 1.1 times the speed")
    volume_perturb: bool = opt("volume-perturb", True, "Change the volume at random")
    minibatch_size: str = opt("minibatch-size", "32,16,8", "Chunks per minibatch")
    srand: int = opt("srand", 0, "Seed of all random choices")
    nj: int = opt("nj", 2, "Jobs side by side", harmless=True, least=1)
    use_gpu: str = opt("use-gpu", "optional", "yes|no|optional|wait: train on GPUs", harmless=True,
                       choices=GPU_CHOICES)

    folders: ClassVar[tuple[str, ...]] = ("dir",)

    def check(self) -> None:
        """Raise UsageError for an invalid or missing value; set ``dir`` if it is blank."""
        for name, value in (("model", self.model), ("data", self.data), ("out", self.out or self.check_only)):
            if not value:
                raise UsageError(f"no {name} was given", "nnet3py fine-tune MODEL DATA --out NEW_MODEL")
        if self.check_only:
            CheckedOptions.check(self)
            return
        self.dir = self.dir or f"{self.out.rstrip('/')}.work"
        super().check()


class WorkFolder:
    """Paths of the files of a fine-tuning; ``fine_tuning/__init__.py`` describes their content."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.problems, self.problems_json = self.path / "problems.txt", self.path / "problems.json"
        self.unknown_words = self.path / "unknown_words.txt"
        self.model, self.lang, self.graph = self.path / "model", self.path / "lang", self.path / "graph"
        self.align, self.egs, self.train = self.path / "align", self.path / "egs", self.path / "train"
        self.set_aside = self.align / "set_aside.txt"
        self.final_model, self.choice = self.train / "final.mdl", self.train / "choice.json"
        self.new_model, self.recognized = self.path / "new_model", self.path / "recognized"
        self.scores, self.times = self.path / "scores.json", self.path / "times.json"
        self.published = self.path / "published"             # path to which the new folder was, or will be, moved
        self.report_text, self.report_page = self.path / "report.txt", self.path / "report.html"

    def data(self, part: str) -> Path:
        """Return the data folder of a part, one of PARTS."""
        return self.path / "data" / part

    def features(self, part: str) -> Path:
        """Return the folder of features of a part: train, held_out or old_data."""
        return self.path / "features" / part

    def ivectors(self, part: str) -> Path:
        """Return the folder of i-vectors of a part: train, held_out or old_data."""
        return self.path / "ivectors" / part
