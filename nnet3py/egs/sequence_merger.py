"""Merging chain and discriminative examples into minibatches.

Rows of inputs come one example after the other, those of outputs one frame after the other. Kaldi:
``MergeChainExamples``, ``MergeDiscriminativeExamples``.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnet3py.egs import discriminative_example, supervision
from nnet3py.egs.chain_example import NnetChainExample, NnetChainSupervision
from nnet3py.egs.discriminative_example import NnetDiscriminativeExample
from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.egs.merger import merge_examples
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.index import sort_order


def merge_chain_examples(examples: Sequence[NnetChainExample], compress: bool = False) -> NnetChainExample:
    """One chain example made from several, which stay as they are.

    ShapeError if they were merged before, or differ in weight, frames per sequence, or columns.
    """
    return NnetChainExample(_inputs(examples, compress), _outputs(examples, supervision.merge_supervisions))


def merge_chain_outputs(outputs: Sequence[NnetChainSupervision]) -> NnetChainSupervision:
    """One output of a chain example made from those of several examples, which stay as they are.

    ShapeError if they were merged before, or differ in name, weight, or frames per sequence.
    """
    merged: NnetChainSupervision = _output(outputs, supervision.merge_supervisions)
    return merged


def merge_discriminative_examples(examples: Sequence[NnetDiscriminativeExample],
                                  compress: bool = False) -> NnetDiscriminativeExample:
    """One discriminative example made from several, which stay as they are.

    ShapeError if they were merged before, or differ in weight, frames per sequence, or columns.
    """
    return NnetDiscriminativeExample(_inputs(examples, compress),
                                     _outputs(examples, discriminative_example.merge_supervisions))


def language_of(key: str) -> str | None:
    """The language that an example's key names by ``?lang=LANG`` at its end, or None. Kaldi: ParseFromQueryString."""
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
    """The end of the key of a minibatch of one language: ``?lang=LANG``."""
    _, dash, language = example.outputs[0].name.partition("-")
    return f"?lang={language}" if dash else ""


def _inputs(examples: Sequence[Any], compress: bool) -> list[NnetIo]:
    return merge_examples([NnetExample(example.inputs) for example in examples], compress).io


def _outputs(examples: Sequence[Any], merge_supervisions: Callable[[Sequence[Any]], Any]) -> list[Any]:
    """The outputs that the examples have at each place, merged."""
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
    """float32 (rows,), frame after frame; empty if no part has any. A part without weights has weights of 1."""
    if not any(len(part.deriv_weights) for part in parts):
        return np.zeros(0, dtype=np.float32)
    weights = [part.deriv_weights if len(part.deriv_weights) else np.ones(len(part.indexes), dtype=np.float32)
               for part in parts]
    return np.stack(weights, axis=1).reshape(-1)
