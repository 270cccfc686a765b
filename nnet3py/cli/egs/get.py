"""nnet3-get-egs and nnet3-get-egs-dense-targets: training examples from features, and posteriors or matrices."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.egs.options import EGS_OF_FEATURES, split_options
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import Nnet3Error

if TYPE_CHECKING:
    from nnet3py.egs.make import ExampleMaker

_OPTIONS = (
    *EGS_OF_FEATURES,
    option("targets-length-tolerance", int, 2, "Frames by which features and targets may differ in length"),
)


@kaldi_command("nnet3-get-egs", group="Examples", help="Make training examples from features and posteriors.", usage="""
Make training examples from features and pdf-level posteriors (such as alignments):
pieces of utterances with context.

Usage:  nnet3-get-egs [options] <features-rspecifier> <pdf-post-rspecifier> <egs-wspecifier>

e.g.: nnet3-get-egs --num-pdfs=2658 --left-context=12 --right-context=9 --num-frames=8 \\
    ark:feats.ark "ark:ali-to-pdf final.mdl ark:1.ali ark:- | ali-to-post ark:- ark:- |" ark:egs.ark
""", arguments=(3, 3), options=[
    *_OPTIONS, option("num-pdfs", int, -1, "Number of pdfs, the dimension of the output; required")])
def get_egs(args: list[str], options: Options) -> int:
    """Make examples; utterances that cannot be used are counted and reported."""
    from nnet3py.formats.holders import POSTERIOR

    if options.num_pdfs <= 0:
        raise Nnet3Error("--num-pdfs options is required.")
    job = _Job(options, options.num_pdfs)
    return job.run(args, POSTERIOR, job.maker.from_posteriors, "No pdf-level posterior for key")


@kaldi_command("nnet3-get-egs-dense-targets", group="Examples",
               help="Make training examples from features and matrices of targets.", usage="""
Make training examples from features and matrices of targets, such as clean features
for a network that removes noise: pieces of utterances with context.

Usage:  nnet3-get-egs-dense-targets [options] <features-rspecifier> <targets-rspecifier> <egs-wspecifier>

e.g.: nnet3-get-egs-dense-targets --num-targets=26 --left-context=12 --right-context=9 --num-frames=8 \\
    ark:noisy.ark ark:clean.ark ark:egs.ark
""", arguments=(3, 3), options=[
    *_OPTIONS, option("num-targets", int, -1, "Columns that the targets must have (-1: any)")])
def get_egs_dense_targets(args: list[str], options: Options) -> int:
    """Make examples; utterances that cannot be used are counted and reported."""
    from nnet3py.formats.holders import FLOAT_MATRIX

    job = _Job(options)

    def examples(utterance: str, features: Any, targets: Any, ivectors: Any) -> Iterable[Any]:
        if options.num_targets >= 0 and targets.shape[1] != options.num_targets:
            raise Nnet3Error(f"utterance {utterance} has {targets.shape[1]} targets, but --num-targets="
                             f"{options.num_targets}")
        return job.maker.from_targets(utterance, features, targets, ivectors)

    return job.run(args, FLOAT_MATRIX, examples, "No target matrix for key", too_short_is_error=True)


class _Job:
    """One run of a command: how examples are cut, and what went wrong."""

    def __init__(self, options: Options, num_pdfs: int = -1) -> None:
        from nnet3py.egs.make import ExampleMaker, UtteranceSplitter

        self._options = options
        self._splitter = UtteranceSplitter(split_options(options))
        self.maker: ExampleMaker = ExampleMaker(self._splitter, options.compress, num_pdfs,
                                                options.online_ivector_period)
        self._file = f"{log.program()}.cc"
        self._num_errors = 0

    def run(self, args: list[str], holder: Any, examples: Callable[[str, Any, Any, Any], Iterable[Any]], missing: str,
            too_short_is_error: bool = False) -> int:
        """Make the examples of all utterances; return the exit status.

        ``holder`` is that of the targets, ``examples(utterance, features, targets, ivectors)`` makes those of one
        utterance, ``missing`` warns of one without targets.
        """
        from nnet3py.egs.example import EXAMPLE
        from nnet3py.formats.holders import FLOAT_MATRIX, GENERAL_MATRIX
        from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter

        table = self._options.online_ivectors or self._options.ivectors
        with ExitStack() as stack:
            writer = stack.enter_context(TableWriter(args[2], EXAMPLE))
            targets = stack.enter_context(RandomAccessReader(args[1], holder))
            ivectors = stack.enter_context(RandomAccessReader(table, FLOAT_MATRIX)) if table else None
            # Opened last, so closed first: a damaged archive then leaves no output that looks complete.
            features = stack.enter_context(SequentialReader(args[0], GENERAL_MATRIX))
            for utterance, matrix in log.progress(features, "Making examples", share=features.share_read):
                target = targets.get(utterance)
                if target is None:
                    log.warning(f"{missing} {utterance}", file=self._file, line=300)
                    self._num_errors += 1
                    continue
                new_examples = self._of_utterance(utterance, matrix, target, ivectors, examples)
                if new_examples is None or not new_examples and too_short_is_error:
                    self._num_errors += 1
                for key, example in new_examples or []:
                    writer.write(key, example)
        if self._num_errors:
            log.warning(f"{self._num_errors} utterances had errors and could not be processed.", file=self._file,
                        line=350)
        self._splitter.log_report()
        return 0 if self._splitter.num_chunk_frames else 1

    def _of_utterance(self, utterance: str, matrix: Any, target: Any, ivectors: Any,
                      examples: Callable[[str, Any, Any, Any], Iterable[Any]]) -> list[Any] | None:
        """The examples of an utterance, none if it is too short; None, with a warning, if it cannot be used."""
        from nnet3py.errors import NumericError

        num_frames = matrix.shape[0]
        if not self._splitter.lengths_match(utterance, num_frames, len(target),
                                            self._options.targets_length_tolerance):
            return None
        ivector = None
        if ivectors is not None:
            ivector = ivectors.get(utterance)
            if ivector is None:
                log.warning(f"No iVectors for utterance {utterance}", file=self._file, line=310)
                return None
            if not self.maker.ivectors_fit(utterance, num_frames, len(ivector), self._options.length_tolerance):
                return None
        try:
            return list(examples(utterance, matrix, target, ivector))
        except NumericError as error:
            log.warning(f"Skipping utterance {utterance}: {error}", file=self._file, line=320)
            return None
