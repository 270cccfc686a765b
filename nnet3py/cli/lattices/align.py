"""lattice-align-words, lattice-align-words-lexicon, lattice-align-phones, lattice-to-phone-lattice."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.lattices.options import REORDER, change_lattices, status
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option

if TYPE_CHECKING:
    from nnet3py.lattices.phone_alignment import Alignment
    from nnet3py.transducers.compact_lattice import CompactLattice

_OUTPUT_ERROR_LATS = option("output-error-lats", bool, True, "Also write the results for lattices with errors")
_TEST = option("test", bool, False, "Check that the best path stays what it was")
_PARTIAL_WORD_LABEL = option("partial-word-label", int, 0, "Label of parts of words at the end of a lattice")


def _align(args: list[str], align: Callable[[CompactLattice], Alignment], output_error_lats: bool,
           output_if_empty: bool = False, test: bool = False) -> int:
    """Align the lattices of a table; 0 if more were aligned than had errors."""
    errors = 0

    def one(key: str, lattice: CompactLattice) -> CompactLattice | None:
        nonlocal errors
        aligned, problem = align(lattice)
        if test and not problem:
            problem = _difference(lattice, aligned)
        if not problem:
            log.vlog(2, f"Aligned lattice for {key}")
            return aligned
        errors += 1
        log.warning(f"Lattice for {key} did not align correctly: {problem}")
        if aligned.start >= 0 and output_error_lats or aligned.start < 0 and output_if_empty:
            log.log(f"Outputting {'partial' if aligned.start >= 0 else 'empty'} lattice for {key}")
            return aligned
        return None

    written, failed = change_lattices(args, one)
    done = written + failed - errors
    log.log(f"Successfully aligned {done} lattices; {errors} had errors.")
    return 0 if done > errors else 1


def _difference(lattice: CompactLattice, aligned: CompactLattice) -> str:
    """What is wrong with the best path after alignment; nothing if it is the same as before."""
    from nnet3py.lattices.best_path import best_path, path_of

    paths = [path_of(best) if best is not None else None for best in (best_path(lattice), best_path(aligned))]
    if paths[0] is None or paths[1] is None:
        return "it has no path"
    before, after = paths[0], paths[1]
    if abs(float(before.cost) - float(after.cost)) > 1e-3 * (1.0 + abs(float(before.cost))):
        return f"the cost of its best path changed from {before.cost:.6g} to {after.cost:.6g}"
    return "" if len(before.ids) == len(after.ids) else "the length of its best path changed"


@kaldi_command("lattice-align-words", group="Lattices",
               help="Make lattices whose arcs are words, by phones with positions.", usage="""
Make lattices whose arcs are whole words, so that their times are known. Where words begin and end is told by phones
with their position in the word.

Usage: lattice-align-words [options] <word-boundary-file> <model> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-align-words --silence-label=4320 --partial-word-label=4324 data/lang/phones/word_boundary.int final.mdl \\
   ark:1.lats ark:aligned.lats
See also: lattice-align-words-lexicon, lattice-to-ctm-conf, nbest-to-ctm
""", arguments=(4, 4), options=[
    _OUTPUT_ERROR_LATS, _TEST,
    option("max-expand", float, 0.0, "If positive, stop when a lattice has 1000 more states than that many times as "
           "before"),
    option("silence-label", int, 0, "Label of silence"), _PARTIAL_WORD_LABEL, REORDER,
])
def lattice_align_words(args: list[str], options: Options) -> int:
    """Align lattices; 1 if not more were aligned than had errors."""
    from nnet3py.decoding.symbols import read_text
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.lattices.word_alignment import WordBoundaries, align_words, read_word_boundaries

    boundaries = WordBoundaries(read_word_boundaries(read_text(args[0]), args[0]), options.silence_label,
                                options.partial_word_label, options.reorder)
    model = read_object(args[1], TransitionModel.read)
    return _align(args[2:], lambda lattice: align_words(lattice, model, boundaries, options.max_expand),
                  options.output_error_lats, test=options.test)


@kaldi_command("lattice-align-words-lexicon", group="Lattices",
               help="Make lattices whose arcs are words, by a lexicon.", usage="""
