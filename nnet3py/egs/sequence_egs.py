"""Chain and discriminative examples merged into minibatches, or changed while they are copied.

In a minibatch the rows of inputs come one example after the other, those of outputs one frame after the other. Kaldi:
``MergeChainExamples``, ``MergeDiscriminativeExamples``, nnet3-chain-copy-egs, nnet3-discriminative-copy-egs.
"""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnet3py.egs import chain_example, discriminative_example
from nnet3py.egs.chain_example import NnetChainExample, NnetChainSupervision
from nnet3py.egs.changes import ContextLimit, named_output, shifted
from nnet3py.egs.discriminative_example import NnetDiscriminativeExample
from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.egs.merger import merge_examples
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.index import sort_order


def merge_chain_examples(examples: Sequence[NnetChainExample], compress: bool = False) -> NnetChainExample:
    """Merge chain examples into a new one.

    ShapeError if they were merged before, or differ in weight, frames per sequence, or columns.
    """
    return NnetChainExample(_inputs(examples, compress), _outputs(examples, chain_example.merge_supervisions))


def merge_chain_outputs(outputs: Sequence[NnetChainSupervision]) -> NnetChainSupervision:
    """Merge the same output of several chain examples into a new output.

    ShapeError if they were merged before, or differ in name, weight, or frames per sequence.
    """
    merged: NnetChainSupervision = _output(outputs, chain_example.merge_supervisions)
    return merged


def merge_discriminative_examples(examples: Sequence[NnetDiscriminativeExample],
                                  compress: bool = False) -> NnetDiscriminativeExample:
    """Merge discriminative examples into a new one.

    ShapeError if they were merged before, or differ in weight, frames per sequence, or columns.
    """
    return NnetDiscriminativeExample(_inputs(examples, compress),
                                     _outputs(examples, discriminative_example.merge_supervisions))


def language_of(key: str) -> str | None:
    """Return the language at the end of an example's key, ``?lang=LANG``, or None. Kaldi: ParseFromQueryString."""
    for part in key.rpartition("?")[2].split("&") if "?" in key else ():
        name, equals, language = part.partition("=")
        if name == "lang" and equals and language:
            return language
    return None


def name_language(key: str, example: NnetChainExample) -> None:
    """Rename the outputs ``output`` to ``output-LANG``, in place, where ``?lang=LANG`` is in the example's key.

    Nnet3Error for a key that does not name a language.
    """
    language = language_of(key)
    if language is None:
        raise Nnet3Error(f"the key of example '{key}' does not say a language",
                         "it should end in '?lang=LANGUAGE'; or leave out --multilingual-eg")
    rename_outputs(example, language)


def rename_outputs(example: NnetChainExample, language: str) -> None:
    """Rename the outputs ``output`` to ``output-LANGUAGE``, in place."""
    for output in example.outputs:
        output.name = f"output-{language}" if output.name == "output" else output.name


def language_ending(example: NnetChainExample) -> str:
    """Return ``?lang=LANG``, the ending of the key, for an example whose first output is ``output-LANG``, else ""."""
    _, dash, language = example.outputs[0].name.partition("-")
    return f"?lang={language}" if dash else ""


def _inputs(examples: Sequence[Any], compress: bool) -> list[NnetIo]:
    return merge_examples([NnetExample(example.inputs) for example in examples], compress).io


def _outputs(examples: Sequence[Any], merge_supervisions: Callable[[Sequence[Any]], Any]) -> list[Any]:
    """Merge the first outputs of all examples, the second ones and so on; return the merged outputs."""
    return [_output(parts, merge_supervisions)
            for parts in zip(*(example.outputs for example in examples), strict=True)]


