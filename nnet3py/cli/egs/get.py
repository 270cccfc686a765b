"""Training examples from features and posteriors or target matrices, from whole matrices, and for x-vectors.

nnet3-get-egs, nnet3-get-egs-dense-targets, nnet3-get-egs-simple and nnet3-xvector-get-egs.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.egs.options import EGS_OF_FEATURES, split_options
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import Nnet3Error, NumericError, UsageError, within

if TYPE_CHECKING:
    from nnet3py.egs.make import ExampleMaker


_OPTIONS = (
    *EGS_OF_FEATURES,
    option("targets-length-tolerance", int, 2, "Frames by which features and targets may differ in length", least=0),
)


@kaldi_command("nnet3-get-egs", "Examples", "Make training examples from features and posteriors.", """
Make training examples from features and pdf-level posteriors (such as alignments).
An example is a piece of an utterance with context.

Usage:  nnet3-get-egs [options] <features-rspecifier> <pdf-post-rspecifier> <egs-wspecifier>

e.g.: nnet3-get-egs --num-pdfs=2658 --left-context=12 --right-context=9 --num-frames=8 \\
    ark:feats.ark "ark:ali-to-pdf final.mdl ark:1.ali ark:- | ali-to-post ark:- ark:- |" ark:egs.ark
""", arguments=(3, 3), options=[
    *_OPTIONS, option("num-pdfs", int, -1, "Number of pdfs, the dimension of the output; required")])
def get_egs(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import POSTERIOR

    if options.num_pdfs <= 0:
        raise Nnet3Error("--num-pdfs options is required.")
    maker = _maker(options, options.num_pdfs)
    targets = args[1], POSTERIOR, "pdf-level posterior for key"
    return _frame_level(args, options, maker, targets, maker.from_posteriors)


@kaldi_command("nnet3-get-egs-dense-targets", "Examples",
               "Make training examples from features and matrices of targets.", """
Make training examples from features and matrices of targets, such as clean features
for a network that removes noise. An example is a piece of an utterance with context.

Usage:  nnet3-get-egs-dense-targets [options] <features-rspecifier> <targets-rspecifier> <egs-wspecifier>

e.g.: nnet3-get-egs-dense-targets --num-targets=26 --left-context=12 --right-context=9 --num-frames=8 \\
    ark:noisy.ark ark:clean.ark ark:egs.ark
