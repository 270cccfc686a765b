"""Time and memory of each stage of making a decoding graph of word size, by the commands that mkgraph.sh runs.

    python benchmarks/graphs.py [--words 20000] [--ngrams 300000] [--folder FOLDER]

Lexicon, text and model are made here from random numbers: words of 2 to 10 of 40 phones, sentences in which words are
as frequent as in natural languages and follow each other accordingly, a 3-gram with as many n-grams as were asked for,
and a left-biphone tree. Prints a line for each command: seconds by the clock and of computing, megabytes, states and
arcs of what it wrote. Writes nothing but FOLDER.
"""
from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from nnet3py.decoding.grammar import Ngram
from nnet3py.decoding.graph import write_lang
from nnet3py.decoding.lexicon import Silence, make_lang, read_lexicon
from nnet3py.hmm.topology import chain_topology
from nnet3py.hmm.tree import Constant, ContextDependency, Table, initial_transition_model
from nnet3py.io.object_files import write_object

ROOT = Path(__file__).resolve().parent.parent
PHONES = [f"p{i:02}" for i in range(40)]
FOLLOWERS = 40                # words that each word is likely to be followed by
LIKELY = 0.7                  # how often one of them follows

SIZES = """
import sys
from nnet3py.transducers.fst_text import read_fst_file
fst = read_fst_file(sys.argv[1])
print(fst.num_states, fst.num_arcs)
"""
STAGES = """
arpa2fst --disambig-symbol=#0 --read-symbol-table=words.txt lm.arpa G.fst
fsttablecompose L_disambig.fst G.fst LG1.fst
fstdeterminizestar --use-log=true LG1.fst LG2.fst
fstminimizeencoded LG2.fst LG3.fst
fstpushspecial LG3.fst LG.fst
fstisstochastic LG.fst
fstcomposecontext --context-size=2 --central-position=1 --read-disambig-syms=disambig.int \
--write-disambig-syms=ilabels.int ilabels LG.fst CLG1.fst
fstarcsort --sort_type=ilabel CLG1.fst CLG.fst
make-h-transducer --disambig-syms-out=disambig_tid.int ilabels tree trans.mdl Ha.fst
fsttablecompose Ha.fst CLG.fst HCLG1.fst
fstdeterminizestar --use-log=true HCLG1.fst HCLG2.fst
fstrmsymbols disambig_tid.int HCLG2.fst HCLG3.fst
fstrmepslocal HCLG3.fst HCLG4.fst
fstminimizeencoded HCLG4.fst HCLGa.fst
add-self-loops --self-loop-scale=1.0 trans.mdl HCLGa.fst HCLG5.fst
fstconvert --fst_type=const HCLG5.fst HCLG.fst
"""


def make_lexicon(words: int, draw: np.random.Generator) -> list[str]:
    """Lines of words and random phones; some words sound alike."""
    lengths = np.clip(draw.poisson(5.5, words), 2, 10)
    return [f"w{i} {' '.join(draw.choice(PHONES, size))}" for i, size in enumerate(lengths.tolist())]


def sentences(words: int, tokens: int, draw: np.random.Generator) -> list[list[str]]:
    """Random text of so many words."""
    frequencies = 1.0 / np.arange(1, words + 1)
    cumulative = np.cumsum(frequencies / frequencies.sum())
    followers = np.searchsorted(cumulative, draw.random((words, FOLLOWERS)))
    text, word = [], 0
    for length in draw.integers(5, 25, tokens // 15).tolist():
        sentence = []
        for likely, number, place in zip(draw.random(length) < LIKELY, draw.random(length),
                                         draw.integers(FOLLOWERS, size=length), strict=True):
            word = int(followers[word, place]) if likely else int(np.searchsorted(cumulative, number))
            sentence.append(f"w{min(word, words - 1)}")
        text.append(sentence)
    return text


def estimate(words: int, ngrams: int, draw: np.random.Generator) -> Ngram:
    """A 3-gram of about so many n-grams."""
    tokens = ngrams // 2
    while True:
        model = Ngram.estimate(sentences(words, tokens, draw), 3, [f"w{i}" for i in range(words)])
        if len(model.log10_probs) >= ngrams:
            return model
        tokens = int(tokens * 1.2 * ngrams / len(model.log10_probs))


def write_inputs(words: int, ngrams: int) -> None:
    """Lexicon, language model, tree and model in the current folder."""
    draw = np.random.default_rng(1)
    Path("lexicon.txt").write_text("\n".join(make_lexicon(words, draw)) + "\n")
    lang = make_lang(read_lexicon("lexicon.txt"), None, Silence("SIL", 0.5))
    write_lang(".", lang)
    Path("disambig.int").write_text("".join(f"{number}\n" for number in lang.phones.disambiguation))
    model = estimate(words, ngrams, draw)
    model.write("lm.arpa")
    print(f"{words} words, {len(model.log10_probs)} n-grams", flush=True)
    phones = [number for number, name in lang.phones.names.items() if number and not name.startswith("#")]
    topology = chain_topology(phones)
    pdfs = iter(range(1 << 20))
    size = max(phones) + 1
    tree = ContextDependency(2, 1, Table(1, tuple(
        Table(0, tuple(Table(-1, (Constant(next(pdfs)), Constant(next(pdfs)))) for _ in range(size)))
        if phone in phones else None for phone in range(size))))
    write_object("tree", tree.write)
    write_object("trans.mdl", initial_transition_model(tree, topology).write)


def run(words: list[str]) -> tuple[float, float, float]:
    """Seconds by the clock, seconds of computing, and megabytes that a command took."""
    begun = time.perf_counter()
    child = os.posix_spawn(str(ROOT / "bin" / words[0]), words, {**os.environ}, file_actions=[
        (os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)])
    _, status, usage = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1) or status and words[0] != "fstisstochastic":
        sys.exit(f"{' '.join(words)} failed: run it in {os.getcwd()}")
    return time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024.0


def sizes(name: str) -> str:
    """States and arcs of an FST, where it is one."""
    if not name.endswith(".fst"):
        return ""
    told = subprocess.run([sys.executable, "-c", SIZES, name], capture_output=True, text=True, check=True).stdout
    return "".join(f"{number:>10}" for number in told.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=20_000)
    parser.add_argument("--ngrams", type=int, default=300_000)
    parser.add_argument("--folder", help="where files are made, and stay; otherwise they are removed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(folder)
        maker = multiprocessing.get_context("spawn").Process(target=write_inputs,
                                                             args=(arguments.words, arguments.ngrams))
        maker.start()             # by itself: the memory of whoever starts a command counts as the command's
        maker.join()
        total, computing, most = 0.0, 0.0, 0.0
        print(f"{'command':24}{'seconds':>9}{'of CPU':>9}{'MB':>8}{'states':>10}{'arcs':>10}")
        for line in STAGES.strip().splitlines():
            words = line.split()
            seconds, cpu, megabytes = run(words)
            total, computing, most = total + seconds, computing + cpu, max(most, megabytes)
            print(f"{words[0]:24}{seconds:9.1f}{cpu:9.1f}{megabytes:8.0f}{sizes(words[-1])}", flush=True)
        print(f"{'all':24}{total:9.1f}{computing:9.1f}{most:8.0f}")
        os.chdir("/")


if __name__ == "__main__":
    main()
