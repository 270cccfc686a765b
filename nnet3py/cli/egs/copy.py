"""Copying training examples, selected, shifted, weighted or distributed over tables, and with images augmented.

nnet3-copy-egs, nnet3-chain-copy-egs, nnet3-discriminative-copy-egs and nnet3-egs-augment-image.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import repeat
from math import inf
from typing import Any, NamedTuple

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.egs.options import ImageOptions
from nnet3py.errors import within
from nnet3py.option_fields import settings_of

_NUMBER_OF_COPIES = (
    option("random", bool, False, "Write each example to a random one of the outputs, instead of taking turns"),
    option("keep-proportion", float, 1.0, "Number of copies of each example; the fraction is the probability of one "
           "more", least=0, below=inf),
    option("srand", int, 0, "Seed of the random choices"),
)
_CONTEXT = (
    option("left-context", int, -1, "Input frames to keep to the left of the output (-1: all)"),
    option("right-context", int, -1, "Input frames to keep to the right of the output (-1: all)"),
)
_SHIFT = option("frame-shift", int, 0, "Number added to the times of all but iVectors; to balance frame subsampling. "
                "Outputs move by the closest multiple of the subsampling factor")


@kaldi_command("nnet3-copy-egs", "Examples", "Copy training examples; optionally select, shift or split.", """
Copy a table of training examples to one or several tables, which take turns.
Options select frames and context, shift times, and weight or rename outputs.

Usage:  nnet3-copy-egs [options] <egs-rspecifier> <egs-wspecifier1> [<egs-wspecifier2> ...]

e.g.: nnet3-copy-egs ark:train.egs ark,t:text.egs
 or:  nnet3-copy-egs ark:train.egs ark:1.egs ark:2.egs
""", arguments=(2, None), options=[
    *_NUMBER_OF_COPIES, *_CONTEXT,
    option("frame-shift", int, 0, "Number added to the times of all but iVectors; to balance frame subsampling"),
    option("frame", str, "", "Keep only this output frame ('random' or its number)"),
    option("weights", str, "", "Rspecifier of numbers by which the outputs of each example are multiplied"),
    option("outputs", str, "", "Rspecifier of names that replace 'output' in each example"),
])
def copy_egs(args: list[str], options: Options) -> int:
    from nnet3py.egs.raw_example import RAW_EXAMPLE, are_binary
    from nnet3py.random_sequence import CRandom

    random = CRandom(options.srand)

    def changing() -> _Kind:
        from nnet3py.egs.changes import ExampleSelector, Selection, rename_output, scale_outputs
        from nnet3py.egs.example import EXAMPLE

        selection = Selection.parse(options.frame, options.left_context, options.right_context, options.frame_shift)
        if selection.is_everything():
            return _Kind(EXAMPLE, None, scale_outputs, rename_output)
        selector = ExampleSelector(selection, random)
        if not (options.weights or options.outputs) and are_binary(*args[1:]):
            from nnet3py.egs.packed_example import PACKED_EXAMPLE, PackedSelector

            return _Kind(PACKED_EXAMPLE, PackedSelector(selector))
        return _Kind(EXAMPLE, selector, scale_outputs, rename_output)

    return _copy(args, options, RAW_EXAMPLE, changing, random)


@kaldi_command("nnet3-chain-copy-egs", "Chain training", "Copy chain examples; optionally shift or cut them.", """
Copy a table of chain examples to one or several tables, which take turns.
Options shift times, remove context, and weight or rename outputs.

Usage:  nnet3-chain-copy-egs [options] <egs-rspecifier> <egs-wspecifier1> [<egs-wspecifier2> ...]

e.g.: nnet3-chain-copy-egs --frame-shift=1 ark:train.cegs ark:-
 or:  nnet3-chain-copy-egs ark:train.cegs ark:1.cegs ark:2.cegs
""", arguments=(2, None), options=[
    *_NUMBER_OF_COPIES, *_CONTEXT, _SHIFT,
    option("weights", str, "", "Rspecifier of numbers by which the weight of each example is multiplied"),
    option("outputs", str, "", "Rspecifier of names that replace 'output' in each example"),
])
def chain_copy_egs(args: list[str], options: Options) -> int:
    from nnet3py.egs.raw_example import RAW_CHAIN_EXAMPLE
    from nnet3py.random_sequence import CRandom

    def changing() -> _Kind:
        from nnet3py.egs.chain_example import CHAIN_EXAMPLE
        from nnet3py.egs.changes import rename_output
        from nnet3py.egs.sequence_egs import SequenceSelector, scale_supervision

        selector = SequenceSelector(options.frame_shift, options.left_context, options.right_context)
        return _Kind(CHAIN_EXAMPLE, None if selector.changes_nothing else selector, scale_supervision, rename_output)

    return _copy(args, options, RAW_CHAIN_EXAMPLE, changing, CRandom(options.srand))


@kaldi_command("nnet3-discriminative-copy-egs", "Discriminative training",
               "Copy examples of discriminative training; optionally shift them.", """
Copy a table of examples of discriminative training to one or several tables,
which take turns. An option shifts times.

Usage:  nnet3-discriminative-copy-egs [options] <egs-rspecifier> <egs-wspecifier1> [<egs-wspecifier2> ...]

e.g.: nnet3-discriminative-copy-egs ark:train.degs ark,t:text.degs
 or:  nnet3-discriminative-copy-egs --frame-shift=1 ark:train.degs ark:1.degs ark:2.degs
