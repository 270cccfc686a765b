"""Posteriors by frame, phone or pdf: weight-post, weight-silence-post, post-to-weights and the like."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table
from nnet3py.cli.process.options import OptionError, Options, option

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.formats.posteriors import Posterior


@kaldi_command("weight-silence-post", group="Alignments and posteriors", help="Weight the posteriors of silence.",
               usage="""
Multiply the posteriors of some phones, usually silence, by a weight; entries of weight 0 are left out.

Usage:  weight-silence-post [options] <silence-weight> <silence-phones> <model> <posteriors-rspecifier>
 <posteriors-wspecifier>
e.g.:
 weight-silence-post 0.0 1:2:3 1.mdl ark:1.post ark:nosil.post
See also: ali-to-post, post-to-weights
""", arguments=(5, 5), options=[
    option("distribute", bool, False, "Weight whole frames, by how much silence is in them, rather than entries"),
])
def weight_silence_post(args: list[str], options: Options) -> int:
    """Weight a table; 1 if it was empty."""
    import numpy as np

    from nnet3py.cli.process.lists import int_list
    from nnet3py.formats.holders import POSTERIOR
    from nnet3py.formats.posteriors import weighted_entries, weighted_frames
    from nnet3py.hmm.alignment import check_transition_ids
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object

    try:
        weight = float(args[0])
    except ValueError:
        raise OptionError(f"expected a weight, found '{args[0]}'") from None
    phones = int_list(args[1], "silence-phones")
    if not phones:
        log.warning("No silence phones specified, posteriors are copied as they are")
    model = read_object(args[2], TransitionModel.read)
    is_silence = np.isin(model.transition_id_to_phone, phones)

    def weighted(key: str, posterior: Posterior) -> Posterior:
        if not phones:
            return posterior
        check_transition_ids(model, posterior.ids)
        silent = is_silence[posterior.ids]
        return (weighted_frames if options.distribute else weighted_entries)(posterior, silent, weight)

    count, _ = convert_table(args[3], args[4], POSTERIOR, POSTERIOR, weighted)
    log.log(f"Done {count} posteriors.")
    return 0 if count else 1


@kaldi_command("weight-post", group="Alignments and posteriors", help="Weight the posteriors of each frame.", usage="""
Multiply the posteriors of each frame by the frame's weight; frames of weight 0 become empty.

Usage:  weight-post [options] <posteriors-rspecifier> <weights-rspecifier> <posteriors-wspecifier>
e.g.:
 weight-post ark:1.post ark:weights.ark ark:weighted.post
See also: post-to-weights, weight-silence-post, scale-post
""", arguments=(3, 3), options=[
    option("length-tolerance", int, 2, "Frames by which posteriors and weights may differ in length; a frame without a "
                                       "weight becomes empty"),
])
def weight_post(args: list[str], options: Options) -> int:
    """Weight a table; 1 if nothing was written."""
    from contextlib import ExitStack

    import numpy as np

    from nnet3py.formats.holders import FLOAT_VECTOR, POSTERIOR
    from nnet3py.formats.posteriors import scaled_frames
    from nnet3py.io.tables import RandomAccessReader

    with ExitStack() as inputs:
        table = inputs.enter_context(RandomAccessReader(args[1], FLOAT_VECTOR))

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

        done, errors = convert_table(args[0], args[2], POSTERIOR, POSTERIOR, weighted, inputs=inputs)
    log.log(f"Scaled {done} posteriors; errors on {errors}")
    return 0 if done else 1


@kaldi_command("post-to-weights", group="Alignments and posteriors", help="Sum the posteriors of each frame.", usage="""
Turn posteriors into a weight for each frame: the sum of its entries.

Usage:  post-to-weights [options] <posteriors-rspecifier> <weights-wspecifier>
e.g.:
 post-to-weights ark:nosil.post ark:weights.ark
See also: weight-silence-post, ali-to-post
""", arguments=(2, 2))
def post_to_weights(args: list[str], options: Options) -> int:
    """Convert a table; 1 if it was empty."""
    from nnet3py.formats.holders import FLOAT_VECTOR, POSTERIOR
    from nnet3py.formats.posteriors import frame_sums

    count, _ = convert_table(args[0], args[1], POSTERIOR, FLOAT_VECTOR,
                             lambda key, posterior: frame_sums(posterior))
    log.log(f"Done converting {count} posteriors to weights.")
    return 0 if count else 1


@kaldi_command("post-to-pdf-post", group="Alignments and posteriors", help="Turn posteriors into those of pdf-ids.",
               usage="""
Turn posteriors of transition-ids into posteriors of pdf-ids.

