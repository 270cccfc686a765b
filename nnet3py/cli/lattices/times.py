"""Times, posteriors and confidences of words and phones in lattices.

lattice-align-words, lattice-align-words-lexicon, lattice-align-phones and lattice-to-phone-lattice make arcs agree with
words or phones; lattice-to-post, lattice-arc-post, lattice-mbr-decode and lattice-to-ctm-conf compute probabilities.
"""
from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.lattices.tables import (
    ACOUSTIC_SCALE,
    DONE,
    INV_ACOUSTIC_SCALE,
    LM_SCALE,
    REORDER,
    change_lattices,
    per,
    scales_of,
)
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_to_lines, convert_to_tables
from nnet3py.cli.process.options import Options, option

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.formats.posteriors import Posterior
    from nnet3py.lattices.phone_alignment import Alignment
    from nnet3py.transducers.compact_lattice import CompactLattice
    from nnet3py.transducers.fst import Fst

_OUTPUT_ERROR_LATS = option("output-error-lats", bool, True, "Write partial results for lattices that did not align")
_TEST = option("test", bool, False, "Check that alignment keeps the cost and the length of the best path")
_PARTIAL_WORD_LABEL = option("partial-word-label", int, 0, "Label (integer) of an unfinished word at a lattice's end")


def _align(args: list[str], align: Callable[[CompactLattice], Alignment], output_error_lats: bool,
           output_if_empty: bool = False, test: bool = False) -> int:
    """Write the aligned lattices of a table; return 0 if more lattices were aligned than had errors.

    ``test``: whether a lattice whose best path is changed by alignment counts as an error.
    """
    errors = 0

    def aligned_or_none(key: str, lattice: CompactLattice) -> CompactLattice | None:
        nonlocal errors
        aligned, problem = align(lattice)
        if test and not problem:
            problem = _best_path_problem(lattice, aligned)
        if not problem:
            log.vlog(2, f"Aligned lattice for {key}")
            return aligned
        errors += 1
        log.warning(f"Lattice for {key} did not align correctly: {problem}")
        if aligned.start >= 0 and output_error_lats or aligned.start < 0 and output_if_empty:
            log.log(f"Outputting {'partial' if aligned.start >= 0 else 'empty'} lattice for {key}")
            return aligned
        return None

    written, failed = change_lattices(args, aligned_or_none)
    done = written + failed - errors
    log.log(f"Successfully aligned {done} lattices; {errors} had errors.")
    return 0 if done > errors else 1


def _best_path_problem(lattice: CompactLattice, aligned: CompactLattice) -> str:
    """Return a message if alignment changed the cost or the length of the best path, else ""."""
    from nnet3py.lattices.best_path import best_path, path_of

    paths = [path_of(best) if best is not None else None for best in (best_path(lattice), best_path(aligned))]
    if paths[0] is None or paths[1] is None:
        return "it has no path"
    before, after = paths[0], paths[1]
    if abs(float(before.cost) - float(after.cost)) > 1e-3 * (1.0 + abs(float(before.cost))):
        return f"the cost of its best path changed from {before.cost:.6g} to {after.cost:.6g}"
    return "" if len(before.ids) == len(after.ids) else "the length of its best path changed"


@kaldi_command("lattice-align-words", "Lattices", "Align lattices with words, by word-position-dependent phones.", """
Align lattices with words: the output has arcs that are whole words, so that their times are known. Words begin and end
where word-position-dependent phones say so; <word-boundary-file> has lines PHONE nonword|begin|end|internal|singleton,
phones as integers.

Usage: lattice-align-words [options] <word-boundary-file> <model> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-align-words --silence-label=4320 --partial-word-label=4324 data/lang/phones/word_boundary.int final.mdl \\
   ark:1.lats ark:aligned.lats
See also: lattice-align-words-lexicon, lattice-to-ctm-conf, nbest-to-ctm
""", arguments=(4, 4), options=[
    _OUTPUT_ERROR_LATS, _TEST,
    option("max-expand", float, 0.0, "If positive, fail where alignment gives a lattice more than 1000 + MAX_EXPAND "
           "times its number of states"),
    option("silence-label", int, 0, "Label (integer) of silence, which otherwise has "
           "none"), _PARTIAL_WORD_LABEL, REORDER,
])
def lattice_align_words(args: list[str], options: Options) -> int:
    from nnet3py.decoding.symbols import read_text
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.lattices.word_alignment import WordBoundaries, align_words, read_word_boundaries

    boundaries = WordBoundaries(read_word_boundaries(read_text(args[0]), args[0]), options.silence_label,
                                options.partial_word_label, options.reorder)
    model = read_transition_model(args[1])
    return _align(args[2:], lambda lattice: align_words(lattice, model, boundaries, options.max_expand),
                  options.output_error_lats, test=options.test)


