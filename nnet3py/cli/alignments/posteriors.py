"""Posteriors: ali-to-post, copy-post, weight-post, weight-silence-post, post-to-weights and other conversions."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table, write_value
from nnet3py.cli.process.options import OptionError, Options, int_list, option
from nnet3py.errors import within

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.formats.general import SparseMatrix
    from nnet3py.formats.posteriors import Posterior


@kaldi_command("ali-to-post", "Alignments and posteriors", "Turn alignments into posteriors.", """
Turn vectors of integers, such as alignments, into posteriors: each integer gets the weight 1 in its frame.

Usage:  ali-to-post [options] <alignments-rspecifier> <posteriors-wspecifier>
e.g.:
 ali-to-post ark:1.ali ark:1.post
See also: ali-to-pdf, ali-to-phones
""", arguments=(2, 2))
def ali_to_post(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import INT_VECTOR, POSTERIOR
    from nnet3py.formats.posteriors import posterior_of_alignment

    return convert_table(args[0], args[1], INT_VECTOR, POSTERIOR,
                         lambda key, alignment: posterior_of_alignment(alignment)).report(
        "Converted {done} alignments.")


@kaldi_command("copy-post", "Alignments and posteriors", "Copy posteriors; optionally scale them.", """
Copy posteriors, and optionally multiply their weights by --scale.

Usage: copy-post [options] <posteriors-rspecifier> <posteriors-wspecifier>
e.g.: copy-post --scale=0.5 ark:1.post ark,t:-
See also: ali-to-post, post-to-smat, post-to-tacc
""", arguments=(2, 2), options=[option("scale", float, 1.0, "Factor by which the weights are multiplied")])
def copy_post(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import POSTERIOR

    def scaled(key: str, posterior: Posterior) -> Posterior:
        if options.scale == 0.0:       # entries of weight 0 are not kept
            return type(posterior)(np.zeros_like(posterior.row_starts), posterior.ids[:0], posterior.weights[:0])
        if options.scale != 1.0:
            with np.errstate(over="ignore"):
                posterior.weights = posterior.weights * np.float32(options.scale)
        return posterior

    return convert_table(args[0], args[1], POSTERIOR, POSTERIOR, scaled).report("Done copying {done} posteriors.")


@kaldi_command("weight-post", "Alignments and posteriors", "Multiply the posteriors of each frame by a weight.", """
Multiply the posteriors of each frame by a weight, an element of the utterance's vector of weights; frames of weight 0
become empty.

Usage:  weight-post [options] <posteriors-rspecifier> <weights-rspecifier> <posteriors-wspecifier>
e.g.:
 weight-post ark:1.post ark:weights.ark ark:weighted.post
See also: post-to-weights, weight-silence-post, scale-post
""", arguments=(3, 3), options=[
    option("length-tolerance", int, 2, "Greatest difference in length of posteriors and weights; frames without a "
           "weight become empty", least=0),
])
def weight_post(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_VECTOR, POSTERIOR
    from nnet3py.formats.posteriors import scaled_frames
    from nnet3py.io.tables import RandomAccessReader

    with RandomAccessReader(args[1], FLOAT_VECTOR) as table:
        def weighted(key: str, posterior: Posterior) -> Posterior | None:
            if key not in table:
                log.warning(f"No weights for utterance {key}")
                return None
            weights = table[key]
            if abs(len(weights) - len(posterior)) > options.length_tolerance:
                log.warning(f"Weights for utterance {key} have wrong size {len(weights)} vs. {len(posterior)}")
                return None
            factors = np.zeros(len(posterior), dtype=np.float32)
            both = min(len(weights), len(posterior))
            factors[:both] = weights[:both]
            return scaled_frames(posterior, factors)

        return convert_table(args[0], args[2], POSTERIOR, POSTERIOR, weighted, inputs=table).report(
            "Scaled {done} posteriors; errors on {errors}")


@kaldi_command("weight-silence-post", "Alignments and posteriors",
               "Multiply the posteriors of silence phones by a weight.", """
Multiply the posteriors of transition-ids of some phones, usually silence, by a weight; entries of weight 0 are left
out.

Usage:  weight-silence-post [options] <silence-weight> <silence-phones> <model> <posteriors-rspecifier> \
<posteriors-wspecifier>
e.g.:
 weight-silence-post 0.0 1:2:3 1.mdl ark:1.post ark:nosil.post
