"""[folder] The folder of a language model, as Kaldi's scripts for rescoring look for it (exp/rnnlm).

[run] A whole training: from texts to a folder that recognition can use.
"""
from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nnet3py import log
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import FormatError, UsageError, within
from nnet3py.formats.matrices import read_matrix, write_matrix
from nnet3py.fst.arpa import Arpa, Warner, WordIds, read_arpa
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.streams import write_text
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.random_sequence import philox
from nnet3py.rnnlm.training.objective import WordDistribution, WordSampler, estimate_arpa
from nnet3py.rnnlm.training.options import SETTINGS, TrainRnnlmOptions, rnnlm_options
from nnet3py.rnnlm.training.text import Sentences, count_words, is_arpa, minibatches, read_sentences
from nnet3py.rnnlm.training.trainer import (
    UNIT,
    Measured,
    RnnlmTrainer,
    TrainedEmbedding,
    initial_embedding,
    layers,
    let_first_output_be,
    make_network,
    measure,
    measure_arpa,
    perplexity_of,
)
from nnet3py.rnnlm.training.vocabulary import Feature, Vocabulary, choose_features, word_feature_lines, word_features
from nnet3py.training.train import rate_of_pass
from nnet3py.training.trainer import TrainerOptions

FINAL = "final"
_STATE = "train_rnnlm.json"      # what the training was given, and how far it has come
_HELD_OUT = 20                   # one sentence of so many is held out
_MOST_HELD_OUT = 2000            # sentences
_EMBEDDING_STREAM = 1 << 20      # of random numbers, beside those of the epochs
_TALKATIVE = ("nnet3py.training.max_change", "nnet3py.network.orphans")
_PRINT_INTERVAL = 1_000_000      # minibatches: the epochs' lines say enough


class TrainingFolder:
    """Reads and writes the files.

    Parameters
    ----------
    path : made if it is missing

    Raises
    ------
    UsageError : the folder cannot be made
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        try:
            (self.path / "config").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make the folder {path} ({error.strerror})") from None

    def write_words(self, vocabulary: Vocabulary, features: list[Feature], values: Any, layers: str) -> None:
        """Write all that is there before training: words, their features and special ones, and the network's layers."""
        for place in ("words.txt", "config/words.txt"):
            vocabulary.table.write(str(self.path / place))
        options = vocabulary.option_lines()
        self._write("special_symbol_opts.txt", " ".join(options) + "\n")          # Kaldi's scripts paste this one
        self._write("special_symbol_opts.conf", "\n".join(options) + "\n")        # vosk reads this one
        self._write("config/oov.txt", f"{vocabulary.unknown}\n" if vocabulary.unk >= 0 else "\n")
        self._write("config/features.txt", "".join(f"{number}\t{feature.line()}\n"
                                                   for number, feature in enumerate(features)))
        self._write("config/xconfig", layers)
        self._write("unigram_probs.txt", "".join(f"{number} {prob:.6g}\n"
                                                 for number, prob in enumerate(vocabulary.probs())))
        self._write("word_feats.txt", word_feature_lines(values))

    def _write(self, name: str, text: str) -> None:
        write_text(str(self.path / name), text)

    def write_model(self, name: str, nnet: Nnet, embedding: np.ndarray) -> None:
        """Write ``NAME.raw`` and ``feat_embedding.NAME.mat``."""
        write_object(self.path / f"feat_embedding.{name}.mat", lambda writer: write_matrix(writer, embedding))
        nnet.write(str(self.path / f"{name}.raw"))

    def read_model(self, name: str) -> tuple[Nnet, np.ndarray]:
        """What :meth:`write_model` wrote."""
        embedding = read_object(str(self.path / f"feat_embedding.{name}.mat"), read_matrix)
        return read_nnet(str(self.path / f"{name}.raw")), embedding

    def remove_model(self, name: str) -> None:
        """Remove these files, if they are there."""
        for file in (f"{name}.raw", f"feat_embedding.{name}.mat"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path / file)

    # -- what resumes ------------------------------------------------------------------------------------------------

    def read_state(self) -> dict[str, Any] | None:
        """What an earlier training wrote by :meth:`write_state`; None if there was none."""
        path = self.path / _STATE
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            raise FormatError(f"expected what a training wrote ({error})", path=str(path),
                              hint="remove the folder to train anew") from None

    def write_state(self, state: dict[str, Any]) -> None:
        """Write how far the training has come."""
        self._write(_STATE, json.dumps(state, indent=1) + "\n")


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RnnlmEpoch:
    """A pass over the text.

    Attributes
    ----------
    epoch : 1 for the first
    learning_rate : at its end
    train_perplexity : of the words trained on, while the model changed; if words are drawn, an estimate
    perplexity, mean_log_z, log_z_deviation : of the held-out text afterwards, see :class:`Measured`
    words_per_second : in training
    seconds : that it took, measuring included
    """

    epoch: int
    learning_rate: float
    train_perplexity: float
    perplexity: float
    mean_log_z: float
    log_z_deviation: float
    words_per_second: float
    seconds: float

    def __str__(self) -> str:
        return (f"epoch {self.epoch}: perplexity {self.perplexity:.2f} on the held-out text (log Z "
                f"{self.mean_log_z:.3f} +- {self.log_z_deviation:.3f}), {self.train_perplexity:.2f} in training; "
                f"{self.words_per_second:.0f} words a second, {self.seconds:.1f} s")