@kaldi_command("lattice-align-words-lexicon", "Lattices", "Align lattices with words, by a lexicon.", """
Align lattices with words by a lexicon: the output has arcs that are whole words, so that their times are known. The
lexicon has lines WORD-IN-LATTICE WORD PHONE ..., integers, where WORD-IN-LATTICE is 0 for fillers such as silence. A
path of the input may become several paths; lattice-1best takes one of them.

Usage: lattice-align-words-lexicon [options] <lexicon-file> <model> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-align-words-lexicon data/lang/phones/align_lexicon.int final.mdl ark:1.lats ark:aligned.lats
See also: lattice-align-words, lattice-1best, nbest-to-ctm
""", arguments=(4, 4), options=[
    _OUTPUT_ERROR_LATS, option("output-if-empty", bool, False, "Write empty results, too"), _TEST,
    option("allow-duplicate-paths", bool, False, "No effect: duplicate paths are always allowed"),
    _PARTIAL_WORD_LABEL, REORDER,
    option("max-expand", float, -1.0, "If positive, fail where alignment gives a lattice more than 1000 + MAX_EXPAND "
           "times its number of states"),
])
def lattice_align_words_lexicon(args: list[str], options: Options) -> int:
    from nnet3py.decoding.symbols import read_text
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.lattices.word_alignment import align_words_by_lexicon, read_alignment_lexicon

    lexicon = read_alignment_lexicon(read_text(args[0]), args[0])
    model = read_transition_model(args[1])
    return _align(args[2:], lambda lattice: align_words_by_lexicon(
        lattice, model, lexicon, options.partial_word_label, options.reorder, options.max_expand),
        options.output_error_lats, options.output_if_empty, options.test)


@kaldi_command("lattice-align-phones", "Lattices", "Align lattices with phones: each arc is a phone.", """
Align lattices with phones: the output has arcs that are whole phones, so that their times are known. A word's label
stays on one of the arcs of its phones, or of the next word's; with --replace-output-symbols=true phones are the labels.

Usage: lattice-align-phones [options] <model> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-align-phones --replace-output-symbols=true final.mdl ark:1.lats ark:phones.lats
See also: lattice-to-phone-lattice, lattice-align-words, chain-get-supervision
""", arguments=(3, 3), options=[
    _OUTPUT_ERROR_LATS, _TEST, REORDER,
    option("remove-epsilon", bool, True, "Remove arcs without labels; the next arc gets their transition-ids"),
    option("replace-output-symbols", bool, False, "Replace words by phones as labels"),
])
def lattice_align_phones(args: list[str], options: Options) -> int:
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.lattices.phone_alignment import align_phones

    model = read_transition_model(args[0])
    return _align(args[1:], lambda lattice: align_phones(
        lattice, model, options.reorder, options.remove_epsilon, options.replace_output_symbols),
        options.output_error_lats, test=options.test)


@kaldi_command("lattice-to-phone-lattice", "Lattices", "Replace words or transition-ids by phones.", """
Replace the words of lattices by phones, each on the arc where it begins. With --replace-words=false replace the
transition-ids by phones instead, one for each phone where it ends; such lattices have no times.

Usage: lattice-to-phone-lattice [options] <model> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-to-phone-lattice final.mdl ark:1.lats ark:phones.lats
See also: lattice-align-phones, lattice-determinize-phone-pruned
""", arguments=(3, 3), options=[
    option("replace-words", bool, True, "Replace words; false: transition-ids"),
])
def lattice_to_phone_lattice(args: list[str], options: Options) -> int:
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.lattices.phone_alignment import with_phones_as_ids, with_phones_as_words
    from nnet3py.transducers.lattice import factored

    model = read_transition_model(args[0])
    if options.replace_words:
        counts = change_lattices(
            args[1:], lambda key, lattice: factored(with_phones_as_words(lattice, model)), False, True)
    else:
        counts = change_lattices(args[1:], lambda key, lattice: with_phones_as_ids(lattice, model))
    return counts.report("Done converting {done} lattices.")


# -- probabilities -----------------------------------------------------------------------------------------------------


