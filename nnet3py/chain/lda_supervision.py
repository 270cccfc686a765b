"""Which pdfs a chain example has in each frame, which LDA statistics need."""
from __future__ import annotations

import dataclasses

import numpy as np

from nnet3py.chain.numerator import compute_numerator
from nnet3py.egs.chain_example import NnetChainExample
from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.egs.supervision import Supervision
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.formats.general import SparseMatrix


def frame_example(eg: NnetChainExample) -> NnetExample:
    """The example with weights of pdfs, a sparse matrix (frames, pdfs), in place of the supervision of its output.

    Raises
    ------
    Nnet3Error : a merged example, one with other outputs than ``output``, or a supervision without enough information
    """
    names = [output.name for output in eg.outputs]
    if names != ["output"]:
        raise Nnet3Error(f"the example has the outputs {', '.join(names)}, expected only 'output'")
    output = eg.outputs[0]
    if output.supervision.num_sequences != 1:
        raise Nnet3Error(f"the example is merged of {output.supervision.num_sequences} sequences, expected one",
                         "gather LDA statistics before nnet3-chain-merge-egs")
    return NnetExample([*eg.inputs, NnetIo("output", output.indexes, pdf_weights(output.supervision))])


def pdf_weights(supervision: Supervision) -> SparseMatrix:
    """The weight of each pdf in each frame, float32 sparse (frames, pdfs).

    For a supervision with times: the posteriors of its FST, without a network's output; otherwise from its alignment.

    Raises
    ------
    Nnet3Error : there is no alignment, or no FST of a normalized supervision
    ShapeError : the alignment has pdfs that the supervision does not have
    """
    num_frames, num_pdfs = supervision.frames_per_sequence, supervision.label_dim
    if not supervision.is_end_to_end:
        numerator = compute_numerator(dataclasses.replace(supervision, weight=1.0),
                                  np.zeros((num_frames, num_pdfs), dtype=np.float32))
        return SparseMatrix.from_arrays(numerator.row_starts, numerator.columns, numerator.values, num_pdfs)
    pdfs = supervision.alignment_pdfs
    if len(pdfs) != num_frames:
        raise Nnet3Error(f"Alignment pdfs not present or wrong length.  Using e2e egs? ({len(pdfs)} for {num_frames} "
                         "frames)")
    if not 0 <= int(pdfs.min()) <= int(pdfs.max()) < num_pdfs:
        raise ShapeError(f"the alignment of a supervision has the pdfs {pdfs.min()} to {pdfs.max()}, expected 0 to "
                         f"{num_pdfs - 1}")
    return SparseMatrix.from_arrays(np.arange(num_frames + 1), pdfs, np.ones(num_frames, dtype=np.float32), num_pdfs)