Usage:  post-to-pdf-post [options] <model> <posteriors-rspecifier> <posteriors-wspecifier>
e.g.:
 post-to-pdf-post 1.mdl ark:1.post ark:pdf.post
See also: ali-to-post, ali-to-pdf
""", arguments=(3, 3))
def post_to_pdf_post(args: list[str], options: Options) -> int:
    """Convert a table."""
    from nnet3py.formats.holders import POSTERIOR
    from nnet3py.formats.posteriors import summed_by_id
    from nnet3py.hmm.alignment import check_transition_ids
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object

    model = read_object(args[0], TransitionModel.read)

    def of_pdfs(key: str, posterior: Posterior) -> Posterior:
        check_transition_ids(model, posterior.ids)
        return summed_by_id(posterior, model.transition_id_to_pdf[posterior.ids])

    count, _ = convert_table(args[1], args[2], POSTERIOR, POSTERIOR, of_pdfs)
    log.log(f"Done converting posteriors to pdf-level posteriors for {count} utterances.")
    return 0


@kaldi_command("logprob-to-post", group="Alignments and posteriors", help="Turn log-probabilities into posteriors.",
               usage="""
Turn matrices of log-probabilities into posteriors, without what is improbable.

Usage:  logprob-to-post [options] <logprob-matrix-rspecifier> <posteriors-wspecifier>
e.g.:
 nnet3-compute 1.mdl scp:feats.scp ark:- | logprob-to-post ark:- ark:1.post
See also: copy-post, post-to-pdf-post
""", arguments=(2, 2), options=[
    option("min-post", float, 0.01, "Smaller posteriors are left out, or at random raised to this"),
    option("random-prune", bool, True, "Keep smaller posteriors at random, so that their sum is right on average"),
])
def logprob_to_post(args: list[str], options: Options) -> int:
    """Convert a table; 1 if it was empty."""
    from nnet3py.formats.holders import FLOAT_MATRIX, POSTERIOR
    from nnet3py.formats.posteriors import of_log_probs
    from nnet3py.random_sequence import CRandom

    if not 0.0 <= options.min_post <= 1.0:
        raise OptionError(f"--min-post must lie between 0 and 1, found {options.min_post:g}")
    random = CRandom()

    def converted(key: str, matrix: np.ndarray) -> Posterior:
        return of_log_probs(matrix, options.min_post, random.uniform if options.random_prune else None)

    count, _ = convert_table(args[0], args[1], FLOAT_MATRIX, POSTERIOR, converted)
    log.log(f"Converted {count} log-prob matrices to posteriors.")
    return 0 if count else 1


@kaldi_command("get-post-on-ali", group="Alignments and posteriors", help="Look up how probable alignments are.",
               usage="""
Write how probable an alignment's entry is in each frame: a vector for each utterance, such as the confidence of the
best path of a lattice. Ids of posteriors and alignments must be of one kind, such as pdfs.

Usage:  get-post-on-ali [options] <posteriors-rspecifier> <alignments-rspecifier> <weights-wspecifier>
e.g.:
 lattice-to-post ark:lat.ark ark:- | post-to-pdf-post final.mdl ark:- ark:- | \\
   get-post-on-ali ark:- ark:pdfs.ark ark:weights.ark
See also: post-to-weights, nnet3-chain-get-egs
""", arguments=(3, 3), options=[])
def get_post_on_ali(args: list[str], options: Options) -> int:
    """Write vectors; 1 if nothing was written."""
    import numpy as np

    from nnet3py.formats.holders import FLOAT_VECTOR, INT_VECTOR, POSTERIOR
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter

    num_done = num_failed = 0
    with TableWriter(args[2], FLOAT_VECTOR) as writer, RandomAccessReader(args[1], INT_VECTOR) as alignments, \
            SequentialReader(args[0], POSTERIOR) as reader:
        for key, posterior in reader:
            alignment = alignments.get(key)
            if alignment is None or len(alignment) != len(posterior.row_starts) - 1:
                why = "no alignment" if alignment is None else (
                    f"an alignment of {len(alignment)} frames for {len(posterior.row_starts) - 1}")
                log.warning(f"There is {why} of utterance {key}")
                num_failed += 1
                continue
            frames = np.repeat(np.arange(len(alignment)), np.diff(posterior.row_starts))
            is_aligned = posterior.ids == alignment[frames]
            writer.write(key, np.bincount(frames[is_aligned], posterior.weights[is_aligned],
                                          minlength=len(alignment)).astype(np.float32))
            num_done += 1
    log.log(f"Done {num_done} utterances, failed for {num_failed}")
    return 0 if num_done else 1
