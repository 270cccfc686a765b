"""Conversions of alignments (sequences of transition-ids): to pdf-ids, phones or text, from phones, to other models.

ali-to-pdf, ali-to-phones, show-alignments, phones-to-ali, convert-ali and text-to-phones.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table, convert_to_lines
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import FormatError, Nnet3Error, ShapeError

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.hmm.alignment import PhoneAligner
    from nnet3py.hmm.transition_model import TransitionModel

_PHONE_MAP = option("phone-map", str, "", "File with lines <old-phone> <new-phone>, integers")
_REORDER = option("reorder", bool, True, "Write a state's self-loops after the transition that leaves it")


@kaldi_command("ali-to-pdf", "Alignments and posteriors", "Turn alignments into sequences of pdf-ids.", """
Turn alignments, sequences of transition-ids, into sequences of pdf-ids. Of the model only the transition model is read.

Usage:  ali-to-pdf [options] <model> <alignments-rspecifier> <pdfs-wspecifier>
e.g.:
 ali-to-pdf 1.mdl ark:1.ali ark,t:-
See also: ali-to-phones, ali-to-post
""", arguments=(3, 3))
def ali_to_pdf(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.hmm.alignment import check_transition_ids
    from nnet3py.hmm.transition_model import read_transition_model

    model = read_transition_model(args[0])

    def pdfs(key: str, alignment: np.ndarray) -> np.ndarray:
        check_transition_ids(model, alignment)
        return model.transition_id_to_pdf[alignment]

    convert_table(args[1], args[2], INT_VECTOR, INT_VECTOR, pdfs).report(
        "Converted {done} alignments to pdf sequences.")
    return 0


@kaldi_command("ali-to-phones", "Alignments and posteriors", "Turn alignments into sequences of phones.", """
Turn alignments, sequences of transition-ids, into sequences of phones (integers): by default one entry for each phone;
optionally one for each frame, pairs of phone and length in frames, or a CTM with times.

Usage:  ali-to-phones [options] <model> <alignments-rspecifier> (<phones-wspecifier>|<ctm-wxfilename>)
e.g.:
 ali-to-phones 1.mdl ark:1.ali ark,t:-
or:
 ali-to-phones --ctm-output 1.mdl ark:1.ali 1.ctm
See also: ali-to-pdf, show-transitions
""", arguments=(3, 3), options=[
    option("per-frame", bool, False, "Write the phone of every frame"),
    option("write-lengths", bool, False, "Write pairs of phone and number of frames"),
    option("ctm-output", bool, False, "Write a CTM, a text file with lines UTTERANCE 1 BEGIN DURATION PHONE, in "
           "seconds"),
    option("frame-shift", float, 0.01, "Seconds between frames, for --ctm-output"),
])
def ali_to_phones(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import INT_PAIR_VECTOR, INT_VECTOR
    from nnet3py.hmm.transition_model import read_transition_model

    if options.per_frame + options.write_lengths + options.ctm_output > 1:
        raise OptionError("Only one of --per-frame, --write-lengths and --ctm-output can be given")
    model = read_transition_model(args[0])
    shift, digits = options.frame_shift, 3 if options.frame_shift < 0.01 else 2

    def lines(key: str, alignment: np.ndarray) -> Iterator[str]:
        phones, lengths = _phones(model, key, alignment)
        starts = lengths.cumsum() - lengths
        return (f"{key} 1 {shift * start:.{digits}f} {shift * length:.{digits}f} {phone}\n"
                for phone, start, length in zip(phones.tolist(), starts.tolist(), lengths.tolist(), strict=True))

    def sequence(key: str, alignment: np.ndarray) -> np.ndarray:
        phones, lengths = _phones(model, key, alignment)
        if options.write_lengths:
            return np.column_stack([phones, lengths])
        return np.repeat(phones, lengths) if options.per_frame else phones

    if options.ctm_output:
        count, _ = convert_to_lines(args[1], args[2], INT_VECTOR, lines)
    else:
        target = INT_PAIR_VECTOR if options.write_lengths else INT_VECTOR
        count, _ = convert_table(args[1], args[2], INT_VECTOR, target, sequence)
    log.log(f"Done {count} utterances.")
    return 0 if count else 1


def _phones(model: TransitionModel, key: str, alignment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the phones of an alignment, and the number of frames of each."""
    import numpy as np

    from nnet3py.hmm.alignment import phone_starts

    starts, complete = phone_starts(model, alignment)
    if not complete:
        log.warning(f"The alignment of utterance {key} does not consist of whole phones")
    return model.transition_id_to_phone[alignment[starts]], np.diff(starts, append=len(alignment))


