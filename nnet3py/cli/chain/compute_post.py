"""nnet3-chain-compute-post: posteriors of pdfs or phones, given outputs and the denominator graph."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.nnet.utterances import (
    IVEC,
    SIMPLE,
    IvectorSource,
    check_ivector_options,
    compute_one,
    compute_options,
    model_for_test,
)
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import DEVICE, with_default
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import ShapeError

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.chain.denominator import DenominatorComputation


@kaldi_command("nnet3-chain-compute-post", group="Chain training",
               help="Compute posteriors of pdfs or phones by the denominator graph.", usage="""
Compute, for each frame of utterances, the posteriors of pdfs given the network's output and the denominator graph,
without a transcript, and write a matrix for each utterance. With --transform-mat, posteriors of pdfs become posteriors
of phones, or of other classes, which are the rows of that matrix.

Usage: nnet3-chain-compute-post [options] <nnet-in> <den-fst> <features-rspecifier> <matrix-wspecifier>

e.g.: nnet3-chain-compute-post --frame-subsampling-factor=3 final.raw den.fst scp:feats.scp ark:post.ark
See also: nnet3-compute, chain-make-den-fst
""", arguments=(4, 4), options=[
    *with_default(SIMPLE, "acoustic-scale", 1.0), *IVEC,
    option("leaky-hmm-coefficient", float, 0.1,
           "Probability, for each frame, of going to any state of the denominator graph"),
    option("transform-mat", str, "", "Matrix (phones, pdfs) by which posteriors are multiplied"),
    *DEVICE,
])
def compute_post(args: list[str], options: Options) -> int:
    """Compute posteriors; return 1 if no utterance succeeded."""
    from nnet3py.chain.den_graph import read_den_graph
    from nnet3py.chain.denominator import DenominatorComputation
    from nnet3py.cli.process.option_groups import set_up
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.ops import get_ops
    from nnet3py.runtime.compute import UtteranceComputer

    check_ivector_options(options)
    device = set_up(options)
    nnet, _ = model_for_test(args[0], use_priors=False)
    num_pdfs = nnet.output_dim("output")
    denominator = DenominatorComputation(get_ops("cpu"), read_den_graph(args[1], num_pdfs),
                                         options.leaky_hmm_coefficient)
    transform = _transform(options.transform_mat, num_pdfs)
    computer = UtteranceComputer(nnet, compute_options(options), None, device)
    num_done = num_failed = num_frames = 0
    with TableWriter(args[3], FLOAT_MATRIX) as writer, SequentialReader(args[2], FLOAT_MATRIX) as features, \
            IvectorSource(options) as ivectors:
        for key, feats in features:
            output = compute_one(computer, ivectors, key, feats, options.online_ivector_period)
            posteriors = None if output is None else _posteriors(denominator, output, key)
            if posteriors is None:
                num_failed += 1
                continue
            writer.write(key, posteriors if transform is None else posteriors @ transform.T)
            num_done += 1
            num_frames += len(feats)
    log.log(f"Done {num_done} utterances, failed for {num_failed}; {num_frames} frames")
    return 0 if num_done else 1


def _transform(rxfilename: str, num_pdfs: int) -> np.ndarray | None:
    if not rxfilename:
        return None
    from nnet3py.formats.general import check_finite
    from nnet3py.formats.holders import read_matrix_file

    matrix = read_matrix_file(rxfilename)
    check_finite(matrix, f"the matrix {rxfilename}")
    if matrix.shape[1] != num_pdfs:
        raise ShapeError(f"--transform-mat has {matrix.shape[1]} columns, but the network's output has the dimension "
                         f"{num_pdfs}", "its rows are phones, its columns pdfs")
    return matrix


def _posteriors(denominator: DenominatorComputation, output: np.ndarray, key: str) -> np.ndarray | None:
    """Compute the posteriors of pdfs, float32 (frames, pdfs); None, with a warning, if the computation fails."""
    import numpy as np

    posteriors = np.zeros(output.shape, dtype=np.float32)
    result = denominator.compute(np.ascontiguousarray(output, dtype=np.float32), 1, posteriors, scale=1.0)
    if not result.ok or not np.isfinite(result.log_prob):
        log.warning(f"utterance {key}: the denominator computation failed")
        return None
    return posteriors
