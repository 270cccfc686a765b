"""Whole trainings: ``train_rnnlm`` makes a folder that recognition can use from texts.

The folder has the files that Kaldi's scripts for rescoring look for (exp/rnnlm).
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
    make_network,
    measure,
    measure_arpa,
    perplexity_of,
    set_first_output,
)
from nnet3py.rnnlm.training.vocabulary import Feature, Vocabulary, choose_features, word_feature_lines, word_features
from nnet3py.training.options import TrainerOptions
from nnet3py.training.train import rate_of_pass

FINAL = "final"
_STATE = "train_rnnlm.json"      # options of the training, and its epochs so far
_HELD_OUT = 20                   # one sentence of so many is held out
_MOST_HELD_OUT = 2000            # sentences
_EMBEDDING_STREAM = 1 << 20      # number of a stream of random numbers, apart from those of the epochs
_LOGGERS_OF_MINIBATCHES = ("nnet3py.training.max_change", "nnet3py.network.orphans")
_PRINT_INTERVAL = 1_000_000      # minibatches: each epoch has a log line of its own


class TrainingFolder:
    """Folder of a model in training.

    ``path``: the folder, made if it is missing.

    Raises UsageError if the folder cannot be made.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        try:
            (self.path / "config").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make the folder {path} ({error.strerror})") from None

    def write_words(self, vocabulary: Vocabulary, features: list[Feature], values: Any, layers: str) -> None:
        """Write the files that training does not change: words, features, special words, the network's layers."""
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
        """Read the files of :meth:`write_model`."""
        embedding = read_object(str(self.path / f"feat_embedding.{name}.mat"), read_matrix)
        return read_nnet(str(self.path / f"{name}.raw")), embedding

    def remove_model(self, name: str) -> None:
        """Remove the files of :meth:`write_model`, if they exist."""
        for file in (f"{name}.raw", f"feat_embedding.{name}.mat"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path / file)

    def read_state(self) -> dict[str, Any] | None:
        """Read the state of an earlier training; None if there was none."""
        path = self.path / _STATE
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            raise FormatError(f"expected the state of a training, as train-rnnlm writes it ({error})", path=str(path),
                              hint="remove the folder to train anew") from None

    def write_state(self, state: dict[str, Any]) -> None:
        """Write the state of the training, for :meth:`read_state`."""
        self._write(_STATE, json.dumps(state, indent=1) + "\n")


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RnnlmEpoch:
    """Pass over the training text, and its results.

    Attributes
    ----------
    epoch : number of the epoch, from 1
    learning_rate : learning rate at the end
    train_perplexity : perplexity of the training text, each minibatch measured before its update; an estimate if words
        are sampled
    perplexity, mean_log_z, log_z_deviation : of the held-out text after the epoch, see :class:`Measured`
    words_per_second : speed of training
    seconds : duration, measuring included
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
    """Epochs and result of a training.

    Attributes
    ----------
    epochs : list of RnnlmEpoch
    num_held_out : number of words of the held-out text, ends of sentences included
    ngram : Measured, the n-gram model's perplexity of that text; None without an ARPA file
    """

    epochs: list[RnnlmEpoch] = field(default_factory=list)
    num_held_out: int = 0
    ngram: Measured | None = None

    @property
    def best(self) -> RnnlmEpoch:
        """Epoch with the lowest perplexity, whose model is the final one."""
        return min(self.epochs, key=lambda epoch: epoch.perplexity)

    def summary(self) -> str:
        """Return the result in one line."""
        ngram = "" if self.ngram is None else (f"; the n-gram model: {self.ngram.perplexity:.2f}" + (
            f" on the {self.ngram.num_words} that it has" if self.ngram.num_words < self.num_held_out else ""))
        return (f"perplexity {self.best.perplexity:.2f} on {self.num_held_out} held-out words (epoch {self.best.epoch} "
                f"of {len(self.epochs)}){ngram}")


def train_rnnlm(texts: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], folder: str | os.PathLike[str],
                **options: str | float | bool | os.PathLike[str]) -> RnnlmHistory:
    """Train an RNN language model on text, and write its folder in Kaldi's form.

    >>> history = nnet3py.train_rnnlm("train.txt", "rnnlm", held_out="dev.txt", embedding_dim=128)
    >>> history.best.perplexity, nnet3py.RnnLanguageModel("rnnlm").log_probs("how are you")

    An interrupted training in the folder, with the same options, goes on after its last epoch.

    Parameters
    ----------
    texts : paths of files with one sentence a line, and at most one ARPA file: its perplexity is shown for comparison,
        and words are sampled from its n-gram model where the vocabulary is large
    folder : folder to write, made if it is missing
    options : those of ``nnet3py train-rnnlm``, with underscores: ``words`` (a words.txt), ``held_out`` (a text),
        ``num_epochs``, ``embedding_dim``, ``network``, ``seed``, …

    Returns
    -------
    RnnlmHistory, with perplexities of each epoch; the folder has the model of the best epoch

    Raises
    ------
    UsageError : invalid options, no text, or a folder with another training
    FormatError : a text, words.txt or ARPA file with wrong contents
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
    """Train with options in a structure, whose field ``dir`` is the folder; raises as :func:`train_rnnlm`."""
    options.check()
    return _Training(paths, options).run()