@kaldi_command("show-alignments", "Alignments and posteriors", "Print alignments in readable form.", """
Print alignments in readable form: for each utterance a line with the transition-ids of each phone in brackets, and
below it a line with the names of the phones.

Usage:  show-alignments [options] <phone-syms> <model> <alignments-rspecifier>
e.g.:
 show-alignments phones.txt 1.mdl ark:1.ali
See also: ali-to-phones, show-transitions
""", arguments=(3, 3))
def show_alignments(args: list[str], options: Options) -> None:
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.hmm.alignment import phone_starts, read_symbol_table
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.io.streams import read_text

    names = read_symbol_table(read_text(args[0]), args[0])
    model = read_transition_model(args[1])

    def lines(key: str, alignment: np.ndarray) -> list[str]:
        starts, _ = phone_starts(model, alignment)
        phones = model.transition_id_to_phone[alignment[starts]].tolist()
        unknown = next((phone for phone in phones if phone not in names), None)
        if unknown is not None:
            raise FormatError(f"the symbol table has no name for phone {unknown}", path=args[0])
        ends = [*starts[1:].tolist(), len(alignment)]
        ids = ["[ " + "".join(f"{transition_id} " for transition_id in alignment[first:end].tolist()) + "] "
               for first, end in zip(starts.tolist(), ends, strict=True)]
        widths = [max(len(text), len(names[phone]) + 1) for text, phone in zip(ids, phones, strict=True)]
        above = "".join(text.ljust(width) for text, width in zip(ids, widths, strict=True))
        below = "".join(f"{names[phone]} ".ljust(width) for phone, width in zip(phones, widths, strict=True))
        return [f"{key}  {above}\n{key}  {below}\n\n"]

    convert_to_lines(args[2], "-", INT_VECTOR, lines)


# -- alignments from phones, and of other models -----------------------------------------------------------------------


