"""ali-to-pdf, ali-to-phones and show-alignments: alignments as sequences of pdf-ids or phones, or as readable text."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import FormatError, within

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.hmm.transition_model import TransitionModel


@kaldi_command("ali-to-pdf", group="Alignments and posteriors", help="Turn alignments into pdf-ids.", usage="""
Turn alignments, sequences of transition-ids, into sequences of pdf-ids. Only the transition model is read.

Usage:  ali-to-pdf [options] <model> <alignments-rspecifier> <pdfs-wspecifier>
e.g.:
 ali-to-pdf 1.mdl ark:1.ali ark,t:-
See also: ali-to-phones, ali-to-post
""", arguments=(3, 3))
def ali_to_pdf(args: list[str], options: Options) -> int:
    """Convert a table."""
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.hmm.alignment import check_transition_ids
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object

    model = read_object(args[0], TransitionModel.read)

    def pdfs(key: str, alignment: np.ndarray) -> np.ndarray:
        check_transition_ids(model, alignment)
        return model.transition_id_to_pdf[alignment]

    count, _ = convert_table(args[1], args[2], INT_VECTOR, INT_VECTOR, pdfs)
    log.log(f"Converted {count} alignments to pdf sequences.")
    return 0


@kaldi_command("ali-to-phones", group="Alignments and posteriors", help="Turn alignments into phones.", usage="""
Turn alignments, sequences of transition-ids, into sequences of phones (numbers), one for each phone or each frame, or
with the phones' lengths in frames, or times.

Usage:  ali-to-phones [options] <model> <alignments-rspecifier> (<phones-wspecifier>|<ctm-wxfilename>)
e.g.:
 ali-to-phones 1.mdl ark:1.ali ark,t:-
or:
 ali-to-phones --ctm-output 1.mdl ark:1.ali 1.ctm
See also: ali-to-pdf, show-transitions
""", arguments=(3, 3), options=[
    option("per-frame", bool, False, "Write the phone of every frame"),
    option("write-lengths", bool, False, "Write pairs of phone and number of frames"),
    option("ctm-output", bool, False, "Write lines in ctm format: utterance, 1, start, duration (seconds), phone"),
    option("frame-shift", float, 0.01, "Seconds from one frame to the next, for --ctm-output"),
])
def ali_to_phones(args: list[str], options: Options) -> int:
    """Convert a table; 1 if it was empty."""
    import numpy as np

    from nnet3py.formats.holders import INT_PAIR_VECTOR, INT_VECTOR
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object

    if options.per_frame + options.write_lengths + options.ctm_output > 1:
        raise OptionError("Only one of --per-frame, --write-lengths and --ctm-output can be given")
    model = read_object(args[0], TransitionModel.read)
    if options.ctm_output:
        count = _write_ctm(model, args[1], args[2], options.frame_shift)
    else:
        def converted(key: str, alignment: np.ndarray) -> np.ndarray:
            phones, lengths = _phones(model, key, alignment)
            if options.write_lengths:
                return np.column_stack([phones, lengths])
            return np.repeat(phones, lengths) if options.per_frame else phones

        target = INT_PAIR_VECTOR if options.write_lengths else INT_VECTOR
        count, _ = convert_table(args[1], args[2], INT_VECTOR, target, converted)
    log.log(f"Done {count} utterances.")
    return 0 if count else 1


def _phones(model: TransitionModel, key: str, alignment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The phones of an alignment and how many frames each has."""
    import numpy as np

    from nnet3py.hmm.alignment import phone_starts

    starts, complete = phone_starts(model, alignment)
    if not complete:
        log.warning(f"The alignment of utterance {key} does not consist of whole phones")
    return model.transition_id_to_phone[alignment[starts]], np.diff(starts, append=len(alignment))


def _write_ctm(model: TransitionModel, rspecifier: str, wxfilename: str, frame_shift: float) -> int:
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.io.streams import open_output
    from nnet3py.io.tables import SequentialReader

    digits = 3 if frame_shift < 0.01 else 2
    count = 0
    with open_output(wxfilename) as stream, SequentialReader(rspecifier, INT_VECTOR) as alignments:
        for key, alignment in alignments:
            with within(f"key {key}"):
                phones, lengths = _phones(model, key, alignment)
            starts = lengths.cumsum() - lengths
            for phone, start, length in zip(phones.tolist(), starts.tolist(), lengths.tolist(), strict=True):
                line = f"{key} 1 {frame_shift * start:.{digits}f} {frame_shift * length:.{digits}f} {phone}\n"
                stream.write(line.encode("utf-8", "surrogateescape"))
            count += 1
    return count


@kaldi_command("show-alignments", group="Alignments and posteriors", help="Print alignments as a person can read them.",
               usage="""
Print alignments as a person can read them: transition-ids in brackets for each phone, and below them its name.

Usage:  show-alignments [options] <phone-syms> <model> <alignments-rspecifier>
e.g.:
 show-alignments phones.txt 1.mdl ark:1.ali
See also: ali-to-phones, show-transitions
""", arguments=(3, 3))
def show_alignments(args: list[str], options: Options) -> None:
    """Print a table."""
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.hmm.alignment import phone_starts, read_symbol_table
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import open_output, read_text
    from nnet3py.io.tables import SequentialReader

    names = read_symbol_table(read_text(args[0]), args[0])
    model = read_object(args[1], TransitionModel.read)
    with open_output("-") as stream, SequentialReader(args[2], INT_VECTOR) as alignments:
        for key, alignment in alignments:
            with within(f"key {key}"):
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
            stream.write(f"{key}  {above}\n{key}  {below}\n\n".encode("utf-8", "surrogateescape"))