@dataclass
class RnnlmHistory:
    """What a training did.

    Attributes
    ----------
    epochs : one for each pass
    num_held_out : words of the held-out text, ends of sentences included
    ngram : what the n-gram model that was given says of that text; None without one
    """

    epochs: list[RnnlmEpoch] = field(default_factory=list)
    num_held_out: int = 0
    ngram: Measured | None = None

    @property
    def best(self) -> RnnlmEpoch:
        """The epoch whose model is the final one: that with the lowest perplexity."""
        return min(self.epochs, key=lambda epoch: epoch.perplexity)

    def summary(self) -> str:
        """The result in one line."""
        ngram = "" if self.ngram is None else (f"; the n-gram model: {self.ngram.perplexity:.2f}" + (
            f" on the {self.ngram.num_words} that it has" if self.ngram.num_words < self.num_held_out else ""))
        return (f"perplexity {self.best.perplexity:.2f} on {self.num_held_out} held-out words (epoch {self.best.epoch} "
                f"of {len(self.epochs)}){ngram}")


def train_rnnlm(texts: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], folder: str | os.PathLike[str],
                **options: Any) -> RnnlmHistory:
    """Train an RNN language model on text, and write its folder, in the form of Kaldi's.

    >>> history = nnet3py.train_rnnlm("train.txt", "rnnlm", held_out="dev.txt", embedding_dim=128)
    >>> history.best.perplexity, nnet3py.RnnLanguageModel("rnnlm").log_probs("how are you")

    Where the folder has an interrupted training with the same options, it goes on after its last epoch.

    Parameters
    ----------
    texts : files with one sentence a line, and at most one ARPA file, whose n-gram model is compared with, and says
        which words are likely where outputs are compared with a sample of all words only
    folder : made if it is missing
    options : those of ``nnet3py train-rnnlm``, with underscores: ``words`` (a words.txt), ``held_out`` (a text),
        ``num_epochs``, ``embedding_dim``, ``network``, ``seed``, …

    Returns
    -------
    RnnlmHistory, with perplexities of each epoch; the folder has the model of the best one

    Raises
    ------
    UsageError : options that make no sense, no text, or a folder with another training
    FormatError : files that are not what they should be
    ConfigError : a network that cannot be a language model
    NumericError : the training has diverged
    """
    names = {setting.name.replace("-", "_"): setting for setting in SETTINGS}
    for name, value in options.items():
        if name not in names or name == "dir":
            raise UsageError(f"train_rnnlm has no option {name}", f"it has {', '.join(sorted(names.keys() - {'dir'}))}")
        kind = type(names[name].default)
        if not isinstance(value, (int, float) if kind is float else (str, os.PathLike) if kind is str else kind):
            raise UsageError(f"{name}={value!r}: expected {kind.__name__}, found {type(value).__name__}")
    values = {names[name].name: os.fspath(value) if isinstance(value, os.PathLike) else value
              for name, value in options.items()}
    paths = [texts] if isinstance(texts, str | os.PathLike) else texts
    return train_on([os.fspath(path) for path in paths], rnnlm_options({**values, "dir": os.fspath(folder)}))


def train_on(paths: Sequence[str], options: TrainRnnlmOptions) -> RnnlmHistory:
    """The same with all options in a structure. Arguments and errors as for :func:`train_rnnlm`."""
    options.check()
    return _Training(paths, options).run()


