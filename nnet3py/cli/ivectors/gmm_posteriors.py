"""Programs that select Gaussians for frames, compute their posteriors, and scale posteriors.

gmm-gselect, fgmm-gselect, gmm-global-get-post, gmm-global-gselect-to-post, fgmm-global-gselect-to-post, scale-post.
"""
from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import within
from nnet3py.io.specifiers import is_rspecifier

if TYPE_CHECKING:
    from nnet3py.formats.posteriors import Posterior

_REPORT_EVERY = 10          # utterances between two log lines
_N = option("n", int, 50, "Gaussians that are kept for each frame", least=1)
_GSELECT_OPTIONS = (
    _N,
    option("write-likes", str, "", "Table (wspecifier) for the log-likelihood of each utterance, per frame"),
    option("gselect", str, "", "Gaussians of each frame to choose among (rspecifier)"),
)
_GSELECT_USAGE = """
Write the likeliest Gaussians of each frame, in descending order of likelihood.

Usage:  {name} [options] <model-in> <feature-rspecifier> <gselect-wspecifier>
e.g.: {name} --n=20 1.{ending} scp:train.scp ark:gselect.ark
See also: {post}
"""


def mixture_class() -> Any:
    """Return the class of mixtures that the running program uses: FullGmm for fgmm-*, else DiagGmm."""
    from nnet3py.gaussians.mixtures import DiagGmm, FullGmm

    return FullGmm if log.program().startswith("fgmm-") else DiagGmm


@kaldi_command("gmm-gselect", "Speakers and i-vectors", "Find the likeliest Gaussians of each frame.",
               arguments=(3, 3), options=_GSELECT_OPTIONS, usage=_GSELECT_USAGE.format(
    name="gmm-gselect", ending="dubm", post="gmm-global-gselect-to-post"))
@kaldi_command("fgmm-gselect", "Speakers and i-vectors",
               "Find the likeliest Gaussians with full covariance of each frame.",
               arguments=(3, 3), options=_GSELECT_OPTIONS, usage=_GSELECT_USAGE.format(
    name="fgmm-gselect", ending="ubm", post="fgmm-global-gselect-to-post"))
def gmm_gselect(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT, FLOAT_MATRIX, INT_VECTOR_VECTOR
    from nnet3py.gaussians.mixtures import select, select_among
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter

    gmm = read_object(args[0], mixture_class().read)
    most = options.n
    if most > len(gmm.weights):
        log.warning(f"You asked for {most} Gaussians but GMM has only {len(gmm.weights)}, returning this many.")
        most = len(gmm.weights)
    done = errors = num_frames = 0
    total = 0.0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(args[2], INT_VECTOR_VECTOR))
        likes = stack.enter_context(TableWriter(options.write_likes, FLOAT)) if options.write_likes else None
        given = stack.enter_context(RandomAccessReader(options.gselect, INT_VECTOR_VECTOR)) if options.gselect else None
        for key, matrix in stack.enter_context(SequentialReader(args[1], FLOAT_MATRIX)):
            if given is not None and (key not in given or len(given[key]) != len(matrix)):
                log.warning(f"No gselect information for utterance {key}, or of wrong size")
                errors += 1
                continue
            with within(f"utterance {key}"):
                if given is not None:
                    chosen, log_like = select_among(gmm, matrix, given[key], most)
                else:
                    picked = select(gmm, matrix, most)
                    chosen, log_like = [*picked.numbers.astype(np.int32)], float(picked.log_likes.sum(dtype=np.float64))
            writer.write(key, chosen)
            if likes is not None:
                likes.write(key, log_like / max(len(matrix), 1))
            if done % _REPORT_EVERY == 0:
                log.log(f"For {done}'th file, average UBM likelihood over {len(matrix)} frames is "
                        f"{log_like / max(len(matrix), 1):.6g}")
            done, num_frames, total = done + 1, num_frames + len(matrix), total + log_like
    log.log(f"Done {done} files, {errors} with errors, average UBM log-likelihood is {total / max(num_frames, 1):.6g} "
            f"over {num_frames} frames.")
    return 0 if done else 1


_MIN_POST = option("min-post", float, 0.0, "Smaller posteriors are left out")
_POST_USAGE = """
Write posteriors of the Gaussians that were selected for each frame.

Usage:  {name} [options] <model-in> <feature-rspecifier> <gselect-rspecifier> <post-wspecifier>
e.g.: {name} 1.{ending} scp:train.scp ark:gselect.ark ark:post.ark
See also: {select}, scale-post
"""


