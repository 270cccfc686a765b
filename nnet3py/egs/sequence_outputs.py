"""What the outputs of chain and discriminative examples share: rows frame after frame, in each all sequences."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from nnet3py.egs.example import MAX_IO, NnetIo
from nnet3py.errors import ShapeError
from nnet3py.io.tokens import TokenReader, TokenWriter

Output = TypeVar("Output")


def rows_problem(name: str, indexes: np.ndarray, num_sequences: int, frames_per_sequence: int,
                 deriv_weights: np.ndarray) -> str | None:
    """Why rows cannot belong to so many sequences of so many frames, or None.

    Row ``i num_sequences + n`` must be (n, t0 + i step, 0) for frame i of sequence n, and there must be a weight of 0
    or more for each row, or none at all. Kaldi: ``CheckDim``.
    """
    if frames_per_sequence == -1:
        return None                             # Kaldi's sign of a supervision that was never filled
    if num_sequences < 1 or frames_per_sequence < 2 or len(indexes) != num_sequences * frames_per_sequence:
        return (f"output '{name}' has {len(indexes)} indexes for {num_sequences} sequences of {frames_per_sequence} "
                "frames (2 or more)")
    first, step = int(indexes[0, 1]), int(indexes[num_sequences, 1]) - int(indexes[0, 1])
    frames, sequences = np.divmod(np.arange(len(indexes)), num_sequences)
    wanted = np.stack([sequences, first + step * frames, np.zeros_like(frames)], axis=1)
    if not np.array_equal(indexes, wanted):
        return f"the indexes of output '{name}' are not in the order of frames, then sequences"
    if len(deriv_weights) not in (0, len(indexes)) or not (deriv_weights >= 0.0).all():
        return f"output '{name}' needs {len(indexes)} weights of 0 or more, or none; it has {len(deriv_weights)}"
    return None


def sequence_structure(inputs: list[NnetIo], outputs: list[Any]) -> tuple[Any, ...]:
    """What examples that can be merged share: names and indexes, and of inputs the dimensions."""
    return (tuple((io.name, io.features.shape, io.indexes.tobytes()) for io in inputs),
            tuple((output.name, output.indexes.tobytes()) for output in outputs))


def read_inputs_and_outputs(reader: TokenReader, tag: str, read_output: Callable[[TokenReader], Output],
                            ) -> tuple[list[NnetIo], list[Output]]:
    """Read an example between ``<tag>`` and ``</tag>``: its inputs, then its outputs."""
    reader.expect(f"<{tag}>")
    inputs = [NnetIo.read(reader) for _ in range(_count(reader, "<NumInputs>"))]
    outputs = [read_output(reader) for _ in range(_count(reader, "<NumOutputs>"))]
    reader.expect(f"</{tag}>")
    return inputs, outputs


def _count(reader: TokenReader, tag: str) -> int:
    reader.expect(tag)
    count = reader.integer()
    if not 0 < count <= MAX_IO:
        raise reader.error(f"expected 1 to {MAX_IO} after {tag}, found {count}")
    return count


def write_inputs_and_outputs(writer: TokenWriter, tag: str, inputs: list[NnetIo], outputs: list[Any]) -> None:
    """Write what :func:`read_inputs_and_outputs` reads; ShapeError if there is no input or no output."""
    if not inputs or not outputs:
        raise ShapeError(f"an example needs inputs and outputs; it has {len(inputs)} and {len(outputs)}")
    writer.token(f"<{tag}>")
    for name, parts in (("<NumInputs>", inputs), ("<NumOutputs>", outputs)):
        writer.token(name)
        writer.integer(len(parts))
        writer.newline_if_text()
        for part in parts:
            part.write(writer)
            writer.newline_if_text()
    writer.token(f"</{tag}>")