""", arguments=(2, None), options=[*_NUMBER_OF_COPIES, _SHIFT])
def discriminative_copy_egs(args: list[str], options: Options) -> int:
    from nnet3py.egs.raw_example import RAW_DISCRIMINATIVE_EXAMPLE
    from nnet3py.random_sequence import CRandom

    def changing() -> _Kind:
        from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE
        from nnet3py.egs.sequence_egs import SequenceSelector

        selector = SequenceSelector(options.frame_shift)
        return _Kind(DISCRIMINATIVE_EXAMPLE, None if selector.changes_nothing else selector)

    return _copy(args, options, RAW_DISCRIMINATIVE_EXAMPLE, changing, CRandom(options.srand))


_CHANGES = ("left-context", "right-context", "frame-shift", "frame", "weights", "outputs")


class _Kind(NamedTuple):
    """Holder of a kind of examples, and the functions that change an example; no holder: examples are not changed."""

    holder: Any = None
    select: Callable[[Any], Any] | None = None       # makes a changed example, or None for one that is left out
    scale: Callable[[Any, float], None] | None = None        # multiplies the weights of outputs, in place
    rename: Callable[[Any, str], None] | None = None         # renames the output, in place


def _copy(args: list[str], options: Options, raw: Any, changing: Callable[[], _Kind], random: Any) -> int:
    """Copy the examples of the table ``args[0]`` to the other tables of ``args``; return the exit status.

    ``raw`` is the holder of undecoded examples, for copies without changes; ``changing`` returns the holder and the
    functions for changes, and is called only if an option asks for a change.
    """
    from nnet3py.egs.raw_example import copying_holder
    from nnet3py.io.tables import SequentialReader, TableWriter

    source, *targets = args
    kind = changing() if any(options.given(name) for name in _CHANGES) else _Kind()
    with ExitStack() as stack:
        changes = _Changes(options, kind, stack)
        holder = kind.holder if changes.needed else copying_holder(*targets, raw=raw)
        writers = [stack.enter_context(TableWriter(target, holder)) for target in targets]
        # Opened last, so closed first: a damaged archive then leaves no output that looks complete.
        reader = stack.enter_context(SequentialReader(source, holder))
        num_read = num_written = 0
        keep_proportion, at_random = options.keep_proportion, options.random
        for key, example in log.progress(reader, "Copying examples", share=reader.share_read):
            num_read += 1
            count = random.count(keep_proportion)
            for copy in changes.copies(key, example, count) if changes.needed else repeat(example, count):
                chosen = random.draw() if at_random else num_written
                writers[chosen % len(writers)].write(key, copy)
                num_written += 1
    errors = f", {changes.num_errors} examples had errors." if "weights" in options else ""
    log.log(f"Read {num_read} neural-network training examples, wrote {num_written}{errors}",
            file=f"{log.program()}.cc", line=431)
    return 0 if num_written else 1


class _Changes:
    """Changes of examples that the options ask for."""

    def __init__(self, options: Options, kind: _Kind, stack: ExitStack) -> None:
        self._select = kind.select
        self.num_errors = 0
        self._changes: list[tuple[Any, str, Callable]] = []      # table, name of its values, function to apply one
        self.needed = False
        if kind.holder is None:
            return
        from nnet3py.formats.holders import FLOAT, TOKEN
        from nnet3py.io.tables import RandomAccessReader

        for name, what, holder, change in (("weights", "weight", FLOAT, kind.scale),
                                           ("outputs", "output name", TOKEN, kind.rename)):
            if change is not None and options[name]:
                table: Any = stack.enter_context(RandomAccessReader(options[name], holder))
                self._changes.append((table, what, change))
        self.needed = bool(self._changes) or kind.select is not None

    def copies(self, key: str, example: Any, count: int) -> Iterator[Any]:
        """Yield ``count`` changed copies of the example."""
        for table, what, _ in self._changes:
            if key not in table:
                log.warning(f"No {what} for example key {key}", file=f"{log.program()}.cc", line=390)
                self.num_errors += 1
                return
        with within(f"example {key}"):
            for table, _, change in self._changes:
                change(example, table[key])
        for _ in range(count):
            with within(f"example {key}"):
                changed = example if self._select is None else self._select(example)
            if changed is not None:
                yield changed


@kaldi_command("nnet3-egs-augment-image", "Examples", "Change the images of training examples at random.", """
Copy training examples whose input is an image, and shift, mirror and turn each image
at random. Rows of the input are x; columns are y and channel, the channel varying
fastest.

Usage:  nnet3-egs-augment-image [options] <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-egs-augment-image --horizontal-flip-prob=0.5 --horizontal-shift=0.1 --vertical-shift=0.1 \\
    --srand=103 --num-channels=3 --fill-mode=nearest ark:1.egs ark:-
""", arguments=(2, 2), options=[
    option("srand", int, 0, "Seed of the random choices"),
    *declared(settings_of(ImageOptions)),
])
def egs_augment_image(args: list[str], options: Options) -> int:
    from nnet3py.egs.changes import ImageAugmenter
    from nnet3py.egs.example import EXAMPLE
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.random_sequence import CRandom

    augmenter = ImageAugmenter(fields_from(options, ImageOptions()), CRandom(options.srand))
    num_done = 0
    # The reader is closed first: a damaged archive then leaves no output that looks complete.
    with TableWriter(args[1], EXAMPLE) as writer, SequentialReader(args[0], EXAMPLE) as reader:
        for key, example in log.progress(reader, "Changing images", share=reader.share_read):
            with within(f"example {key}"):
                augmenter.change(example)
            writer.write(key, example)
            num_done += 1
    log.log(f"Perturbed {num_done} neural-network training images.")
    return 0 if num_done else 1