class _Training:
    """Training of a model on some texts, by :meth:`run`."""

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
        """Train until all epochs are done, after those of an interrupted training; write the folder after each."""
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
            set_first_output(nnet, UNIT)
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
        """Return the options and sizes that an interrupted training must have had to be continued."""
        return {"options": self._options.binding(), "texts": self._texts, "network": text,
                "words": [self._train.num_tokens, self._held_out.num_tokens, len(self._vocabulary)]}

    def _run_epochs(self, nnet: Nnet, embedding: TrainedEmbedding, folder: TrainingFolder,
                    state: dict[str, object]) -> None:
        options, history = self._options, self._history
        trainer = RnnlmTrainer(nnet, embedding, TrainerOptions(
            srand=options.seed, max_param_change=options.max_change, momentum=options.momentum,
            print_interval=_PRINT_INTERVAL), options.self_normalize, self._sampler())
        for number in range(len(history.epochs), options.num_epochs):
            with _no_lines_of_minibatches():
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
def _no_lines_of_minibatches() -> Iterator[None]:
    """Hide log lines about single minibatches, whose totals come at the end."""
    loggers = [logging.getLogger(name) for name in _LOGGERS_OF_MINIBATCHES]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def _texts_and_arpa(paths: Sequence[str]) -> tuple[list[str], str | None]:
    """Return the paths of the texts, and the path of the ARPA file or None."""
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
    """Read the sentences to train on, and the held-out ones."""
    train = read_sentences(texts, vocabulary)
    _warn_of_unknown(train, vocabulary, "the texts")
    if options.held_out:
        held_out = read_sentences([options.held_out], vocabulary)
        _warn_of_unknown(held_out, vocabulary, options.held_out)
        if not len(held_out):
            raise UsageError(f"--held-out={options.held_out} has no sentence of words in the vocabulary")
    else:
        chosen = np.arange(_HELD_OUT - 1, len(train), _HELD_OUT)[:_MOST_HELD_OUT]
        if not len(chosen):
            raise UsageError(f"{len(train)} sentences are too few to hold out one in {_HELD_OUT}", "give --held-out")
        held_out, train = train.chosen(chosen), train.chosen(np.setdiff1d(np.arange(len(train)), chosen))
    if not len(train):
        raise UsageError("there is no sentence to train on", "all have words outside the vocabulary: add those, or "
                         f"{options.unknown_word}, to it")
    return train, held_out


def _warn_of_unknown(sentences: Sentences, vocabulary: Vocabulary, where: str) -> None:
    if sentences.num_left_out:
        logger.warning("%d sentences of %s are left out: they have words outside the vocabulary, which has no unknown "
                       "word (--unknown-word=%s)", sentences.num_left_out, where, vocabulary.unknown)
    elif sentences.num_unknown:
        logger.info("%d words of %s are not in the vocabulary and become %s", sentences.num_unknown, where,
                    vocabulary.unknown)


def _read_arpa(path: str, vocabulary: Vocabulary) -> Arpa:
    """Read an n-gram model, with words as numbers of the vocabulary; n-grams of other words are left out."""
    ids = {word.encode("utf-8", "surrogateescape"): number for word, number in vocabulary.table.ids.items()}
    return read_arpa(path, WordIds(ids), Warner(0))


def _epochs_done(folder: TrainingFolder, state: dict[str, object]) -> list[RnnlmEpoch]:
    """Return the epochs of an interrupted training in the folder; raise UsageError if it was another training."""
    before = folder.read_state()
    if before is None:
        return []
    epochs = before.pop("epochs", [])
    if before != json.loads(json.dumps(state)):
        options, now = before.get("options", {}), json.loads(json.dumps(state["options"]))
        changed = [f"--{name}={value}" for name, value in options.items() if now.get(name) != value]
        what = f"with {', '.join(changed)}" if changed else "on other texts, words or another network"
        raise UsageError(f"{folder.path} has a training {what}, which cannot be continued with these arguments",
                         "give another --dir, or remove that folder")
    return [RnnlmEpoch(**epoch) for epoch in epochs]
