"""How fast the decoder is: frames, tokens and arcs per second, and memory, beside kaldi-decoder where it is installed.

    python benchmarks/decoding.py --runs 3
    python benchmarks/decoding.py --digits FOLDER       # also a folder with HCLG.fst, trans.mdl and loglikes.ark

The graph is a lexicon tree of random words: a state for each beginning of a word, with a loop; from a word's end an
arc with the word leads back to the root. Log-likelihoods are random; ``--spread`` decides how many
states are active. Kaldi's figures are the last line: what latgen-faster-mapped did with such a tree, in processor time
of one core of another machine of this kind.
"""
from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nnet3py.decoding.decoding_graph import DecodingGraph
from nnet3py.decoding.lattice_decoder import Decoder, LatticeDecoder
from nnet3py.decoding.options import DecoderOptions
from nnet3py.hmm.topology import HmmState, HmmTopology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import Constant, ContextDependency, Table, initial_transition_model
from nnet3py.io.streams import open_output
from nnet3py.io.tokens import TokenWriter
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_binary import write_binary_fst

PHONES = 28                     # each with a pdf for entering it and one for staying
MEAN_LENGTH = 7                 # phones in a word
SIMPLE_FRAMES = 20              # for a decoder that searches everything within the beam
OPTIONS = DecoderOptions(beam=15.0, lattice_beam=8.0, max_active=7000)
KALDI = "latgen-faster-mapped, -O2, a tree of 149,467 arcs: 0.86 M tokens/s at 3069 tokens a frame, 1.5 M at 500"


def make_model() -> TransitionModel:
    """One state per phone, with another pdf for its loop."""
    topology = HmmTopology([[HmmState(0, 1, [(0, 0.5), (1, 0.5)]), HmmState()]], dict.fromkeys(range(1, PHONES + 1), 0))
    pairs = tuple(Table(-1, (Constant(2 * p), Constant(2 * p + 1))) for p in range(PHONES))
    return initial_transition_model(ContextDependency(1, 0, Table(0, (None, *pairs))), topology)


def lexicon_tree(num_words: int, model: TransitionModel, rng: np.random.Generator) -> Fst:
    """The graph of a loop of words."""
    loops = np.flatnonzero(model.is_self_loop)
    loop_of_phone = dict(zip(model.transition_id_to_phone[loops].tolist(), loops.tolist(), strict=True))
    others = np.flatnonzero(~model.is_self_loop[1:]) + 1
    forward_of_phone = dict(zip(model.transition_id_to_phone[others].tolist(), others.tolist(), strict=True))
    children: list[dict[int, int]] = [{}]
    arcs: list[tuple[int, int, int, float, int]] = []
    for word in range(1, num_words + 1):
        state = 0
        for phone in rng.integers(1, PHONES + 1, max(2, rng.poisson(MEAN_LENGTH))).tolist():
            if phone not in children[state]:
                children[state][phone] = len(children)
                arcs.append((state, forward_of_phone[phone], 0, 0.7, len(children)))
                arcs.append((len(children), loop_of_phone[phone], 0, 0.7, len(children)))
                children.append({})
            state = children[state][phone]
        arcs.append((state, 0, word, float(np.log(num_words)), 0))
    final = np.full(len(children), NO_WEIGHT, dtype=np.float32)
    final[0] = 0.0
    sources, inputs, outputs, weights, targets = zip(*arcs, strict=True)
    return Fst.from_arcs(0, final, sources, inputs, outputs, weights, targets)


