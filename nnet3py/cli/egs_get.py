"""nnet3-get-egs."""
from __future__ import annotations

from contextlib import ExitStack

from nnet3py.cli.command import kaldi_command
from nnet3py.cli.option_groups import EGGEN
from nnet3py.cli.options import Options, option

USAGE = """Make training examples of features and pdf-level posteriors (such as alignments):
pieces of utterances with context.

Usage:  nnet3-get-egs [options] <features-rspecifier> <pdf-post-rspecifier> <egs-wspecifier>

e.g.: nnet3-get-egs --num-pdfs=2658 --left-context=12 --right-context=9 --num-frames=8 \\
    ark:feats.ark "ark:ali-to-pdf final.mdl ark:1.ali ark:- | ali-to-post ark:- ark:- |" ark:egs.ark"""


@kaldi_command("nnet3-get-egs", usage=USAGE, arguments=(3, 3), options=[
    *EGGEN,
    option("compress", bool, True, "Store features in compressed form"),
    option("num-pdfs", int, -1, "Number of pdfs, the dimension of the output; required"),
    option("ivectors", str, "", "Alias for --online-ivectors"),
    option("online-ivectors", str, "", "Rspecifier of iVectors, one matrix per utterance"),
    option("online-ivector-period", int, 1, "Frames between the rows of --online-ivectors"),
    option("length-tolerance", int, 100, "Frames by which features and iVectors may differ in length"),
    option("targets-length-tolerance", int, 2, "Frames by which features and posteriors may differ in length"),
])
def get_egs(args: list[str], options: Options) -> int:
    """Make examples; utterances that cannot be used are counted and reported."""
    from nnet3py import log
    from nnet3py.egs.example import EXAMPLE
    from nnet3py.egs.make import ExampleMaker
    from nnet3py.egs.splitter import SplitOptions, UtteranceSplitter
    from nnet3py.errors import Nnet3Error, NumericError
    from nnet3py.io.holders import FLOAT_MATRIX, GENERAL_MATRIX, POSTERIOR
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter

    if options.num_pdfs <= 0:
        raise Nnet3Error("--num-pdfs options is required.")
    if options.online_ivector_period <= 0:
        raise Nnet3Error("--online-ivector-period must be positive")
    cut = {one.name.replace("-", "_"): options[one.name] for one in EGGEN}
    splitter = UtteranceSplitter(SplitOptions.parse(cut.pop("num_frames"), **cut))
    maker = ExampleMaker(splitter, options.compress, options.num_pdfs, options.online_ivector_period)
    ivector_table = options.online_ivectors or options.ivectors
    num_errors = 0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(args[2], EXAMPLE))
        posteriors = stack.enter_context(RandomAccessReader(args[1], POSTERIOR))
        ivectors = stack.enter_context(RandomAccessReader(ivector_table, FLOAT_MATRIX)) if ivector_table else None
        # Opened last, so closed first: a damaged archive then leaves no output that looks complete.
        features = stack.enter_context(SequentialReader(args[0], GENERAL_MATRIX))
        for utterance, matrix in log.progress(features, "Making examples"):
            num_frames = matrix.shape[0]
            posterior = posteriors.get(utterance)
            ivector = ivectors.get(utterance) if ivectors is not None else None
            if posterior is None:
                log.warning(f"No pdf-level posterior for key {utterance}", file="nnet3-get-egs.cc", line=300)
                num_errors += 1
            elif not splitter.lengths_match(utterance, num_frames, len(posterior), options.targets_length_tolerance):
                num_errors += 1
            elif ivectors is not None and ivector is None:
                log.warning(f"No iVectors for utterance {utterance}", file="nnet3-get-egs.cc", line=310)
                num_errors += 1
            elif ivector is not None and not maker.ivectors_fit(utterance, num_frames, len(ivector),
                                                                options.length_tolerance):
                num_errors += 1
            else:
                try:
                    examples = list(maker.from_posteriors(utterance, matrix, posterior, ivector))
                except NumericError as error:
                    log.warning(f"Skipping utterance {utterance}: {error}", file="nnet3-get-egs.cc", line=320)
                    num_errors += 1
                    continue
                for key, example in examples:
                    writer.write(key, example)
    if num_errors:
        log.warning(f"{num_errors} utterances had errors and could not be processed.", file="nnet3-get-egs.cc",
                    line=350)
    splitter.log_report()
    return 0 if splitter.num_chunk_frames else 1