See also: ali-to-post, post-to-weights
""", arguments=(5, 5), options=[
    option("distribute", bool, False, "Weight whole frames, by their share of silence, rather than single entries"),
])
def weight_silence_post(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import POSTERIOR
    from nnet3py.formats.posteriors import weighted_entries, weighted_frames
    from nnet3py.hmm.alignment import check_transition_ids
    from nnet3py.hmm.transition_model import read_transition_model

    try:
        weight = float(args[0])
    except ValueError:
        raise OptionError(f"expected a weight, found '{args[0]}'") from None
    phones = int_list(args[1], "silence-phones")
    if not phones:
        log.warning("No silence phones specified, posteriors are copied as they are")
    model = read_transition_model(args[2])
    is_silence = np.isin(model.transition_id_to_phone, phones)

    def weighted(key: str, posterior: Posterior) -> Posterior:
        if not phones:
            return posterior
        check_transition_ids(model, posterior.ids)
        silent = is_silence[posterior.ids]
        return (weighted_frames if options.distribute else weighted_entries)(posterior, silent, weight)

    return convert_table(args[3], args[4], POSTERIOR, POSTERIOR, weighted).report("Done {done} posteriors.")


@kaldi_command("post-to-weights", "Alignments and posteriors", "Sum the posteriors of each frame.", """
Turn posteriors into vectors with a weight for each frame: the sum of the frame's posteriors.

Usage:  post-to-weights [options] <posteriors-rspecifier> <weights-wspecifier>
e.g.:
 post-to-weights ark:nosil.post ark:weights.ark
See also: weight-silence-post, ali-to-post
""", arguments=(2, 2))
def post_to_weights(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_VECTOR, POSTERIOR
    from nnet3py.formats.posteriors import frame_sums

    return convert_table(args[0], args[1], POSTERIOR, FLOAT_VECTOR,
                         lambda key, posterior: frame_sums(posterior)).report(
        "Done converting {done} posteriors to weights.")


@kaldi_command("post-to-pdf-post", "Alignments and posteriors",
               "Turn posteriors of transition-ids into posteriors of pdf-ids.", """
Turn posteriors of transition-ids into posteriors of pdf-ids. Of the model only the transition model is read.

Usage:  post-to-pdf-post [options] <model> <posteriors-rspecifier> <posteriors-wspecifier>
e.g.:
 post-to-pdf-post 1.mdl ark:1.post ark:pdf.post
See also: ali-to-post, ali-to-pdf
""", arguments=(3, 3))
def post_to_pdf_post(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import POSTERIOR
    from nnet3py.formats.posteriors import summed_by_id
    from nnet3py.hmm.alignment import check_transition_ids
    from nnet3py.hmm.transition_model import read_transition_model

    model = read_transition_model(args[0])

    def pdf_posterior(key: str, posterior: Posterior) -> Posterior:
        check_transition_ids(model, posterior.ids)
        return summed_by_id(posterior, model.transition_id_to_pdf[posterior.ids])

    convert_table(args[1], args[2], POSTERIOR, POSTERIOR, pdf_posterior).report(
        "Done converting posteriors to pdf-level posteriors for {done} utterances.")
    return 0


@kaldi_command("logprob-to-post", "Alignments and posteriors", "Turn log-probabilities into posteriors.", """
Turn matrices of log-probabilities (a row for each frame) into posteriors, without probabilities below --min-post.

Usage:  logprob-to-post [options] <logprob-matrix-rspecifier> <posteriors-wspecifier>
e.g.:
 nnet3-compute 1.mdl scp:feats.scp ark:- | logprob-to-post ark:- ark:1.post
See also: copy-post, post-to-pdf-post
""", arguments=(2, 2), options=[
    option("min-post", float, 0.01, "Smaller posteriors are left out, or set to this at random", least=0, most=1),
    option("random-prune", bool, True, "Set smaller posteriors to --min-post with a probability that keeps their "
           "expectation; false: leave them all out"),
])
def logprob_to_post(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX, POSTERIOR
    from nnet3py.formats.posteriors import of_log_probs
    from nnet3py.random_sequence import CRandom

    random = CRandom()

    def converted(key: str, matrix: np.ndarray) -> Posterior:
        return of_log_probs(matrix, options.min_post, random.uniform if options.random_prune else None)

    return convert_table(args[0], args[1], FLOAT_MATRIX, POSTERIOR, converted).report(
        "Converted {done} log-prob matrices to posteriors.")


@kaldi_command("post-to-smat", "Alignments and posteriors", "Turn posteriors into sparse matrices.", """
Turn posteriors into sparse matrices with a row for each frame; an entry's id is its column, from 0.