def _output(parts: Sequence[Any], merge_supervisions: Callable[[Sequence[Any]], Any]) -> Any:
    names = sorted({part.name for part in parts})
    if len(names) > 1:
        raise ShapeError(f"outputs of different names cannot be merged: {', '.join(names)}")
    if any(part.supervision.num_sequences != 1 or part.supervision.frames_per_sequence < 1 for part in parts):
        raise ShapeError("examples whose supervision is not one sequence cannot be merged",
                         "merge what was not merged before")
    indexes = np.concatenate([part.indexes for part in parts])
    indexes[:, 0] = np.repeat(np.arange(len(parts)), [len(part.indexes) for part in parts])
    merged = merge_supervisions([part.supervision for part in parts])
    return type(parts[0])(names[0], indexes[sort_order(indexes)], merged, _deriv_weights(parts))


def _deriv_weights(parts: Sequence[Any]) -> np.ndarray:
    """Return the weights of a merged output, float32 (rows,), frame after frame; empty if no part has weights.

    A part without weights counts as one with weights of 1.
    """
    if not any(len(part.deriv_weights) for part in parts):
        return np.zeros(0, dtype=np.float32)
    weights = [part.deriv_weights if len(part.deriv_weights) else np.ones(len(part.indexes), dtype=np.float32)
               for part in parts]
    return np.stack(weights, axis=1).reshape(-1)


class SequenceSelector:
    """Function that shifts a chain or discriminative example in time, and removes input context.

    Parameters
    ----------
    frame_shift : number of frames that is added to the times of inputs except iVectors; the times of outputs are
        shifted by the closest multiple of the distance between output frames
    left_context, right_context : input frames to keep before the first and after the last output time; -1 for all
    """

    def __init__(self, frame_shift: int = 0, left_context: int = -1, right_context: int = -1) -> None:
        self._shift, self._limits = frame_shift, (left_context, right_context) != (-1, -1)
        self._limit_context = ContextLimit(left_context, right_context)

    @property
    def changes_nothing(self) -> bool:
        """True if examples are returned unchanged."""
        return self._shift == 0 and not self._limits

    def __call__(self, example: Any) -> Any:
        """Return a changed copy of an example.

        Nnet3Error for an example whose context cannot be limited: merged already, or without ``input`` and ``output``.
        """
        example = dataclasses.replace(example)
        if self._shift:
            example.inputs = [shifted(io, self._shift) for io in example.inputs]
            example.outputs = [dataclasses.replace(output, indexes=output.indexes + np.array(
                [0, _output_shift(output, self._shift), 0], dtype=np.int32)) for output in example.outputs]
        if self._limits:
            low, high = _output_times(example)
            example.inputs = [self._limit_context(io, low, high) if io.name == "input" else io for io in example.inputs]
        return example


def _output_shift(output: Any, frame_shift: int) -> int:
    """Return the multiple of the distance between output frames that is closest to ``frame_shift``; higher of two."""
    later = output.indexes[output.indexes[:, 1] > output.indexes[:1, 1], 1]
    if not len(later):
        raise Nnet3Error(f"output '{output.name}' of an example has no frame after its first, so it cannot be shifted")
    step = int(later[0]) - int(output.indexes[0, 1])
    return step * math.floor(0.5 + frame_shift / step)


def _output_times(example: Any) -> tuple[int, int]:
    if any(part.indexes[:, 0].any() for part in (*example.inputs, *example.outputs)):
        raise Nnet3Error("merged examples cannot be cut", "limit the context before merging")
    output = next((output_ for output_ in example.outputs if output_.name == "output" and len(output_.indexes)), None)
    if output is None or not any(io.name == "input" and len(io.indexes) for io in example.inputs):
        raise Nnet3Error("an example without 'input' and 'output' cannot be cut", "leave out the contexts")
    return int(output.indexes[0, 1]), int(output.indexes[-1, 1])


def scale_supervision(example: NnetChainExample, weight: float) -> None:
    """Multiply the supervision's weight of every output called ``output``, in place; Nnet3Error if there is none."""
    for output in named_output(example.outputs, "weighted"):
        output.supervision.weight = float(np.float32(output.supervision.weight) * np.float32(weight))
