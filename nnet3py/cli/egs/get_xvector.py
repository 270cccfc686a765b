"""nnet3-xvector-get-egs: training examples for networks that tell speakers apart."""
from __future__ import annotations

from contextlib import ExitStack

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import Nnet3Error, NumericError


@kaldi_command("nnet3-xvector-get-egs", group="Speakers and i-vectors",
               help="Make training examples for networks that tell speakers apart.", usage="""
Make training examples for a network that tells speakers apart: pieces of utterances,
with the number of the speaker. A file lists them, one example per line:
  <utterance> <relative-archive-index> <absolute-archive-index> <first-frame> <num-frames> <speaker>
The relative index says which of the outputs an example goes to, counted from 0;
the absolute one is ignored. For instance:
  utt1  3  13  65  300  3
  utt1  0  10  50  400  3

Usage:  nnet3-xvector-get-egs [options] <ranges-filename> <features-rspecifier> <egs-0-out> [<egs-1-out> ...]

e.g.: nnet3-xvector-get-egs --num-pdfs=100 ranges.1 ark:feats.ark ark:egs.1.ark ark:egs.2.ark
""", arguments=(3, None), options=[
    option("compress", bool, True, "Store features in compressed form"),
    option("num-pdfs", int, -1, "Number of speakers, the dimension of the output; required"),
])
def xvector_get_egs(args: list[str], options: Options) -> int:
    """Make examples; 1 if there is none, or most utterances are not in the file."""
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