@kaldi_command("gmm-global-gselect-to-post", "Speakers and i-vectors", "Compute posteriors of selected Gaussians.",
               arguments=(4, 4), options=[_MIN_POST], usage=_POST_USAGE.format(
    name="gmm-global-gselect-to-post", ending="dubm", select="gmm-gselect"))
@kaldi_command("fgmm-global-gselect-to-post", "Speakers and i-vectors",
               "Compute posteriors of selected Gaussians with full covariance.",
               arguments=(4, 4), options=[_MIN_POST], usage=_POST_USAGE.format(
    name="fgmm-global-gselect-to-post", ending="ubm", select="fgmm-gselect"))
def gmm_global_gselect_to_post(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR_VECTOR, POSTERIOR
    from nnet3py.gaussians.mixtures import selected_posteriors
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import RandomAccessReader

    gmm = read_object(args[0], mixture_class().read)
    total = 0.0
    num_frames = num_entries = 0
    with RandomAccessReader(args[2], INT_VECTOR_VECTOR) as selections:
        def converted(key: str, matrix: Any) -> Posterior | None:
            nonlocal total, num_frames, num_entries
            if key not in selections or len(selections[key]) != len(matrix):
                log.warning(f"No gselect information for utterance {key}, or of wrong size")
                return None
            posterior, log_like = selected_posteriors(gmm, matrix, selections[key], options.min_post)
            total, num_frames, num_entries = total + log_like, num_frames + len(matrix), num_entries + len(
                posterior.ids)
            return posterior

        counts = convert_table(args[1], args[3], FLOAT_MATRIX, POSTERIOR, converted, inputs=selections)
    counts.report("Done {done} files; {errors} had errors.")
    frames = max(num_frames, 1)
    return counts.report(f"Overall loglike per frame is {total / frames:.6g} with {num_entries / frames:.6g} entries "
                         f"per frame,  over {num_frames} frames")


@kaldi_command("gmm-global-get-post", "Speakers and i-vectors", "Compute posteriors of the likeliest Gaussians.", """
Write posteriors of the likeliest Gaussians of each frame.

Usage:  gmm-global-get-post [options] <model-in> <feature-rspecifier> <post-wspecifier>
e.g.: gmm-global-get-post --n=5 --min-post=0.025 1.dubm scp:train.scp ark:post.ark
See also: gmm-gselect, scale-post
""", arguments=(3, 3), options=[_N, _MIN_POST])
def gmm_global_get_post(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_MATRIX, POSTERIOR
    from nnet3py.gaussians.mixtures import DiagGmm, pruned_posteriors
    from nnet3py.io.object_files import read_object

    gmm = read_object(args[0], DiagGmm.read)
    total, num_frames = 0.0, 0

    def converted(key: str, matrix: np.ndarray) -> Posterior:
        nonlocal total, num_frames
        posteriors = pruned_posteriors(gmm.log_likelihoods(matrix), options.n, options.min_post)
        total, num_frames = total + float(posteriors.log_likes.sum(dtype=np.float64)), num_frames + len(matrix)
        return posteriors.posterior

    return convert_table(args[1], args[2], FLOAT_MATRIX, POSTERIOR, converted).report(
        f"Done {{done}} files, {{errors}} with errors, average UBM log-likelihood is {total / max(num_frames, 1):.6g} "
        f"over {num_frames} frames.")


@kaldi_command("scale-post", "Speakers and i-vectors", "Multiply posteriors.", """
Multiply posteriors by a number, or by a number for each utterance.

Usage:  scale-post [options] <post-rspecifier> (<scale>|<scale-rspecifier>) <post-wspecifier>
e.g.: scale-post ark:post.ark 0.1 ark:scaled.ark
See also: copy-post, gmm-global-get-post
""", arguments=(3, 3))
def scale_post(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT, POSTERIOR
    from nnet3py.formats.posteriors import weighted_entries
    from nnet3py.io.tables import RandomAccessReader

    with ExitStack() as stack:
        scales: Any = None
        if is_rspecifier(args[1]):
            scales = stack.enter_context(RandomAccessReader(args[1], FLOAT))
        else:
            try:
                fixed = float(args[1])
            except ValueError:
                raise OptionError(f"expected a number or a table of numbers (rspecifier), found '{args[1]}'") from None

        def scaled(key: str, posterior: Posterior) -> Posterior | None:
            if scales is not None and key not in scales:
                log.warning(f"Scale not found for utterance {key}")
                return None
            return weighted_entries(posterior, np.ones(len(posterior.ids), dtype=bool),
                                    scales[key] if scales is not None else fixed)

        return convert_table(args[0], args[2], POSTERIOR, POSTERIOR, scaled).report(
            "Done {done} posteriors; {errors} had no scales.")
