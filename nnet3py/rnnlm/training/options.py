"""Options of training an RNN language model, for the command line and for Python. Imports nothing heavy.

Options that Kaldi's scripts have (rnnlm/train_rnnlm.sh, rnnlm/choose_features.py) have their names.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nnet3py.errors import UsageError
from nnet3py.option_fields import CheckedOptions, like, opt, settings_of, with_values
from nnet3py.training.options import TrainerOptions

EXACT_UP_TO = 3000               # words of a vocabulary whose scores are all computed; in larger ones words are sampled
DEFAULT_SAMPLES = 512
DEFAULT_DIM = 200


@dataclass
class FeatureOptions(CheckedOptions):
    """Features of words; names and defaults are those of Kaldi's choose_features.py."""

    top_words: int = opt("top-word-features", 2000, "Number of frequent words that have a feature of their own",
                         least=0)
    min_order: int = opt("min-ngram-order", 2, "Length of the shortest letter n-grams that are features; the "
                         "beginning and the end of a word count as letters", least=1)
    max_order: int = opt("max-ngram-order", 3, "Length of the longest letter n-grams", least=1)
    min_frequency: float = opt("min-frequency", 1.0e-05, "Smallest part of the text's words that must have a letter "
                               "n-gram for it to be a feature", least=0)
    max_rms: float = opt("max-feature-rms", 0.01, "Features are scaled down so that none has a larger root mean square "
                         "over the text", least=1e-6)

    def check(self) -> None:
        """Raise UsageError for an invalid value."""
        super().check()
        if self.max_order < self.min_order:
            raise UsageError(f"--max-ngram-order={self.max_order}: expected {self.min_order}, which is "
                             "--min-ngram-order, or more")


@dataclass
class EmbeddingOptions(CheckedOptions):
    """Training of the embedding of words."""

    rate_factor: float = opt("embedding-lrate-factor", 5.0, "Learning rate of the embedding over the network's",
                             least=0)
    max_change: float = opt("embedding-max-change", 1.0, "Limit of the embedding's change in a minibatch (0: none)",
                            least=0)
    l2: float = opt("embedding-l2", 0.0, "L2 regularization: the embedding shrinks by this times its learning rate in "
                    "each minibatch", least=0)
    norm: float = opt("embedding-norm", 0.35, "Approximate length of words' vectors at the start", least=0)


@dataclass
class NetworkOptions(CheckedOptions):
    """Network between the embeddings of input and output words."""

    network: str = opt("network", "", "File of layers (xconfig) or config lines of a network to train, with an input "
                       "and an output of the embedding's dimension; empty: a TDNN-LSTM")
    dim: int = opt("embedding-dim", 0, f"Dimension of words' embeddings (0: that of --network, else {DEFAULT_DIM})",
                   least=0)
    cell_dim: int = opt("cell-dim", 0, "Cells of each LSTM layer (0: as --embedding-dim)", least=0)
    projection_dim: int = opt("projection-dim", 0, "Dimension of the recurrent part of an LSTM layer's output, and of "
                              "the other part (0: a quarter of the cells)", least=0)
    num_lstm_layers: int = opt("num-lstm-layers", 1, "Number of LSTM layers; a layer that sees an earlier word "
                               "precedes the first and follows each", least=0)
    l2: float = opt("l2-regularize", 0.0, "L2 regularization of the layers of the TDNN-LSTM", least=0)


@dataclass
class TrainRnnlmOptions(CheckedOptions):
    """Options of ``nnet3py train-rnnlm``."""

    dir: str = opt("dir", "", "Folder to write", harmless=True)
    words: str = opt("words", "", "File of words and their numbers, such as the words.txt of a lang folder; <brk> is "
                     "added (empty: all words of the texts)")
    unknown_word: str = opt("unknown-word", "<unk>", "Word that replaces words outside the vocabulary; if it is not in "
                            "--words, sentences with such words are left out")
    min_count: int = opt("min-count", 1, "Without --words: least count of a word in the vocabulary", least=1)
    max_words: int = opt("max-words", 0, "Without --words: most words in the vocabulary, by frequency (0: all)",
                         least=0)
    held_out: str = opt("held-out", "", "Text to measure perplexity on after each epoch (empty: every 20th sentence, "
                        "which then is not trained on)")
    num_epochs: int = opt("num-epochs", 4, "Passes over the text", least=1)
    initial_rate: float = opt("initial-effective-lrate", 0.002, "Learning rate at the start", above=0)
    final_rate: float = opt("final-effective-lrate", 0.0001, "Learning rate at the end; it falls exponentially",
                            above=0)
    minibatch_words: int = opt("minibatch-words", 256, "Words of a minibatch", least=1)
    chunk_length: int = opt("chunk-length", 32, "Longer sentences are cut into pieces of this many words", least=2)
    num_samples: int = opt("num-samples", -1, "Words that are sampled to compare outputs with (0: outputs are compared "
                           f"with all words; -1: {DEFAULT_SAMPLES} if there are more than {EXACT_UP_TO} words, "
                           "else all)", least=0)
    sampling_order: int = opt("sampling-order", 3, "Order, 1 to 3, of the n-gram model that words are sampled from, "
                              "if no ARPA file is given", least=1, most=3)
    self_normalize: float = opt("self-normalize", 1.0, "Factor of the penalty that makes outputs log-probabilities "
                                "without normalization", least=0)
    max_change: float = opt("rnnlm-max-change", 1.0, "Limit of the network's change in a minibatch (0: none)", least=0)
    momentum: float = like(TrainerOptions, "momentum", below=1)
    seed: int = opt("seed", 0, "Seed of random parameters, the order of sentences, and samples")
    embedding: EmbeddingOptions = field(default_factory=EmbeddingOptions)
    features: FeatureOptions = field(default_factory=FeatureOptions)
    net: NetworkOptions = field(default_factory=NetworkOptions)

    @property
    def parts(self) -> tuple[CheckedOptions, ...]:
        """Structures of options inside this one."""
        return self.embedding, self.features, self.net

    def check(self) -> None:
        """Raise UsageError for an invalid value."""
        super().check()
        for part in self.parts:
            part.check()
        if not self.dir:
            raise UsageError("--dir was not given", "it names the folder to write")

    def binding(self) -> dict[str, Any]:
        """Return all values on which the model depends, by option name."""
        values = super().binding()
        for part in self.parts:
            values |= part.binding()
        return values

    def samples_of(self, num_words: int) -> int:
        """Return the number of words to sample from a vocabulary; 0: the objective is computed over all words."""
        wanted = self.num_samples
        if wanted < 0:
            wanted = DEFAULT_SAMPLES if num_words > EXACT_UP_TO else 0
        return wanted if wanted < num_words - 1 else 0


def rnnlm_options(values: Mapping[str, Any]) -> TrainRnnlmOptions:
    """Make options from values by name, such as ``num-epochs``.

    Options that are not named keep their defaults; other names are ignored.
    """
    return with_values(TrainRnnlmOptions(
        embedding=with_values(EmbeddingOptions(), values), features=with_values(FeatureOptions(), values),
        net=with_values(NetworkOptions(), values)), values)


SETTINGS = tuple(setting for part in (TrainRnnlmOptions(), *TrainRnnlmOptions().parts) for setting in settings_of(part))