""", arguments=(3, 3), options=[
    *_OPTIONS, option("num-targets", int, -1, "Columns that the targets must have (-1: any)")])
def get_egs_dense_targets(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX

    maker = _maker(options)

    def examples(utterance: str, features: Any, targets: Any, ivectors: Any) -> list[Any] | None:
        if options.num_targets >= 0 and targets.shape[1] != options.num_targets:
            raise Nnet3Error(f"found {targets.shape[1]} targets, expected --num-targets={options.num_targets}")
        return list(maker.from_targets(utterance, features, targets, ivectors)) or None     # too short is an error here

    return _frame_level(args, options, maker, (args[1], FLOAT_MATRIX, "target matrix for key"), examples)


def _maker(options: Options, num_pdfs: int = -1) -> ExampleMaker:
    from nnet3py.egs.make import ExampleMaker, UtteranceSplitter

    return ExampleMaker(UtteranceSplitter(split_options(options)), options.compress, num_pdfs,
                        options.online_ivector_period)


def _frame_level(args: list[str], options: Options, maker: ExampleMaker, targets: tuple[str, Any, str],
                 examples: Callable[[str, Any, Any, Any], Iterable[Any] | None]) -> int:
    """Make frame-level examples of utterances whose features and targets have similar lengths."""
    from nnet3py.egs.example import EXAMPLE
    from nnet3py.formats.holders import GENERAL_MATRIX

    def fitting(utterance: str, features: Any, target: Any, ivectors: Any) -> Iterable[Any] | None:
        tolerance = options.targets_length_tolerance
        fits = maker.splitter.lengths_match(utterance, features.shape[0], len(target), tolerance)
        return examples(utterance, features, target, ivectors) if fits and (
            ivectors_fit(maker, utterance, features, ivectors, options)) else None

    make_examples(options, (args[0], GENERAL_MATRIX), (args[2], EXAMPLE), [targets], fitting)
    maker.splitter.log_report()
    return 0 if maker.splitter.num_chunk_frames else 1


def ivectors_fit(maker: ExampleMaker, utterance: str, features: Any, ivectors: Any, options: Options) -> bool:
    """Return whether an utterance has no i-vectors, or as many as its features require; log a warning if not."""
    return ivectors is None or maker.ivectors_fit(utterance, features.shape[0], len(ivectors), options.length_tolerance)


def make_examples(options: Options, source: tuple[str, Any], target: tuple[str, Any],
                  tables: Sequence[tuple[str, Any, str]], examples: Callable[..., Iterable[Any] | None],
                  skipped: tuple[type[Nnet3Error], ...] = (NumericError,), warning: str = "Skipping") -> int:
    """Make the examples of the utterances of a table; return the number of utterances without errors.

    Parameters
    ----------
    source, target : name and holder of the tables of utterances and of examples
    tables : name, holder and description of further tables, each with a value for every utterance; the i-vectors that
        the options name are appended. A table without a name gives None
    examples : function of utterance, its value in ``source`` and its values in the tables that returns pairs (key,
        example), or None, having logged a warning, if these values cannot be used
    skipped : types of errors that are logged, after ``warning``, and do not end the program
    """
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter

    tables = [*tables, (options.online_ivectors or options.ivectors, FLOAT_MATRIX, "iVectors for utterance")]
    place: dict[str, Any] = {"file": f"{log.program()}.cc", "line": 300}
    num_done = num_errors = 0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(*target))
        readers = [stack.enter_context(RandomAccessReader(name, kind)) if name else None for name, kind, _ in tables]
        # Opened last, so closed first: a damaged archive then leaves no output that looks complete.
        reader = stack.enter_context(SequentialReader(*source))
        for utterance, value in log.progress(reader, "Making examples", share=reader.share_read):
            values = [None if table is None else table.get(utterance) for table in readers]
            missing = [what for (name, _, what), given in zip(tables, values, strict=True) if name and given is None]
            made: list[Any] | None = None
            if missing:
                log.warning(f"No {missing[0]} {utterance}", **place)
            else:
                try:
                    with within(f"utterance {utterance}"):
                        new = examples(utterance, value, *values)
                        made = None if new is None else list(new)
                except skipped as error:
                    log.warning(f"{warning} {error}", **place)
            num_done, num_errors = num_done + (made is not None), num_errors + (made is None)
            for key, example in made or ():
                writer.write(key, example)
    if num_errors:
        log.warning(f"{num_errors} utterances had errors and could not be processed.", **place)
    return num_done


@kaldi_command("nnet3-get-egs-simple", "Examples", "Make training examples from whole matrices.", """
Make training examples of whole matrices, for instance of images. Each argument names
an input or output of the network and its table; an example has the matrices of one
key, whose rows have the times t = 0, 1, ...

Usage:  nnet3-get-egs-simple [options] <name1>=<rspecifier1> [<name2>=<rspecifier2> ...] <egs-wspecifier>

