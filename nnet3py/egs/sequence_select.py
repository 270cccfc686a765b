"""Changes to chain and discriminative examples while they are copied.

Kaldi: nnet3-chain-copy-egs, nnet3-discriminative-copy-egs.
"""
from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from nnet3py.egs.chain_example import NnetChainExample
from nnet3py.egs.select import ContextLimit, shifted
from nnet3py.errors import Nnet3Error


class SequenceSelector:
    """Shifts examples in time and removes context, one after the other.

    Parameters
    ----------
    frame_shift : added to the times of inputs except iVectors; to those of outputs the closest multiple of their step
    left_context, right_context : input frames to keep before the first and after the last output time; -1 for all
    """

    def __init__(self, frame_shift: int = 0, left_context: int = -1, right_context: int = -1) -> None:
        self._shift, self._limits = frame_shift, (left_context, right_context) != (-1, -1)
        self._limit_context = ContextLimit(left_context, right_context)

    @property
    def changes_nothing(self) -> bool:
        """True if examples come out as they are."""
        return self._shift == 0 and not self._limits

    def __call__(self, example: Any) -> Any:
        """The example changed; the argument is left as it is, since it may be copied several times.

        Nnet3Error for an example whose context cannot be limited: merged already, or without ``input`` and ``output``.
        """
        example = dataclasses.replace(example)
        if self._shift:
            example.inputs = [shifted(io, self._shift) for io in example.inputs]
            example.outputs = [dataclasses.replace(output, indexes=output.indexes + np.array(
                [0, _output_shift(output, self._shift), 0], dtype=np.int32)) for output in example.outputs]
        if self._limits:
            low, high = _output_times(example)
            example.inputs = [self._limit_context(io, low, high) if io.name == "input" else io
                              for io in example.inputs]
        return example


def _output_shift(output: Any, frame_shift: int) -> int:
    """The multiple of the frames' distance that is closest to ``frame_shift``, the higher one of two."""
    later = output.indexes[output.indexes[:, 1] > output.indexes[:1, 1], 1]
    if not len(later):
        raise Nnet3Error(f"output '{output.name}' of an example has no rising times, so it cannot be shifted")
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
    """Multiply the weight of every supervision named ``output``, in place; Nnet3Error if there is none."""
    for output in _outputs(example, "weighted"):
        output.supervision.weight = float(np.float32(output.supervision.weight) * np.float32(weight))


def rename_supervision(example: NnetChainExample, name: str) -> None:
    """Rename every output called ``output``, in place; Nnet3Error if there is none."""
    for output in _outputs(example, "renamed"):
        output.name = name


def _outputs(example: NnetChainExample, what: str) -> list[Any]:
    outputs = [output for output in example.outputs if output.name == "output"]
    if not outputs:
        raise Nnet3Error(f"an example without 'output' cannot be {what}")
    return outputs