Make lattices whose arcs are whole words, by a lexicon of numbers: lines WORD-IN-LATTICE WORD PHONE ..., with a 0 for
fillers such as silence. A path may come out as several; lattice-1best after this command takes one of them.

Usage: lattice-align-words-lexicon [options] <lexicon-file> <model> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-align-words-lexicon data/lang/phones/align_lexicon.int final.mdl ark:1.lats ark:aligned.lats
See also: lattice-align-words, lattice-1best, nbest-to-ctm
""", arguments=(4, 4), options=[
    _OUTPUT_ERROR_LATS, option("output-if-empty", bool, False, "Also write lattices that come out empty"), _TEST,
    option("allow-duplicate-paths", bool, False, "No effect: a path may come out as several"),
    _PARTIAL_WORD_LABEL, REORDER,
    option("max-expand", float, -1.0, "If positive, stop when a lattice has 1000 more states than that many times as "
           "before"),
])
def lattice_align_words_lexicon(args: list[str], options: Options) -> int:
    """Align lattices; 1 if not more were aligned than had errors."""
    from nnet3py.decoding.symbols import read_text
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.lattices.word_alignment import align_words_by_lexicon, read_alignment_lexicon

    lexicon = read_alignment_lexicon(read_text(args[0]), args[0])
    model = read_object(args[1], TransitionModel.read)
    return _align(args[2:], lambda lattice: align_words_by_lexicon(
        lattice, model, lexicon, options.partial_word_label, options.reorder, options.max_expand),
        options.output_error_lats, options.output_if_empty, options.test)


@kaldi_command("lattice-align-phones", group="Lattices", help="Make lattices whose arcs are phones.", usage="""
Make lattices whose arcs are whole phones. Words stay, at one of the arcs of their phones or at one of the next word's;
with --replace-output-symbols=true the phones become the labels.

Usage: lattice-align-phones [options] <model> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-align-phones --replace-output-symbols=true final.mdl ark:1.lats ark:phones.lats
See also: lattice-to-phone-lattice, lattice-align-words, chain-get-supervision
""", arguments=(3, 3), options=[
    _OUTPUT_ERROR_LATS, _TEST, REORDER,
    option("remove-epsilon", bool, True, "Remove arcs without a label; their transition-ids move to the next arc"),
    option("replace-output-symbols", bool, False, "Make the phones the labels, instead of the words"),
])
def lattice_align_phones(args: list[str], options: Options) -> int:
    """Align lattices; 1 if not more were aligned than had errors."""
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.lattices.phone_alignment import align_phones

    model = read_object(args[0], TransitionModel.read)
    return _align(args[1:], lambda lattice: align_phones(
        lattice, model, options.reorder, options.remove_epsilon, options.replace_output_symbols),
        options.output_error_lats, test=options.test)


@kaldi_command("lattice-to-phone-lattice", group="Lattices", help="Put phones in place of words or of transition-ids.",
               usage="""
Make phones the labels of lattices, each where it begins; or, with --replace-words=false, put phones in place of
transition-ids, one where each ends, so that lattices no longer have times.

Usage: lattice-to-phone-lattice [options] <model> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-to-phone-lattice final.mdl ark:1.lats ark:phones.lats
See also: lattice-align-phones, lattice-determinize-phone-pruned
""", arguments=(3, 3), options=[
    option("replace-words", bool, True, "Put phones in place of words; false: in place of transition-ids"),
])
def lattice_to_phone_lattice(args: list[str], options: Options) -> int:
    """Make phone lattices; 1 if there was no lattice."""
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.lattices.phone_alignment import with_phones_as_ids, with_phones_as_words

    model = read_object(args[0], TransitionModel.read)
    convert: Any = with_phones_as_words if options.replace_words else with_phones_as_ids
    done = _convert_phones(args[1:], lambda lattice: convert(lattice, model), options.replace_words)
    log.log(f"Done converting {done} lattices.")
    return status(done)


def _convert_phones(args: list[str], convert: Callable[[Any], Any], plain: bool) -> int:
    """Convert lattices, which are read with a transition-id on each arc if ``plain``; returns how many."""
    from nnet3py.transducers.lattice import factored

    if plain:
        return change_lattices(args, lambda key, lattice: factored(convert(lattice)), False, True)[0]
    return change_lattices(args, lambda key, lattice: convert(lattice))[0]
