"""Options of exporting a model. Imports nothing heavy."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from nnet3py.errors import UsageError
from nnet3py.option_fields import CheckedOptions, opt

ALL_OUTPUTS = "*"
EDGES = ("repeat", "given", "none")


@dataclass
class ExportOptions(CheckedOptions):
    """Options of exporting a model, for :func:`nnet3py.export_onnx` and :func:`nnet3py.to_torch`.

    Attributes
    ----------
    output : name of the node whose values are the output; ``*`` for all outputs of the network
    edges : "repeat": inputs are whole utterances, whose first and last frames are repeated as in ``nnet3-compute``;
        "given": inputs have the frames of context around them; "none": one row of output for each utterance, as in
        ``nnet3-xvector-compute``
    frame_subsampling_factor : input frames for each row of output; None for that of the model's folder, else 1
    use_priors : whether the logs of the priors are subtracted; only for acoustic models
    log_softmax, apply_exp : whether a log-softmax (for a chain model's output), or an exponential, follows the output
    collapse : whether consecutive affine components are merged, as ``nnet3-compute`` does
    streaming : ONNX only: whether the model computes chunk by chunk, with explicit states
    chunk_outputs : rows of output for each chunk of a stream, for the metadata; 0: any number
    fixed_chunks : ONNX only, with ``chunk_outputs``: whether all chunks of a stream are alike, from the first on
    comment, metadata : comment in the metadata, and further metadata, ``key=value,key=value``
    """

    output: str = opt("output", "output", f"Node whose values are the output; '{ALL_OUTPUTS}' for all outputs of the "
                      "network")
    edges: str = opt("edges", "repeat", "repeat: inputs are whole utterances, whose first and last frames are repeated "
                     "as in nnet3-compute; given: inputs have the frames of context around them; none: one row of "
                     "output for each utterance, as in nnet3-xvector-compute", choices=EDGES)
    frame_subsampling_factor: int | None = None
    use_priors: bool = opt("use-priors", False, "Subtract the logs of the priors of the model, which must be an "
                           "acoustic model")
    log_softmax: bool = opt("log-softmax", False, "End with a log-softmax, as of a chain model's output")
    apply_exp: bool = opt("apply-exp", False, "End with an exponential")
    collapse: bool = opt("collapse", True, "Merge affine components that follow each other, as nnet3-compute does")
    streaming: bool = opt("streaming", False, "onnx: make a model that takes chunk after chunk, with explicit states")
    chunk_outputs: int = opt("chunk-outputs", 0, "Rows of output for each chunk of a stream, for the metadata; 0: any "
                             "number", least=0)
    fixed_chunks: bool = opt("fixed-chunks", False, "onnx: with --chunk-outputs, make all chunks of a stream alike, "
                             "from the first on; the metadata say how many rows of output are to be thrown away at "
                             "the start")
    comment: str = opt("comment", "", "A line for the metadata")
    metadata: str = opt("metadata", "", "More metadata, as key=value,key=value: what a runtime needs to know that no "
                        "model says, such as sample_rate=16000,language=en")

    def check(self) -> None:
        """Raise UsageError for invalid options."""
        super().check()
        if self.frame_subsampling_factor is not None and self.frame_subsampling_factor < 1:
            raise UsageError(f"--frame-subsampling-factor={self.frame_subsampling_factor} must be 1 or more")
        if self.fixed_chunks and not (self.streaming and self.chunk_outputs):
            raise UsageError("--fixed-chunks needs --streaming and a number of rows of output, --chunk-outputs")
        self.more_metadata()

    def more_metadata(self) -> dict[str, str]:
        """Return the given metadata by key. Raises UsageError for anything but key=value."""
        pairs = [pair.partition("=") for pair in self.metadata.split(",") if pair]
        for key, equals, _ in pairs:
            if not (key.strip() and equals):
                raise UsageError(f"--metadata: found '{key}', expected key=value,key=value")
        return {key.strip(): value.strip() for key, _, value in pairs}


class ExportSettings(TypedDict, total=False):
    """Attributes of :class:`ExportOptions` by name, for functions with keyword arguments."""

    output: str
    edges: str
    frame_subsampling_factor: int | None
    use_priors: bool
    log_softmax: bool
    apply_exp: bool
    collapse: bool
    streaming: bool
    chunk_outputs: int
    fixed_chunks: bool
    comment: str
    metadata: str
