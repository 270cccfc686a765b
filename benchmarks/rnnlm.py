"""How long rescoring lattices with an RNN language model takes, beside the length of their sound; one thread.

    python benchmarks/rnnlm.py                                 # 1,000 lattices for each network
    python benchmarks/rnnlm.py --lattices 50 --only large --way vosk

Lattices are made up: 2.5 words a second; at each border between words a few states, and from each to the next border's
arcs with likely and less likely words, 50 a second. The networks have random parameters: a small one of one layer, and
the TDNN-LSTM of Kaldi's LibriSpeech recipe, with 200,000 words. The old model is a const-ARPA of all words and as many
pairs. Four ways of rescoring. Three replace the old model's costs within a beam: vosk's (order 4, a beam of 3, at most
3000 arcs), that of Kaldi's rnnlm/lmrescore_pruned.sh (order 4, a beam of 4) and that of
lattice-lmrescore-kaldi-rnnlm-pruned without options (order 3, a beam of 6). The last one adds the new model's costs on
all paths (order 3). Times are processor time. Histories are the states of the network that were computed.
"""
from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nnet3py.engine.threads import set_num_threads
from nnet3py.formats.general import SparseMatrix
from nnet3py.fst.arpa import Arpa, Section
from nnet3py.fst.const_arpa import build_const_arpa
from nnet3py.lattices.determinize_options import PrunedCompositionOptions
from nnet3py.lattices.pruned_composition import ConstArpaLm
from nnet3py.lattices.states import top_sorted, trimmed
from nnet3py.network.nnet import Nnet
from nnet3py.rnnlm.folder import RnnlmOptions
from nnet3py.rnnlm.network import History, RnnlmNetwork
from nnet3py.rnnlm.rescoring import rescored_with_rnnlm, rescored_within_beam
from nnet3py.rnnlm.word_embedding import WordEmbedding
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import NO_WEIGHT
from nnet3py.xconfig.expand import expand

BOS, EOS = 1, 2
FIRST_WORD = 3
FEATURES_OF_A_WORD = 14
WORDS_A_SECOND, ARCS_A_SECOND = 2.5, 50
BORDER_STATES = 3
SPREAD = 1.5               # of the scores of words
MARGIN = 3.0               # mean cost of a word that was not said, beyond that of the one that was
TARGET = 0.1               # of the sound's length
NETWORKS = {
    "small": (200, 20_000, 4_000, """
input dim=200 name=input
relu-renorm-layer name=tdnn dim=200 input=Append(0, IfDefined(-1))
fast-lstmp-layer name=lstm cell-dim=200 recurrent-projection-dim=50 non-recurrent-projection-dim=50
output-layer name=output include-log-softmax=false param-stddev=0.05 dim=200
"""),
    "large": (1024, 200_000, 20_000, """
input dim=1024 name=input
relu-renorm-layer name=tdnn1 dim=1024 input=Append(0, IfDefined(-1))
fast-lstmp-layer name=lstm1 cell-dim=1024 recurrent-projection-dim=256 non-recurrent-projection-dim=256
relu-renorm-layer name=tdnn2 dim=1024 input=Append(0, IfDefined(-3))
fast-lstmp-layer name=lstm2 cell-dim=1024 recurrent-projection-dim=256 non-recurrent-projection-dim=256
relu-renorm-layer name=tdnn3 dim=1024 input=Append(0, IfDefined(-3))
output-layer name=output include-log-softmax=false param-stddev=0.05 dim=1024
""")}


WAYS = {"vosk": "vosk's, beam 3", "script": "script's, beam 4", "program": "program's, beam 6", "all": "all paths"}


class Way(NamedTuple):
    """A way of rescoring: a lattice in, a lattice out."""

    key: str
    rescore: Callable[[CompactLattice], CompactLattice]


