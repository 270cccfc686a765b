"""lattice-mbr-decode, lattice-to-ctm-conf: minimum Bayes risk, and how sure words are."""
from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from nnet3py import log
from nnet3py.cli.lattices.options import ACOUSTIC_SCALE, INV_ACOUSTIC_SCALE, LM_SCALE, log_done, per, scales_of, status
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError, within

_MBR = [
    option("decode-mbr", bool, True, "Find the words of least expected errors; false: those of the best path"),
    option("print-silence", bool, False, "Keep gaps between words"),
]


@kaldi_command("lattice-mbr-decode", group="Lattices",
               help="Find the words of least expected errors (minimum Bayes risk).", usage="""
Find the words with the least expected number of errors (minimum Bayes risk). Optionally write the risk, how
probable each word is at each place (sausages), and the times of these places.

Usage: lattice-mbr-decode [options] <lattice-rspecifier> <words-wspecifier> [<risk-wspecifier> [<sausages-wspecifier> \
[<times-wspecifier>]]]
e.g.:
 lattice-mbr-decode --acoustic-scale=0.1 ark:1.lats ark,t:words.txt ark:/dev/null ark,t:sausages.txt
See also: lattice-to-ctm-conf, lattice-best-path
""", arguments=(2, 5), options=[
    ACOUSTIC_SCALE, LM_SCALE, option("word-symbol-table", str, "", "No effect, as in Kaldi"),
    option("one-best-times", bool, False, "The times are those of words, not of all places"), *_MBR,
])
def lattice_mbr_decode(args: list[str], options: Options) -> int:
    """Write words; 1 if there was no lattice."""
    from nnet3py.formats.holders import FLOAT, FLOAT_PAIR_VECTOR, INT_VECTOR, POSTERIOR
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.lattices.scaling import scaled
    from nnet3py.lattices.word_errors import minimum_bayes_risk
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    scales = scales_of(options)
    holders: list[Any] = [INT_VECTOR, FLOAT, POSTERIOR, FLOAT_PAIR_VECTOR]
    done = num_words = 0
    total = 0.0
    with ExitStack() as stack:
        writers = [stack.enter_context(TableWriter(name, holder)) if name else None
                   for name, holder in zip(args[1:], holders, strict=False)]
        for key, lattice in stack.enter_context(SequentialReader(args[0], COMPACT_LATTICES)):
            with within(f"key {key}"):
                best = minimum_bayes_risk(scaled(lattice, scales), None, options.decode_mbr, options.print_silence)
            times = best.times if options.one_best_times else best.sausage_times
            for writer, value in zip(writers, (best.words, best.risk, best.sausages, times), strict=False):
                if writer is not None:
                    writer.write(key, value)
            done, num_words, total = done + 1, num_words + len(best.words), total + best.risk
    log_done(done)
    log.log(f"Average Bayes Risk per sentence is {per(total, done):.6g} and per word, {per(total, num_words):.6g}")
    return status(done)


@kaldi_command("lattice-to-ctm-conf", group="Lattices", help="Print when each word was said, and how sure it is.",
               usage="""
Print when each word begins, how long it is and how sure it is, as a CTM: lines UTTERANCE 1 BEGIN DURATION WORD
CONFIDENCE. The lattices should be aligned with words, by lattice-align-words or lattice-align-words-lexicon. Words may
be given; with --decode-mbr=false they are kept.

Usage: lattice-to-ctm-conf [options] <lattice-rspecifier> [<words-rspecifier> [<times-rspecifier>]] <ctm-wxfilename>
e.g.:
 lattice-to-ctm-conf --acoustic-scale=0.1 ark:1.lats 1.ctm
 lattice-to-ctm-conf --acoustic-scale=0.1 --decode-mbr=false ark:1.lats ark:1.words 1.ctm
See also: lattice-mbr-decode, nbest-to-ctm, lattice-align-words
""", arguments=(2, 4), options=[
    ACOUSTIC_SCALE, INV_ACOUSTIC_SCALE, LM_SCALE,
    option("frame-shift", float, 0.01, "Seconds per frame; with --frame-subsampling-factor=3 three times that"),
    option("confidence-digits", int, 2, "Digits after the point, of times as well"), *_MBR,
])
def lattice_to_ctm_conf(args: list[str], options: Options) -> int:
    """Write a CTM; 1 if there was no lattice."""
    from nnet3py.formats.holders import FLOAT_PAIR_VECTOR, INT_VECTOR
    from nnet3py.io.specifiers import is_wspecifier
    from nnet3py.io.streams import open_output
    from nnet3py.io.tables import RandomAccessReader, SequentialReader
    from nnet3py.lattices.scaling import scaled
    from nnet3py.lattices.word_errors import minimum_bayes_risk
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    if is_wspecifier(args[-1]):
        raise UsageError(f"expected a file for the CTM, found a table: {args[-1]!r}", "give a file, or -")
    scales = scales_of(options)
    holders: list[Any] = [INT_VECTOR, FLOAT_PAIR_VECTOR]
    done = num_words = missing = 0
    total = 0.0
    with open_output(args[-1]) as stream, ExitStack() as stack:
        tables = [stack.enter_context(RandomAccessReader(name, holder))
                  for name, holder in zip(args[1:-1], holders, strict=False)]
        for key, lattice in stack.enter_context(SequentialReader(args[0], COMPACT_LATTICES)):
            if any(key not in table for table in tables):
                log.warning(f"No 1-best present for utterance {key}")
                missing += 1
                continue
            with within(f"key {key}"):
                best = minimum_bayes_risk(scaled(lattice, scales), tables[0][key].tolist() if tables else None,
                                           options.decode_mbr, options.print_silence)
            stream.write(_ctm_lines(key, best, options).encode("utf-8", "surrogateescape"))
            log.log(f"For utterance {key}, Bayes Risk {best.risk:.6g}, avg. confidence per-word "
                    f"{per(sum(best.confidences), len(best.words)):.6g}")
            done, num_words, total = done + 1, num_words + len(best.words), total + best.risk
    log_done(done)
    log.log(f"Overall average Bayes Risk per sentence is {per(total, done):.6g} and per word, "
            f"{per(total, num_words):.6g}")
    return status(done)


def _ctm_lines(key: str, best: Any, options: Options) -> str:
    """The lines of an utterance."""
    digits, shift = options.confidence_digits, options.frame_shift
    return "".join(
        f"{key} 1 {shift * begin:.{digits}f} {shift * (end - begin):.{digits}f} {word} {confidence:.{digits}f}\n"
        for word, (begin, end), confidence in zip(best.words, best.times, best.confidences, strict=True))