class _Training:
    """One training."""

    def __init__(self, paths: Sequence[str], options: TrainRnnlmOptions) -> None:
        self._options = options
        self._texts, arpa_path = _texts_and_arpa(paths)
        counts = count_words(self._texts)
        self._vocabulary = vocabulary = _vocabulary(counts, options)
        self._train, self._held_out = _sentences(self._texts, vocabulary, options)
        vocabulary.counts = np.bincount(self._train.words, minlength=len(vocabulary))
        self._arpa = _read_arpa(arpa_path, vocabulary) if arpa_path else None
        self._history = RnnlmHistory(num_held_out=self._held_out.num_tokens)
        logger.info("%d words to train on in %d sentences, %d held out; %d words in the vocabulary",
                    self._train.num_tokens, len(self._train), self._held_out.num_tokens, len(vocabulary))

    def run(self) -> RnnlmHistory:
        """Train, or go on, until all epochs are done; the folder is written after each."""
        options, vocabulary, history = self._options, self._vocabulary, self._history
        text = layers(options.net)
        nnet = make_network(options.net, text, options.seed)
        features = choose_features(vocabulary, options.features)
        values = word_features(vocabulary, features)
        folder = TrainingFolder(options.dir)
        state = self._state(text)
        done = _epochs_done(folder, state)
        if done:
            nnet, matrix = folder.read_model(str(len(done)))
            history.epochs = done
            logger.info("Going on after epoch %d of the training in %s", len(done), options.dir)
        else:
            let_first_output_be(nnet, UNIT)
            matrix = initial_embedding(vocabulary, features, nnet.input_dim("input"), options.embedding.norm,
                                       values.nnz / max(1, len(vocabulary) - 1),
                                       philox(_EMBEDDING_STREAM + options.seed))
            folder.write_words(vocabulary, features, values, text)
        embedding = TrainedEmbedding(values, matrix, options.embedding)
        if self._arpa is not None:
            history.ngram = measure_arpa(self._arpa, self._held_out, vocabulary)
            logger.info("The n-gram model: perplexity %.2f on %d held-out words", history.ngram.perplexity,
                        history.ngram.num_words)
        if len(done) < options.num_epochs:
            self._run_epochs(nnet, embedding, folder, state)
        logger.info("%s: %s", options.dir, history.summary())
        return history

    def _state(self, text: str) -> dict[str, object]:
        """What the training depends on."""
        return {"options": self._options.binding(), "texts": self._texts, "network": text,
                "words": [self._train.num_tokens, self._held_out.num_tokens, len(self._vocabulary)]}

    def _run_epochs(self, nnet: Nnet, embedding: TrainedEmbedding, folder: TrainingFolder,
                    state: dict[str, object]) -> None:
        options, history = self._options, self._history
        trainer = RnnlmTrainer(nnet, embedding, TrainerOptions(
            srand=options.seed, max_param_change=options.max_change, momentum=options.momentum,
            print_interval=_PRINT_INTERVAL), options.self_normalize, self._sampler())
        for number in range(len(history.epochs), options.num_epochs):
            with _fewer_lines():
                epoch = self._epoch(trainer, number)
            history.epochs.append(epoch)
            logger.info("%s", epoch)
            folder.write_model(str(epoch.epoch), nnet, embedding.matrix)
            if history.best is epoch:
                folder.write_model(FINAL, nnet, embedding.matrix)
            folder.write_state({**state, "epochs": [asdict(epoch) for epoch in history.epochs]})
            folder.remove_model(str(epoch.epoch - 1))
        trainer.log_totals()

    def _sampler(self) -> WordSampler | None:
        num_samples = self._options.samples_of(len(self._vocabulary))
        if not num_samples:
            return None
        arpa = self._arpa or estimate_arpa(self._train, self._vocabulary, self._options.sampling_order)
        logger.info("Outputs are compared with %d words drawn from a %d-gram model", num_samples, arpa.order)
        return WordSampler(WordDistribution(arpa, self._vocabulary), self._vocabulary, num_samples)

    def _epoch(self, trainer: RnnlmTrainer, number: int) -> RnnlmEpoch:
        options, vocabulary = self._options, self._vocabulary
        begin, before = time.monotonic(), trainer.totals()
        total = options.num_epochs * self._train.num_tokens
        done, rate = number * self._train.num_tokens, options.initial_rate
        batches = minibatches(self._train, vocabulary, options.chunk_length, options.minibatch_words,
                              philox((options.seed << 16) + number))
        for eg in log.progress(batches, f"epoch {number + 1} of {options.num_epochs}", self._train.num_tokens,
                               lambda eg: eg.num_words):
            rate = rate_of_pass(min(done, total), total, options.initial_rate, options.final_rate)
            trainer.set_learning_rate(rate)
            with within(f"minibatch {trainer.num_minibatches}"):
                trainer.train(eg)
            done += eg.num_words
        trained = time.monotonic() - begin
        log_prob, weight = (after - earlier for after, earlier in zip(trainer.totals(), before, strict=True))
        measured = measure(trainer.nnet, trainer.embedding.vectors(), self._held_out, vocabulary)
        return RnnlmEpoch(number + 1, rate, perplexity_of(-log_prob / weight), measured.perplexity, measured.mean_log_z,
                          measured.log_z_deviation, weight / trained, time.monotonic() - begin)