def make_network(dim: int, num_words: int, num_features: int, xconfig: str, rng: np.random.Generator) -> RnnlmNetwork:
    """A network with random parameters, whose scores of words have the given spread."""
    nnet = Nnet.from_config(expand(xconfig).final, seed=0)
    starts = np.arange(num_words + 1) * FEATURES_OF_A_WORD
    columns = np.sort(rng.integers(0, num_features // FEATURES_OF_A_WORD, (num_words, FEATURES_OF_A_WORD))
                      + np.arange(FEATURES_OF_A_WORD) * (num_features // FEATURES_OF_A_WORD), axis=1)
    features = SparseMatrix(starts, columns.ravel(), np.full(columns.size, 0.5), num_features)
    vectors = rng.standard_normal((num_features, dim), dtype=np.float32) / np.float32(np.sqrt(dim))
    network = RnnlmNetwork(nnet, WordEmbedding(vectors, features), RnnlmOptions(BOS, EOS))
    words = np.arange(FIRST_WORD, FIRST_WORD + 256)
    scores = network.log_probs([network.start] * 256, np.arange(256), words)
    scaled = WordEmbedding(vectors * np.float32(SPREAD / scores.std()), features)
    return RnnlmNetwork(nnet, scaled, RnnlmOptions(BOS, EOS))


def make_old_model(num_words: int, rng: np.random.Generator) -> ConstArpaLm:
    """A const-ARPA of all words and as many pairs. Its scores have mean 0, as those of the network: that models of a
    language agree about the length of sentences is what pruning relies on."""
    words = np.arange(BOS, num_words, dtype=np.int32)
    pairs = np.unique(rng.integers(FIRST_WORD, num_words, (num_words, 2), dtype=np.int32), axis=0)
    scores = rng.standard_normal(len(words)).astype(np.float32)
    return ConstArpaLm(build_const_arpa(Arpa([
        Section(words[:, None], scores, np.zeros(len(words), np.float32)),
        Section(pairs, np.ones(len(pairs), np.float32), np.zeros(len(pairs), np.float32))]), BOS, EOS))


def make_lattice(num_words: int, rng: np.random.Generator) -> tuple[CompactLattice, float]:
    """A lattice of 4 to 14 seconds, and its length in seconds. From each state a word leads to one state, as in those
    that decoders write."""
    places = int(rng.integers(10, 36))
    per_state = round(ARCS_A_SECOND / WORDS_A_SECOND / BORDER_STATES)
    rows = []
    for place in range(places):
        likely = FIRST_WORD + rng.choice(num_words - FIRST_WORD, 10, replace=False)
        for source in [0] if place == 0 else range(1 + (place - 1) * BORDER_STATES, 1 + place * BORDER_STATES):
            others = likely[1:][rng.permutation(9)[:per_state - 1]]
            targets = 1 + place * BORDER_STATES + rng.integers(0, BORDER_STATES, per_state)
            costs = np.concatenate(([0.0], MARGIN / 2 + rng.exponential(MARGIN, per_state - 1)))
            rows += list(zip([source] * per_state, [likely[0], *others], costs, targets, strict=True))
    sources, words, costs, targets = (np.array(column) for column in zip(*rows, strict=True))
    finals = np.full((1 + places * BORDER_STATES, 2), NO_WEIGHT)
    finals[-BORDER_STATES:] = 0
    lengths = np.ones(len(words), int)
    lattice = CompactLattice.from_arcs(0, finals, sources, words, np.stack((costs / 2 + 9, costs / 2), axis=1), lengths,
                                       lengths, targets)
    return top_sorted(trimmed(lattice)), places / WORDS_A_SECOND


def ways_of(network: RnnlmNetwork, old: ConstArpaLm) -> list[Way]:
    """All of them."""
    def within_beam(key: str, order: int, options: PrunedCompositionOptions) -> Way:
        return Way(key, lambda lattice: rescored_within_beam(lattice, old, network, 0.5, order, options))

    return [within_beam("vosk", 4, PrunedCompositionOptions(beam=3.0, max_arcs=3000)),
            within_beam("script", 4, PrunedCompositionOptions(beam=4.0)),
            within_beam("program", 3, PrunedCompositionOptions()),
            Way("all", lambda lattice: rescored_with_rnnlm(lattice, network, 1.0, 3))]


def count_histories(network: RnnlmNetwork) -> list[int]:
    """How many histories are computed at a time from now on: a list that grows."""
    sizes: list[int] = []
    advance = network.advance

    def counted(histories: list[History], words: list[int]) -> list[History]:
        sizes.append(len(words))
        return advance(histories, words)

    network.advance = counted                       # type: ignore[method-assign, assignment]
    return sizes


def measure(name: str, num_lattices: int, only: str | None) -> None:
    """Print a line for the network, and one for each way, or for one of them."""
    rng = np.random.default_rng(0)
    dim, num_words, num_features, xconfig = NETWORKS[name]
    network = make_network(dim, num_words, num_features, xconfig, rng)
    made = [make_lattice(num_words, rng) for _ in range(num_lattices)]
    seconds, arcs = sum(length for _, length in made), sum(lattice.num_arcs for lattice, _ in made)
    print(f"{name}: {num_words:,} words, {dim} dimensions; {num_lattices} lattices, {seconds:.0f} s of sound, "
          f"{arcs / seconds:.1f} arcs a second", flush=True)
    sizes = count_histories(network)
    for way in ways_of(network, make_old_model(num_words, rng)):
        if only in (None, way.key):
            way.rescore(made[0][0])                     # compiles
            sizes.clear()
            start = time.process_time()
            kept = sum(way.rescore(lattice).num_arcs for lattice, _ in made)
            spent = time.process_time() - start
            print(f"  {WAYS[way.key]:17} {spent:8.1f} s, {spent / seconds:.4f} of the sound ("
                  f"{'within' if spent <= TARGET * seconds else 'above'} {TARGET}); {sum(sizes) / seconds:.1f} "
                  f"histories a second, {sum(sizes) / max(len(sizes), 1):.1f} at a time; {kept / seconds:.1f} arcs a "
                  "second are left", flush=True)


def load() -> str:
    """Return the mean number of running processes of the last one and fifteen minutes."""
    minute, _, quarter = os.getloadavg()
    return f"load {minute:.1f} in the last minute, {quarter:.1f} in the last quarter of an hour"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lattices", type=int, default=1000)
    parser.add_argument("--only", choices=tuple(NETWORKS))
    parser.add_argument("--way", choices=tuple(WAYS))
    arguments = parser.parse_args()
    set_num_threads(1)
    print(f"machine: {platform.processor() or platform.machine()}, {os.cpu_count()} cores, one thread; {load()}")
    for name in NETWORKS:
        if arguments.only in (None, name):
            measure(name, arguments.lattices, arguments.way)
    print(f"at the end: {load()}")


if __name__ == "__main__":
    main()