Usage: post-to-smat [options] --dim=<columns> <posteriors-rspecifier> <sparse-matrix-wspecifier>
e.g.: post-to-smat --dim=1038 ark:1.post ark:-
See also: ali-to-post, copy-post
""", arguments=(2, 2), options=[option("dim", int, -1, "Number of columns; must be given")])
def post_to_smat(args: list[str], options: Options) -> int:
    from nnet3py.formats.general import SparseMatrix
    from nnet3py.formats.holders import GENERAL_MATRIX, POSTERIOR

    if options.dim <= 0:
        raise OptionError("The --dim option must be specified.", "give the number of columns, above 0")

    def sparse(key: str, posterior: Posterior) -> SparseMatrix:
        return SparseMatrix.from_arrays(posterior.row_starts, posterior.ids, posterior.weights, options.dim)

    return convert_table(args[0], args[1], POSTERIOR, GENERAL_MATRIX, sparse).report(
        "Done converting {done} posteriors into sparse matrices.")


@kaldi_command("post-to-tacc", "Alignments and posteriors", "Sum posteriors by transition-id or pdf-id.", """
Sum posteriors of transition-ids over all frames, and write a single vector of counts, by transition-id (element 0 is
unused) or by pdf-id.

Usage: post-to-tacc [options] <model> <posteriors-rspecifier> <accs-wxfilename>
e.g.: post-to-tacc --binary=false 1.mdl "ark:ali-to-post ark:1.ali ark:- |" 1.tacc
See also: ali-to-post, vector-sum
""", arguments=(3, 3), options=[
    option("binary", bool, True, "Write output in binary mode"),      # option_groups.py would import compiler options
    option("per-pdf", bool, False, "Sum by pdf-id; as in Kaldi, without the last transition-id"),
])
def post_to_tacc(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_VECTOR, POSTERIOR
    from nnet3py.hmm.alignment import check_transition_ids
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.io.tables import SequentialReader

    model = read_transition_model(args[0])
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
        write_value(args[2], FLOAT_VECTOR, (by_pdf if options.per_pdf else counts).astype(np.float32), options.binary)
    log.log(f"Done computing transition stats over {done} utterances; wrote stats to {args[2]}")
    return 0 if done else 1


@kaldi_command("get-post-on-ali", "Alignments and posteriors", "Write the posteriors of alignments.", """
Write the posterior of each frame's entry of an alignment: a vector for each utterance, such as the confidence of the
best path of a lattice. Posteriors and alignments must have the same kind of ids, such as pdf-ids.

Usage:  get-post-on-ali [options] <posteriors-rspecifier> <alignments-rspecifier> <weights-wspecifier>
e.g.:
 lattice-to-post ark:lat.ark ark:- | post-to-pdf-post final.mdl ark:- ark:- | \\
   get-post-on-ali ark:- ark:pdfs.ark ark:weights.ark
See also: post-to-weights, nnet3-chain-get-egs
""", arguments=(3, 3))
def get_post_on_ali(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_VECTOR, INT_VECTOR, POSTERIOR
    from nnet3py.io.tables import RandomAccessReader

    with RandomAccessReader(args[1], INT_VECTOR) as alignments:
        def aligned(key: str, posterior: Posterior) -> np.ndarray | None:
            alignment = alignments.get(key)
            if alignment is None or len(alignment) != len(posterior):
                log.warning(f"There is no alignment of utterance {key}" if alignment is None else
                            f"The alignment of utterance {key} has {len(alignment)} frames, but its "
                            f"posteriors have {len(posterior)}")
                return None
            frames = np.repeat(np.arange(len(alignment)), np.diff(posterior.row_starts))
            is_aligned = posterior.ids == alignment[frames]
            return np.bincount(frames[is_aligned], posterior.weights[is_aligned],
                               minlength=len(alignment)).astype(np.float32)

        return convert_table(args[0], args[2], POSTERIOR, FLOAT_VECTOR, aligned, inputs=alignments).report(
            "Done {done} utterances, failed for {errors}")