@contextmanager
def _fewer_lines() -> Iterator[None]:
    """Leave out what is said of single minibatches, whose totals the closing lines have, and of single measurements."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    levels = [its.level for its in loggers]
    for its in loggers:
        its.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for its, level in zip(loggers, levels, strict=True):
            its.setLevel(level)


def _texts_and_arpa(paths: Sequence[str]) -> tuple[list[str], str | None]:
    """The texts, and the ARPA file if there is one."""
    arpas = [path for path in paths if is_arpa(path)]
    texts = [path for path in paths if path not in arpas]
    if len(arpas) > 1:
        raise UsageError(f"expected one ARPA file at most, found {' and '.join(arpas)}")
    if not texts:
        raise UsageError(f"expected a text to train on, found {'only the ARPA file ' + arpas[0] if arpas else 'none'}",
                         "nnet3py train-rnnlm text.txt --dir=exp/rnnlm")
    return texts, arpas[0] if arpas else None


def _vocabulary(counts: Counter[str], options: TrainRnnlmOptions) -> Vocabulary:
    if not options.words:
        return Vocabulary.of_counts(counts, options.unknown_word, options.min_count, options.max_words)
    vocabulary = Vocabulary.of_table(SymbolTable.read(options.words), options.unknown_word)
    if not any(word in vocabulary.table for word in counts):
        raise UsageError(f"no word of the texts is in {options.words}",
                         "is one in capital letters, the other in small ones?")
    return vocabulary


def _sentences(texts: list[str], vocabulary: Vocabulary, options: TrainRnnlmOptions) -> tuple[Sentences, Sentences]:
    """What is trained on, and what is held out."""
    train = read_sentences(texts, vocabulary)
    _warn_of_unknown(train, vocabulary, "the texts")
    if options.held_out:
        held_out = read_sentences([options.held_out], vocabulary)
        _warn_of_unknown(held_out, vocabulary, options.held_out)
        if not len(held_out):
            raise UsageError(f"--held-out={options.held_out} has no sentence of the vocabulary's words")
    else:
        chosen = np.arange(_HELD_OUT - 1, len(train), _HELD_OUT)[:_MOST_HELD_OUT]
        if not len(chosen):
            raise UsageError(f"{len(train)} sentences are too few to hold out one in {_HELD_OUT}", "give --held-out")
        held_out, train = train.chosen(chosen), train.chosen(np.setdiff1d(np.arange(len(train)), chosen))
    if not len(train):
        raise UsageError("there is no sentence to train on", "have the vocabulary contain all words of some sentences, "
                         f"or {options.unknown_word}")
    return train, held_out


def _warn_of_unknown(sentences: Sentences, vocabulary: Vocabulary, where: str) -> None:
    if sentences.num_left_out:
        logger.warning("%d sentences of %s are left out, for their words are not in the vocabulary, nor has it a word "
                       "for unknown ones (--unknown-word=%s)", sentences.num_left_out, where, vocabulary.unknown)
    elif sentences.num_unknown:
        logger.info("%d words of %s are unknown: %s", sentences.num_unknown, where, vocabulary.unknown)


def _read_arpa(path: str, vocabulary: Vocabulary) -> Arpa:
    """An n-gram model with the vocabulary's numbers; n-grams of other words are left out."""
    ids = {word.encode("utf-8", "surrogateescape"): number for word, number in vocabulary.table.ids.items()}
    return read_arpa(path, WordIds(ids), Warner(0))


def _epochs_done(folder: TrainingFolder, state: dict[str, object]) -> list[RnnlmEpoch]:
    """The epochs of an earlier training in the folder; UsageError if it was another one."""
    before = folder.read_state()
    if before is None:
        return []
    epochs = before.pop("epochs", [])
    if before != json.loads(json.dumps(state)):
        options, now = before.get("options", {}), json.loads(json.dumps(state["options"]))
        changed = [f"--{name}={value}" for name, value in options.items() if now.get(name) != value]
        what = f"with {', '.join(changed)}" if changed else "on other texts, words or another network"
        raise UsageError(f"{folder.path} has a training {what}", "give another --dir, or remove that folder")
    return [RnnlmEpoch(**epoch) for epoch in epochs]