@kaldi_command("lattice-to-post", "Lattices", "Compute posteriors of transition-ids from lattices.", """
Compute posteriors from lattices by the forward-backward algorithm: the probability of each transition-id in each frame.
Optionally write the total log-likelihood of each lattice.

Usage: lattice-to-post [options] <lattice-rspecifier> <posteriors-wspecifier> [<loglikes-wspecifier>]
e.g.:
 lattice-to-post --acoustic-scale=0.1 ark:1.lats ark:1.post
See also: lattice-arc-post, post-to-weights, ali-to-post
""", arguments=(2, 3), options=[ACOUSTIC_SCALE, LM_SCALE])
def lattice_to_post(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT, POSTERIOR
    from nnet3py.lattices.forward_backward import frame_posteriors
    from nnet3py.lattices.scaling import scaled
    from nnet3py.transducers.lattice import LATTICES

    scales = scales_of(options)
    frames = 0
    total = acoustic = 0.0

    def compute(key: str, lattice: Fst) -> tuple[Posterior, float]:
        nonlocal frames, total, acoustic
        result = frame_posteriors(scaled(lattice, scales))
        frames += len(result.posterior)
        total, acoustic = total + result.total, acoustic + result.acoustic
        return result.posterior, result.total

    counts = convert_to_tables(args[0], LATTICES, args[1:], [POSTERIOR, FLOAT], compute)
    log.log(f"Overall average log-like/frame is {per(total, frames):.6g} over {frames} frames.  Average acoustic "
            f"like/frame is {per(acoustic, frames):.6g}")
    return counts.report(DONE)


@kaldi_command("lattice-arc-post", "Lattices", "Print the arcs of lattices with their posteriors.", """
Print the arcs of lattices with their posterior probabilities: lines of utterance, first frame, number of frames,
probability, word (integer), and with a model the phones (integers), separated by tabs. The lattices should be aligned
with words.

Usage: lattice-arc-post [options] [<transition-model>] <lattice-rspecifier> <output-wxfilename>
e.g.:
 lattice-arc-post --acoustic-scale=0.1 final.mdl ark:1.lats 1.post
See also: lattice-to-post, lattice-to-ctm-conf, lattice-align-words
""", arguments=(2, 3), options=[
    ACOUSTIC_SCALE, LM_SCALE,
    option("print-alignment", bool, False, "Print the transition-ids, before the phones"),
    option("min-post", float, 0.0001, "Least probability of arcs that are printed"),
])
def lattice_arc_post(args: list[str], options: Options) -> int:
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.lattices.forward_backward import arc_lines
    from nnet3py.lattices.scaling import scaled
    from nnet3py.lattices.states import LatticeError
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    model = read_transition_model(args[0]) if len(args) == 3 else None
    scales = scales_of(options)
    num_arcs = 0

    def lines(key: str, lattice: CompactLattice) -> list[str] | None:
        nonlocal num_arcs
        try:
            arcs = arc_lines(key, scaled(lattice, scales), model, options.print_alignment, options.min_post)
        except LatticeError as error:
            log.warning(f"For utterance {key}: {error}")
            return None
        num_arcs += len(arcs)
        return arcs

    done, errors = convert_to_lines(args[-2], args[-1], COMPACT_LATTICES, lines)
    log.log(f"Printed posteriors for {done} lattices ({errors} with errors); on average printed "
            f"{int(per(num_arcs, done)) if done else 0} posteriors per lattice.")
    return 0 if done else 1


_MBR = [
    option("decode-mbr", bool, True, "Find the words with the least expected number of errors; false: those of the "
           "best path"),
    option("print-silence", bool, False, "Keep gaps between words, as word 0"),
]


@kaldi_command("lattice-mbr-decode", "Lattices", "Decode lattices by minimum Bayes risk.", """
Find the word sequence with the least expected number of errors (minimum Bayes risk) of each lattice. Optionally write
that number (the risk), the words of each position with their probabilities (sausages), and the positions' times.

Usage: lattice-mbr-decode [options] <lattice-rspecifier> <words-wspecifier> [<risk-wspecifier> [<sausages-wspecifier> \
[<times-wspecifier>]]]
e.g.:
 lattice-mbr-decode --acoustic-scale=0.1 ark:1.lats ark,t:words.txt ark:/dev/null ark,t:sausages.txt
See also: lattice-to-ctm-conf, lattice-best-path
""", arguments=(2, 5), options=[
    ACOUSTIC_SCALE, LM_SCALE, option("word-symbol-table", str, "", "No effect, as in Kaldi"),
    option("one-best-times", bool, False, "Write the times of the words, not of all positions"), *_MBR,
])
def lattice_mbr_decode(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT, FLOAT_PAIR_VECTOR, INT_VECTOR, POSTERIOR
    from nnet3py.lattices.scaling import scaled
    from nnet3py.lattices.word_errors import minimum_bayes_risk
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    scales = scales_of(options)
    num_words, total = 0, 0.0

    def decode(key: str, lattice: CompactLattice) -> tuple[Any, ...]:
        nonlocal num_words, total
        best = minimum_bayes_risk(scaled(lattice, scales), None, options.decode_mbr, options.print_silence)
        num_words, total = num_words + len(best.words), total + best.risk
        return best.words, best.risk, best.sausages, best.times if options.one_best_times else best.sausage_times

    counts = convert_to_tables(args[0], COMPACT_LATTICES, args[1:], [INT_VECTOR, FLOAT, POSTERIOR, FLOAT_PAIR_VECTOR],
                               decode)
    counts.report(DONE)
    return counts.report(f"Average Bayes Risk per sentence is {per(total, counts.done):.6g} and per word, "
                         f"{per(total, num_words):.6g}")


@kaldi_command("lattice-to-ctm-conf", "Lattices", "Write words with times and confidences as a CTM.", """
Write the words of lattices with their times and confidences as a CTM: lines UTTERANCE 1 BEGIN DURATION WORD CONFIDENCE,
times in seconds. The lattices should be aligned with words, by lattice-align-words or lattice-align-words-lexicon. The
words are found by minimum Bayes risk decoding, which starts from the best path or from given words; with
--decode-mbr=false these words are kept.

Usage: lattice-to-ctm-conf [options] <lattice-rspecifier> [<words-rspecifier> [<times-rspecifier>]] <ctm-wxfilename>
e.g.:
 lattice-to-ctm-conf --acoustic-scale=0.1 ark:1.lats 1.ctm
 lattice-to-ctm-conf --acoustic-scale=0.1 --decode-mbr=false ark:1.lats ark:1.words 1.ctm
See also: lattice-mbr-decode, nbest-to-ctm, lattice-align-words
""", arguments=(2, 4), options=[
    ACOUSTIC_SCALE, INV_ACOUSTIC_SCALE, LM_SCALE,
    option("frame-shift", float, 0.01, "Seconds between the lattices' frames: 0.03 with --frame-subsampling-factor=3"),
    option("confidence-digits", int, 2, "Digits after the decimal point, of times and confidences", least=0), *_MBR,
])
def lattice_to_ctm_conf(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_PAIR_VECTOR, INT_VECTOR
    from nnet3py.io.tables import RandomAccessReader
    from nnet3py.lattices.scaling import scaled
    from nnet3py.lattices.word_errors import minimum_bayes_risk
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    scales = scales_of(options)
    digits, shift = options.confidence_digits, options.frame_shift
    num_words, total = 0, 0.0
    with ExitStack() as stack:
        holders: list[Any] = [INT_VECTOR, FLOAT_PAIR_VECTOR]
        tables = [stack.enter_context(RandomAccessReader(name, holder))
                  for name, holder in zip(args[1:-1], holders, strict=False)]

        def lines(key: str, lattice: CompactLattice) -> list[str] | None:
            nonlocal num_words, total
            if any(key not in table for table in tables):
                log.warning(f"No 1-best present for utterance {key}")
                return None
            words: np.ndarray | None = tables[0][key] if tables else None
            best = minimum_bayes_risk(scaled(lattice, scales), None if words is None else words.tolist(),
                                      options.decode_mbr, options.print_silence)
            log.log(f"For utterance {key}, Bayes Risk {best.risk:.6g}, avg. confidence per-word "
                    f"{per(sum(best.confidences), len(best.words)):.6g}")
            num_words, total = num_words + len(best.words), total + best.risk
            return [f"{key} 1 {shift * begin:.{digits}f} {shift * (end - begin):.{digits}f} {word} "
                    f"{confidence:.{digits}f}\n"
                    for word, (begin, end), confidence in zip(best.words, best.times, best.confidences, strict=True)]

        counts = convert_to_lines(args[0], args[-1], COMPACT_LATTICES, lines, inputs=stack)
    counts.report(DONE)
    return counts.report(f"Overall average Bayes Risk per sentence is {per(total, counts.done):.6g} and per word, "
                         f"{per(total, num_words):.6g}")