e.g.: nnet3-get-egs-simple input=ark:images.ark output=ark:labels.ark ark:egs.ark
""", arguments=(2, None))
def get_egs_simple(args: list[str], options: Options) -> int:
    from nnet3py.egs.example import EXAMPLE
    from nnet3py.egs.make import simple_example
    from nnet3py.formats.holders import GENERAL_MATRIX
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter

    *sources, target = args
    names, rspecifiers = zip(*(_name_and_table(source) for source in sources), strict=True)
    num_read = num_written = num_errors = 0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(target, EXAMPLE))
        others = [stack.enter_context(RandomAccessReader(rspecifier, GENERAL_MATRIX)) for rspecifier in rspecifiers[1:]]
        # Opened last, so closed first: a damaged archive then leaves no output that looks complete.
        reader = stack.enter_context(SequentialReader(rspecifiers[0], GENERAL_MATRIX))
        for key, first in log.progress(reader, "Making examples", share=reader.share_read):
            num_read += 1
            matrices = [first, *(other.get(key) for other in others)]
            missing = [name for name, matrix in zip(names, matrices, strict=True) if matrix is None]
            if missing:
                log.warning(f"Could not find input for key {key} for io-name={missing[0]}")
                num_errors += 1
                continue
            with within(f"key {key}"):
                writer.write(key, simple_example(list(zip(names, matrices, strict=True))))
            num_written += 1
    log.log(f"Read {num_read} keys, wrote {num_written} examples, {num_errors} keys had errors.")
    return 0 if num_written else 1


def _name_and_table(argument: str) -> tuple[str, Any]:
    """Split an argument ``name=rspecifier``; raise UsageError for other arguments."""
    from nnet3py.io.specifiers import is_rspecifier

    name, _, rspecifier = argument.partition("=")
    if not name or any(letter.isspace() for letter in name) or not is_rspecifier(rspecifier):
        raise UsageError(f"Expected name=rspecifier, found '{argument}'", "such as input=ark:feats.ark")
    return name, rspecifier


@kaldi_command("nnet3-xvector-get-egs", "Speakers and i-vectors",
               "Make training examples for x-vector networks, which classify speakers.", """
Make training examples for a network that classifies speakers: pieces of utterances,
each with the number of its speaker. A file lists the examples, one per line:
  <utterance> <relative-archive-index> <absolute-archive-index> <first-frame> <num-frames> <speaker>
The relative index is the number of the output table, counted from 0; the absolute
index is ignored. For instance:
  utt1  3  13  65  300  3
  utt1  0  10  50  400  3

Usage:  nnet3-xvector-get-egs [options] <ranges-filename> <features-rspecifier> <egs-0-out> [<egs-1-out> ...]

e.g.: nnet3-xvector-get-egs --num-pdfs=100 ranges.1 ark:feats.ark ark:egs.1.ark ark:egs.2.ark
""", arguments=(3, None), options=[
    option("compress", bool, True, "Store features in compressed form"),
    option("num-pdfs", int, -1, "Number of speakers, the dimension of the output; required"),
])
def xvector_get_egs(args: list[str], options: Options) -> int:
    from nnet3py.egs.example import EXAMPLE
    from nnet3py.egs.make import read_speaker_ranges
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import SequentialReader, TableWriter

    if options.num_pdfs <= 0:
        raise Nnet3Error("--num-pdfs options is required.", "give the number of speakers")
    ranges_file, rspecifier, *targets = args
    ranges = read_speaker_ranges(ranges_file, len(targets))
    num_done = num_errors = num_written = 0
    with ExitStack() as stack:
        writers = [stack.enter_context(TableWriter(target, EXAMPLE)) for target in targets]
        # Opened last, so closed first: a damaged archive then leaves no output that looks complete.
        reader = stack.enter_context(SequentialReader(rspecifier, FLOAT_MATRIX))
        for utterance, features in log.progress(reader, "Making examples", share=reader.share_read):
            wanted = ranges.get(utterance)
            if wanted is None:
                log.warning(f"Could not create examples from utterance {utterance} because it has no entry in the "
                            "ranges input file.")
                num_errors += 1
                continue
            try:
                examples = [(chunk, chunk.example(features, options.num_pdfs, options.compress)) for chunk in wanted]
            except NumericError as error:
                log.warning(f"Skipping utterance {utterance}: {error}")
                num_errors += 1
                continue
            for chunk, example in examples:
                if example is None:
                    log.warning(f"Unable to create examples for utterance {utterance}. Requested chunk size of "
                                f"{chunk.num_frames} but utterance has only {len(features)} frames.", "WriteExamples")
                    continue
                writers[chunk.archive].write(chunk.key, example)
                num_written += 1
            num_done += 1
    log.log(f"Finished generating examples, successfully processed {num_done} feature files, wrote {num_written} "
            f"examples; {num_errors} files had errors.")
    return 1 if num_written == 0 or num_errors > num_done else 0
