"""copy-post, post-to-smat and post-to-tacc: posteriors scaled, as sparse matrices, or counted."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import within

if TYPE_CHECKING:
    from nnet3py.formats.general import SparseMatrix
    from nnet3py.formats.posteriors import Posterior


@kaldi_command("copy-post", group="Alignments and posteriors", help="Copy posteriors; optionally scale them.", usage="""
Copy a table of posteriors, and optionally scale their weights.

Usage: copy-post [options] <posteriors-rspecifier> <posteriors-wspecifier>
e.g.: copy-post --scale=0.5 ark:1.post ark,t:-
See also: ali-to-post, post-to-smat, post-to-tacc
""", arguments=(2, 2), options=[option("scale", float, 1.0, "Factor by which the weights are multiplied")])
def copy_post(args: list[str], options: Options) -> int:
    """Copy a table; 1 if it was empty."""
    import numpy as np

    from nnet3py.formats.holders import POSTERIOR

    def scaled(key: str, posterior: Posterior) -> Posterior:
        if options.scale == 0.0:       # entries of weight 0 are not kept
            return type(posterior)(np.zeros_like(posterior.row_starts), posterior.ids[:0], posterior.weights[:0])
        if options.scale != 1.0:
            with np.errstate(over="ignore"):
                posterior.weights = posterior.weights * np.float32(options.scale)
        return posterior

    count, _ = convert_table(args[0], args[1], POSTERIOR, POSTERIOR, scaled)
    log.log(f"Done copying {count} posteriors.")
    return 0 if count else 1


@kaldi_command("post-to-smat", group="Alignments and posteriors", help="Turn posteriors into sparse matrices.",
               usage="""
Turn posteriors into sparse matrices with a row for each frame; ids are columns, counted from 0.

Usage: post-to-smat [options] --dim=<columns> <posteriors-rspecifier> <sparse-matrix-wspecifier>
e.g.: post-to-smat --dim=1038 ark:1.post ark:-
See also: ali-to-post, copy-post
""", arguments=(2, 2), options=[option("dim", int, -1, "Columns of the matrices; must be given")])
def post_to_smat(args: list[str], options: Options) -> int:
    """Convert a table; 1 if it was empty."""
    from nnet3py.formats.general import SparseMatrix
    from nnet3py.formats.holders import GENERAL_MATRIX, POSTERIOR

    if options.dim <= 0:
        raise OptionError("The --dim option must be specified.", "give the number of columns, above 0")

    def sparse(key: str, posterior: Posterior) -> SparseMatrix:
        return SparseMatrix.from_arrays(posterior.row_starts, posterior.ids, posterior.weights, options.dim)

    count, _ = convert_table(args[0], args[1], POSTERIOR, GENERAL_MATRIX, sparse)
    log.log(f"Done converting {count} posteriors into sparse matrices.")
    return 0 if count else 1


@kaldi_command("post-to-tacc", group="Alignments and posteriors", help="Sum posteriors by transition-id or pdf-id.",
               usage="""
Sum the weights of posteriors of transition-ids: one vector, by transition-id (element 0 is empty) or by pdf-id.

Usage: post-to-tacc [options] <model> <posteriors-rspecifier> <accs-wxfilename>
e.g.: post-to-tacc --binary=false 1.mdl "ark:ali-to-post ark:1.ali ark:- |" 1.tacc
See also: ali-to-post, vector-sum
""", arguments=(3, 3), options=[
    BINARY,
    option("per-pdf", bool, False, "Sum by pdf-id. As in Kaldi, the last transition-id is left out then"),
])
def post_to_tacc(args: list[str], options: Options) -> int:
    """Count; 1 if the table was empty."""
    import numpy as np

    from nnet3py.formats.holders import POSTERIOR
    from nnet3py.formats.matrices import write_vector
    from nnet3py.hmm.alignment import check_transition_ids
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.io.tables import SequentialReader

    model = read_object(args[0], TransitionModel.read)
    counts = np.zeros(model.num_transition_ids + 1)
    done = 0
    with SequentialReader(args[1], POSTERIOR) as posteriors:
        for key, posterior in posteriors:
            with within(f"utterance {key}"):
                check_transition_ids(model, posterior.ids)
            counts += np.bincount(posterior.ids, posterior.weights, minlength=len(counts))
            done += 1
    if options.per_pdf:
        log.log("accumulate counts per pdf-id")
        by_pdf = np.bincount(model.transition_id_to_pdf[1:-1], counts[1:-1], minlength=model.num_pdfs)
    with np.errstate(over="ignore"):
        single = (by_pdf if options.per_pdf else counts).astype(np.float32)
    write_object(args[2], lambda writer: write_vector(writer, single), options.binary)
    log.log(f"Done computing transition stats over {done} utterances; wrote stats to {args[2]}")
    return 0 if done else 1
