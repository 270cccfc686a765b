"""compute-wer, compute-wer-bootci, align-text and word-error-rate: recognized text compared with references.
"""
from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import FormatError, Nnet3Error

_MODE = option("mode", str, "strict", "How a missing hypothesis counts: strict: an error; all: one without words; "
               "present: not counted", choices=("strict", "all", "present"))


def _rates(errors: int, count: int) -> str:
    """Format an error rate in percent with two decimals; for a count of 0, as C prints it: "inf" or "-nan"."""
    return f"{100.0 * errors / count:.2f}" if count else ("inf" if errors else "-nan")


def _both(reference: str, hypotheses: list[str], mode: str) -> Iterator[tuple[str, list[str], list[list[str] | None]]]:
    """Yield each reference utterance: key, words, and its words in each hypothesis table, None where it is missing."""
    from nnet3py.formats.holders import TOKEN_VECTOR
    from nnet3py.io.random_access import RandomAccessReader
    from nnet3py.io.tables import SequentialReader

    with ExitStack() as stack:
        readers = [stack.enter_context(RandomAccessReader(name, TOKEN_VECTOR)) for name in hypotheses]
        for key, words in stack.enter_context(SequentialReader(reference, TOKEN_VECTOR)):
            sequences = [reader.get(key) for reader in readers]
            if mode == "strict" and any(sequence is None for sequence in sequences):
                raise FormatError(f"No hypothesis for key {key} and strict mode specifier.",
                                  hint="--mode=all counts it as empty, --mode=present leaves it out")
            yield key, words, sequences


@kaldi_command("compute-wer", "Scoring", "Print word error rates.", """
Print the word error rate and the sentence error rate of a table of hypotheses against a table of references.

Usage: compute-wer [options] <ref-rspecifier> <hyp-rspecifier>
e.g.:
 compute-wer --text --mode=present ark:data/test/text ark:hyp_text
See also: compute-wer-bootci, align-text, word-error-rate
""", arguments=(2, 2), options=[_MODE, option("text", bool, False, "No effect, as in Kaldi")])
def compute_wer(args: list[str], options: Options) -> int:
    from nnet3py.decoding.word_errors import edit_distance

    words = sentences = wrong = absent = 0
    kinds = [0, 0, 0]
    for _, reference, (hypothesis,) in _both(args[0], [args[1]], options.mode):
        absent += hypothesis is None
        if hypothesis is None and options.mode == "present":
            continue
        edits = edit_distance(reference, hypothesis or [])
        kinds = [a + b for a, b in zip(kinds, edits, strict=True)]
        words, sentences, wrong = words + len(reference), sentences + 1, wrong + (edits.total > 0)
    total = sum(kinds)
    sys.stdout.write(
        f"%WER {_rates(total, words)} [ {total} / {words}, {kinds[0]} ins, {kinds[1]} del, {kinds[2]} sub ]"
        f"{' [PARTIAL]' if absent else ''}\n%SER {_rates(wrong, sentences)} [ {wrong} / {sentences} ]\n"
        f"Scored {sentences} sentences, {absent} not present in hyp.\n")
    return 0


@kaldi_command("compute-wer-bootci", "Scoring", "Print confidence intervals of word error rates.", """
Print the word error rate and its 95 % confidence interval, by bootstrapping: from random samples of the utterances.
With a second table of hypotheses, print both, and the probability that the second has fewer errors.

Usage: compute-wer-bootci [options] <ref-rspecifier> <hyp-rspecifier> [<hyp2-rspecifier>]
e.g.:
 compute-wer-bootci --mode=present ark:data/test/text ark:hyp_text
See also: compute-wer
""", arguments=(2, 3), options=[_MODE, option("replications", int, 10000, "Number of random samples", least=1)])
def compute_wer_bootci(args: list[str], options: Options) -> int:
    from nnet3py.decoding.word_errors import Resampler, edit_distance

    errors: list[list[int]] = [[] for _ in args[1:]]
    words: list[int] = []
    for _, reference, hypotheses in _both(args[0], args[1:], options.mode):
        if options.mode == "present" and any(text is None for text in hypotheses):
            continue
        words.append(len(reference))
        for counts, hypothesis in zip(errors, hypotheses, strict=True):
            counts.append(edit_distance(reference, hypothesis or []).total)
    if not words:
        raise Nnet3Error("there are no utterances to draw samples of")
    resampler = Resampler(options.replications)
    lines = []
    for number, counts in enumerate(errors, 1):
        mean, width = (100.0 * value for value in resampler.interval(counts, words))
        lines.append(f"Set{number}: %WER {mean:.2f} 95% Conf Interval [ {mean - width:.2f}, {mean + width:.2f} ]\n")
    if len(errors) == 2:
        lines.append(f"Probability of Set2 improving Set1: {100.0 * resampler.improvement(*errors):.2f}\n")
    sys.stdout.write("".join(lines))
    return 0