def seconds_of(work: Callable[[], None], runs: int) -> float:
    """The least processor time of several runs."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


class Counts:
    """Active states, of a search frame by frame."""

    def __init__(self, graph: DecodingGraph, likes: np.ndarray) -> None:
        search = LatticeDecoder(graph, OPTIONS)
        self.tokens = 0
        for frame in range(len(likes)):
            search.advance(likes[frame:frame + 1])
            self.tokens += search.num_active


def measure(name: str, graph: DecodingGraph, model: TransitionModel, likes: list[np.ndarray], runs: int) -> None:
    """Print the speed of decoding and of determinizing."""
    decoder = Decoder(graph, model, OPTIONS)
    found = [decoder.decode(one) for one in likes]
    frames, tokens = sum(map(len, likes)), sum(Counts(graph, one).tokens for one in likes)
    decoding = seconds_of(lambda: [decoder.decode(one) for one in likes] and None, runs)
    determinizing = seconds_of(lambda: [decoder.determinize(one) for one in found if one] and None, 1)
    arcs = sum(one.lattice.num_arcs for one in found if one)
    print(f"{name}: {graph.num_states} states, {graph.num_arcs} arcs, {frames} frames, {tokens / frames:.0f} active "
          f"states a frame, {arcs / frames:.1f} arcs a frame in lattices")
    print(f"  decoding {decoding:.2f} s, {frames / decoding:.0f} frames/s, {tokens / decoding / 1e6:.2f} M tokens/s; "
          f"determinizing {determinizing:.2f} s")


def measure_kaldi_decoder(graph: Fst, model: TransitionModel, likes: list[np.ndarray], runs: int) -> None:
    """The same search by kaldi-decoder: with max-active, but for the best path only; lattices without it."""
    try:
        import kaldi_decoder
    except ImportError:
        print("  kaldi-decoder is not installed")
        return
    from nnet3py.fst.openfst import to_openfst

    fst = to_openfst(graph)
    by_id = [np.ascontiguousarray(one[:, model.transition_id_to_pdf[1:]]) for one in likes]
    best = kaldi_decoder.FasterDecoder(fst, kaldi_decoder.FasterDecoderOptions(
        beam=OPTIONS.beam, max_active=OPTIONS.max_active, min_active=OPTIONS.min_active))
    seconds = seconds_of(lambda: [best.decode(kaldi_decoder.DecodableCtc(one)) for one in by_id] and None, runs)
    print(f"  kaldi-decoder's FasterDecoder (best path only): {seconds:.2f} s")
    lattices = kaldi_decoder.LatticeSimpleDecoder(fst, kaldi_decoder.LatticeSimpleDecoderConfig(
        beam=OPTIONS.beam, lattice_beam=OPTIONS.lattice_beam))
    few = by_id[0][:SIMPLE_FRAMES]
    seconds = seconds_of(lambda: lattices.decode(kaldi_decoder.DecodableCtc(few)) and None, 1)
    print(f"  kaldi-decoder's LatticeSimpleDecoder (no max-active): {seconds:.2f} s for {len(few)} frames")


def memory_of(arguments: argparse.Namespace) -> tuple[int, int]:
    """Mebibytes of a process before it decodes, and at most while it does; the graph is mapped from a file."""
    done = subprocess.run([sys.executable, __file__, "--words", str(arguments.words), "--frames",
                           str(arguments.frames), "--spread", str(arguments.spread), "--memory"],
                          capture_output=True, text=True, check=True)
    before, most = map(int, done.stdout.split())
    return before, most


def kibibytes(name: str) -> int:
    """A size of this process, as Linux knows it."""
    return int(re.search(rf"{name}:\s*(\d+) kB", Path("/proc/self/status").read_text())[1])


def show_memory(fst: Fst, model: TransitionModel, likes: list[np.ndarray]) -> None:
    """Print what :func:`memory_of` reads."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/HCLG.fst"
        with open_output(path) as stream:
            write_binary_fst(TokenWriter(stream, binary=True), fst, "const")
        decoder = Decoder(DecodingGraph.read(path, model), model, OPTIONS)
        decoder.decode(likes[0][:1])
        Path("/proc/self/clear_refs").write_text("5")           # the most is counted from here
        before = kibibytes("VmRSS")
        for one in likes:
            decoder.decode(one)
        print(before // 1024, kibibytes("VmHWM") // 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=27000)
    parser.add_argument("--frames", type=int, default=2000)
    parser.add_argument("--spread", type=float, default=1.5, help="standard deviation of the log-likelihoods")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--digits", type=Path, help="a folder with HCLG.fst, trans.mdl and loglikes.ark")
    parser.add_argument("--memory", action="store_true", help="only decode, and show memory before and at most")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    model = make_model()
    fst = lexicon_tree(arguments.words, model, rng)
    graph = DecodingGraph.of_fst(fst, model)
    likes = [(arguments.spread * rng.standard_normal((arguments.frames // 4, model.num_pdfs))).astype(np.float32)
             for _ in range(4)]
    if arguments.memory:
        return show_memory(fst, model, likes)
    measure("lexicon tree", graph, model, likes, arguments.runs)
    measure_kaldi_decoder(fst, model, likes, arguments.runs)
    before, most = memory_of(arguments)
    print(f"  memory: {most - before} MiB for decoding")
    if arguments.digits:
        measure_digits(arguments.digits, arguments.runs)
    print(f"Kaldi: {KALDI}")


def measure_digits(folder: Path, runs: int) -> None:
    """The same for files."""
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import SequentialReader

    model = read_object(folder / "trans.mdl", TransitionModel.read)
    graph = DecodingGraph.read(folder / "HCLG.fst", model)
    with SequentialReader(f"ark:{folder / 'loglikes.ark'}", FLOAT_MATRIX) as reader:
        likes = [matrix for _, matrix in reader]
    measure("digits", graph, model, likes, runs)


if __name__ == "__main__":
    main()
