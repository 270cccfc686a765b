"""nnet3-copy-egs."""
from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from nnet3py.cli.command import kaldi_command
from nnet3py.cli.options import Options, option
from nnet3py.errors import within

USAGE = """Copy training examples; optionally select frames or context, weight them, or
distribute them over several tables.

Usage:  nnet3-copy-egs [options] <egs-rspecifier> <egs-wspecifier1> [<egs-wspecifier2> ...]

e.g.: nnet3-copy-egs ark:train.egs ark,t:text.egs
 or:  nnet3-copy-egs ark:train.egs ark:1.egs ark:2.egs"""


@kaldi_command("nnet3-copy-egs", usage=USAGE, arguments=(2, None), options=[
    option("random", bool, False, "Write each example to a random one of the outputs, instead of taking turns"),
    option("frame-shift", int, 0, "Number added to the times of all but iVectors; to balance frame subsampling"),
    option("keep-proportion", float, 1.0, "How often to copy each example; a fraction is taken as a probability"),
    option("srand", int, 0, "Seed of the random choices"),
    option("frame", str, "", "Keep only this output frame ('random' or its number)"),
    option("left-context", int, -1, "Input frames to keep to the left of the output (-1: all)"),
    option("right-context", int, -1, "Input frames to keep to the right of the output (-1: all)"),
    option("weights", str, "", "Rspecifier of numbers by which the outputs of each example are multiplied"),
    option("outputs", str, "", "Rspecifier of names that replace 'output' in each example"),
])
def copy_egs(args: list[str], options: Options) -> int:
    """Copy examples; without being decoded where nothing is changed."""
    from nnet3py import log
    from nnet3py.egs.random_sequence import CRandom
    from nnet3py.egs.raw_example import copying_holder
    from nnet3py.io.tables import SequentialReader, TableWriter

    source, *targets = args
    random = CRandom(options.srand)
    with ExitStack() as stack:
        change = _Changes(options, random, stack)
        holder = change.holder if change.needed else copying_holder(*targets)
        writers = [stack.enter_context(TableWriter(target, holder)) for target in targets]
        # Opened last, so closed first: a damaged archive then leaves no output that looks complete.
        reader = stack.enter_context(SequentialReader(source, holder))
        num_read = num_written = 0
        for key, example in log.progress(reader, "Copying examples"):
            num_read += 1
            for copy in change.copies(key, example):
                chosen = random.draw() if options.random else num_written
                writers[chosen % len(writers)].write(key, copy)
                num_written += 1
    log.log(f"Read {num_read} neural-network training examples, wrote {num_written}, {change.num_errors} examples had "
            "errors.", file="nnet3-copy-egs.cc", line=431)
    return 0 if num_written else 1


class _Changes:
    """What the options ask to be done to each example."""

    def __init__(self, options: Options, random: Any, stack: ExitStack) -> None:
        from nnet3py.egs.select import Selection

        self._selection = Selection.parse(options.frame, options.left_context, options.right_context,
                                          options.frame_shift)
        self._keep, self._random = options.keep_proportion, random
        self.num_errors = 0
        self.needed = bool(options.weights or options.outputs) or not self._selection.is_everything()
        self._weights = self._outputs = self._selector = None
        if not self.needed:
            return
        from nnet3py.egs.example import EXAMPLE
        from nnet3py.egs.select import ExampleSelector
        from nnet3py.io.holders import FLOAT, TOKEN
        from nnet3py.io.tables import RandomAccessReader

        self.holder = EXAMPLE
        if options.weights:
            self._weights = stack.enter_context(RandomAccessReader(options.weights, FLOAT))
        if options.outputs:
            self._outputs = stack.enter_context(RandomAccessReader(options.outputs, TOKEN))
        if not self._selection.is_everything():
            self._selector = ExampleSelector(self._selection, random)

    def copies(self, key: str, example: Any) -> Any:
        """Yield the example as often as it is to be written, changed as asked."""
        from nnet3py.egs.select import number_of_copies

        count = number_of_copies(self._keep, self._random)
        if not self._weigh_and_rename(key, example):
            self.num_errors += 1
            return
        for _ in range(count):
            changed = example if self._selector is None else self._selected(key, example)
            if changed is not None:
                yield changed

    def _selected(self, key: str, example: Any) -> Any:
        assert self._selector is not None
        with within(f"example {key}"):
            return self._selector(example)

    def _weigh_and_rename(self, key: str, example: Any) -> bool:
        from nnet3py import log

        for table, what in ((self._weights, "weight"), (self._outputs, "output name")):
            if table is not None and key not in table:
                log.warning(f"No {what} for example key {key}", file="nnet3-copy-egs.cc", line=390)
                return False
        if self._weights is not None:
            from nnet3py.egs.select import scale_outputs

            with within(f"example {key}"):
                scale_outputs(example, self._weights[key])
        if self._outputs is not None:
            from nnet3py.egs.select import rename_output

            with within(f"example {key}"):
                rename_output(example, self._outputs[key])
        return True