@kaldi_command("align-text", "Scoring", "Align the words of hypotheses with references.", """
Align the words of two tables, and write a table of pairs of words, with --separator between pairs and --special-symbol
in place of a missing word.

Usage: align-text [options] <text1-rspecifier> <text2-rspecifier> <alignment-wspecifier>
e.g.:
 align-text --special-symbol="'***'" ark:data/test/text ark:hyp_text ark,t:aligned.txt
See also: compute-wer
""", arguments=(3, 3), options=[
    option("special-symbol", str, "<eps>", "Symbol in place of a missing word; not a word of the tables"),
    option("separator", str, ";", "Symbol between pairs"),
])
def align_text(args: list[str], options: Options) -> int:
    from nnet3py.decoding.word_errors import align
    from nnet3py.formats.holders import TOKEN_VECTOR
    from nnet3py.io.tables import TableWriter

    done = failed = 0
    gap = options.special_symbol
    with TableWriter(args[2], TOKEN_VECTOR) as writer:
        for key, first, (second,) in _both(args[0], [args[1]], "present"):
            if second is None:
                log.warning(f"Key {key} is in text1 but not in text2")
                failed += 1
                continue
            if gap in first or gap in second:
                raise FormatError(f"utterance {key} has the word '{gap}', which is the special symbol",
                                  hint="give another --special-symbol")
            tokens: list[str] = []
            for pair in align(first, second, gap):
                tokens += [options.separator, *pair] if tokens else pair
            writer.write(key, tokens)
            done += 1
    log.log(f"Done {done} sentences, failed for {failed}")
    return 0 if done else 1


@kaldi_command("word-error-rate", "Decoding", "Print word error rates of text files.", """
Compare recognized words with reference transcripts, and print the word error rate and the sentence error rate as
Kaldi's compute-wer does. Both files have lines UTTERANCE WORD WORD ...; with --word-symbol-table, the hypothesis has
numbers of words, such as nnet3-latgen-faster writes.

Usage: word-error-rate [options] <reference-text> <hypothesis-text>
e.g.: word-error-rate data/test/text exp/decode/text
or, from numbers of words, with the errors of each utterance in a file of its own:
 word-error-rate --word-symbol-table=exp/graph/words.txt --details=exp/per_utt data/test/text exp/decode/words.txt
See also: nnet3-latgen-faster, lattice-best-path
""", arguments=(2, 2), options=[
    option("mode", str, "strict", "How an utterance without hypothesis counts: strict: an error that ends the command; "
           "all: without any words; present: left out", choices=("strict", "all", "present")),
    option("word-symbol-table", str, "", "words.txt, for a hypothesis with numbers of words"),
    option("details", str, "", "File for the alignment of reference and hypothesis of each utterance"),
])
def word_error_rate(args: list[str], options: Options) -> int:
    from nnet3py.decoding.symbols import SymbolTable, read_transcripts
    from nnet3py.decoding.word_errors import WordErrors, alignment_lines
    from nnet3py.io.streams import write_text

    reference, hypothesis = (read_transcripts(_file_name(name)) for name in args)
    if options.word_symbol_table:
        table = SymbolTable.read(options.word_symbol_table)
        hypothesis = {key: table.text(_numbers(key, words)).split() for key, words in hypothesis.items()}
    errors, lines = WordErrors(), []
    for key, words in reference.items():
        if key not in hypothesis:
            if options.mode == "strict":
                raise FormatError(f"utterance {key} is not in the hypothesis", path=args[1],
                                  hint="--mode=all counts it as empty, --mode=present leaves it out")
            errors.missing += 1
            if options.mode == "present":
                continue
        errors.add(words, hypothesis.get(key, []))
        lines.append(alignment_lines(key, words, hypothesis.get(key, [])) if options.details else "")
    unknown = hypothesis.keys() - reference.keys()
    if unknown:
        log.warning(f"{len(unknown)} utterances of the hypothesis are not in the reference, such as {min(unknown)}")
    if options.details:
        write_text(options.details, "".join(lines))
    sys.stdout.write(errors.report())
    return 0 if errors.sentences else 1


def _file_name(name: str) -> str:
    """Return the file's name, without a prefix such as ``ark:`` that scripts for Kaldi may put before it."""
    kind, colon, rest = name.partition(":")
    return rest if colon and kind.split(",")[0] == "ark" else name


def _numbers(key: str, words: list[str]) -> list[int]:
    if not all(word.isdecimal() for word in words):
        raise FormatError(f"utterance {key}: with --word-symbol-table, the hypothesis must have numbers of words, "
                          f"found '{' '.join(words)[:40]}'", hint="leave out --word-symbol-table for words")
    return [int(word) for word in words]