@kaldi_command("phones-to-ali", "Alignments and posteriors", "Turn sequences of phones into alignments.", """
Turn sequences of phones (integers) into alignments, sequences of transition-ids, the inverse of ali-to-phones. The
input has the phone of every frame, where equal neighbors count as one phone, or, with --lengths=true, pairs of phone
and length in frames. The frames of a phone are spread evenly over the states of its HMM.

Usage:  phones-to-ali [options] <model> <tree> <phones-rspecifier> <alignments-wspecifier>
e.g.:
 phones-to-ali final.mdl tree ark,t:phones.txt "ark:| gzip -c > ali.1.gz"
or, the inverse of ali-to-phones --write-lengths=true:
 phones-to-ali --lengths=true final.mdl tree ark:phones.ark ark:1.ali
See also: make-mono-tree, ali-to-phones, convert-ali
""", arguments=(4, 4), options=[
    option("lengths", bool, False, "The input has pairs of phone and length in frames"), _PHONE_MAP, _REORDER,
])
def phones_to_ali(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import INT_PAIR_VECTOR, INT_VECTOR
    from nnet3py.hmm.alignment import phones_of_frames

    aligner = _read_aligner(args[0], args[1], options.reorder)
    phone_map = read_phone_map(options.phone_map)

    def aligned(value: np.ndarray) -> np.ndarray:
        phones, lengths = (value[:, 0], value[:, 1]) if options.lengths else phones_of_frames(value)
        if options.lengths and np.any(lengths < 1):
            raise Nnet3Error(f"a phone has {lengths.min()} frames; expected 1 or more")
        numbers = phones.tolist()
        if phone_map is not None:
            unmapped = set(numbers) - set(phone_map)
            if unmapped:
                raise Nnet3Error(f"--phone-map={options.phone_map} has no line for phone {min(unmapped)}")
            numbers = [phone_map[phone] for phone in numbers]
        return aligner.align(numbers, lengths.tolist())

    done, failed = _convert(args[2], args[3], INT_PAIR_VECTOR if options.lengths else INT_VECTOR, aligned)
    log.log(f"Made alignments of {done} utterances, failed for {failed}")
    return 0 if done else 1


@kaldi_command("convert-ali", "Alignments and posteriors", "Convert alignments of one model to another model's.", """
Convert alignments of one model into alignments of another one, with another tree, topology or phone set, or at a lower
frame rate. Where a phone's HMM or length changes, its frames are spread evenly over the states.

Usage:  convert-ali [options] <old-model> <new-model> <new-tree> <old-alignments-rspecifier> <new-alignments-wspecifier>
e.g.:
 convert-ali --frame-subsampling-factor=3 old/final.mdl new/final.mdl new/tree ark:old.ali ark:new.ali
See also: phones-to-ali, ali-to-phones
""", arguments=(5, 5), options=[
    option("frame-subsampling-factor", int, 1, "Keep every Nth frame", least=1),
    option("repeat-frames", bool, False, "Interleave the subsampled alignments of every first frame: as many "
           "frames as before"),
    _PHONE_MAP, _REORDER,
])
def convert_ali(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.hmm.transition_model import read_transition_model

    old_model = read_transition_model(args[0])
    aligner = _read_aligner(args[1], args[2], options.reorder)
    phone_map = read_phone_map(options.phone_map)
    done, failed = _convert(args[3], args[4], INT_VECTOR, lambda ids: aligner.convert(
        old_model, ids, options.frame_subsampling_factor, options.repeat_frames, phone_map))
    log.log(f"Succeeded converting alignments for {done} files, failed for {failed}")
    return 0 if done else 1


def _read_aligner(model: str, tree: str, reorder: bool) -> PhoneAligner:
    from nnet3py.hmm.alignment import PhoneAligner
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object

    return PhoneAligner(read_transition_model(model), read_object(tree, ContextDependency.read), reorder)


def _convert(rspecifier: str, wspecifier: str, source: Any,
             convert: Callable[[np.ndarray], np.ndarray]) -> tuple[int, int]:
    """Convert a table to alignments; skip entries that cannot be converted, with a warning.

    Returns the numbers of entries written and skipped.
    """
    from nnet3py.formats.holders import INT_VECTOR

    def converted(key: str, value: np.ndarray) -> np.ndarray | None:
        try:
            return convert(value)
        except ShapeError:    # the alignments were made with another model than the one given
            raise
        except Nnet3Error as error:
            log.warning(f"Could not convert the alignment of utterance {key}: {error}")
            return None

    return convert_table(rspecifier, wspecifier, source, INT_VECTOR, converted)


def read_phone_map(rxfilename: str) -> dict[int, int] | None:
    """Read the file of --phone-map: return the new phone for each old one, or None if no file is named."""
    if not rxfilename:
        return None
    from nnet3py.io.streams import read_integer_lines

    lines = read_integer_lines(rxfilename)
    if any(len(line) != 2 for line in lines) or len({line[0] for line in lines}) != len(lines):
        raise FormatError("expected lines <old-phone> <new-phone>, with each old phone once", path=rxfilename)
    return {old: new for old, new in lines}


@kaldi_command("text-to-phones", "Alignments and posteriors", "Turn transcripts into phones, with random silences.", """
Turn transcripts into sequences of phones (integers), with silences inserted at random, for the phone language model of
end-to-end chain training. <lexicon> has lines WORD PHONE ... or WORD PROBABILITY PHONE ..., <text> lines UTTERANCE
WORD ... Kaldi's recipes have a script text_to_phones.py for this.

Usage: text-to-phones [options] <lexicon> <text> <phone-seqs-wspecifier>
e.g.: text-to-phones --phones=phones.txt --silence-phone=SIL lexicon.txt text ark:- | \
chain-est-phone-lm --num-extra-lm-states=2000 ark:- phone_lm.fst
See also: chain-est-phone-lm
""", arguments=(3, 3), options=[
    option("phones", str, "", "phones.txt of the model (empty: --silence-phone is 1, the others follow in alphabetical "
           "order)"),
    option("silence-phone", str, "", "Silence phone (empty: insert no silences)"),
    option("edge-silprob", float, 0.8, "Probability of silence before the first word, and after the last",
           least=0, most=1),
    option("between-silprob", float, 0.1, "Probability of silence between two words", least=0, most=1),
    option("unknown-word", str, "",
           "Word whose pronunciation replaces words that the lexicon lacks (empty: leave out utterances with them)"),
    option("srand", int, 0, "Seed of the random numbers"),
])
def text_to_phones(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.decoding.lexicon import (
        RandomSilence,
        Silence,
        TextPhones,
        UnknownWordError,
        lexicon_phones,
        read_lexicon,
    )
    from nnet3py.decoding.symbols import SymbolTable, read_transcripts
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.io.tables import TableWriter

    lexicon = read_lexicon(args[0])
    phones = (SymbolTable.read(options.phones, "phone") if options.phones
              else lexicon_phones(lexicon, Silence(options.silence_phone)))
    silence = RandomSilence(options.silence_phone, options.edge_silprob, options.between_silprob)
    convert = TextPhones(lexicon, phones, silence, options.unknown_word, options.srand)
    num_done = num_failed = 0
    with TableWriter(args[2], INT_VECTOR) as writer:
        for key, words in read_transcripts(args[1]).items():
            try:
                sequence = convert(words)
            except UnknownWordError as error:
                log.warning(f"utterance {key}: {error}")
                num_failed += 1
                continue
            writer.write(key, np.array(sequence, dtype=np.int32))
            num_done += 1
    log.log(f"Wrote phones of {num_done} utterances, failed for {num_failed}")
    return 0 if num_done else 1
