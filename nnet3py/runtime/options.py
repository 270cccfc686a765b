"""Options of computing networks on utterances. Light."""
from __future__ import annotations

from dataclasses import field

from nnet3py.compiler.optimize_options import CompilerOptions, OptimizeOptions
from nnet3py.errors import UsageError
from nnet3py.option_fields import CheckedOptions, opt, options_class

MAX_PENDING = 32 * 2**20  # float32 numbers of features and outputs that may wait for a full minibatch


@options_class
class ComputeOptions(CheckedOptions):
    """Options of computing utterances: cutting into chunks and scaling of outputs, as for ``nnet3-compute``.

    Attributes
    ----------
    optimize, compiler : options of compiling computations and of storing them
    debug : whether to log every command as it runs
    """

    extra_left_context: int = opt("extra-left-context", 0, "Frames of left context added to what the network needs",
                                  least=0)
    extra_right_context: int = opt("extra-right-context", 0,
                                   "Frames of right context added to what the network needs", least=0)
    extra_left_context_initial: int = opt(
        "extra-left-context-initial", -1,
        "As --extra-left-context, for the first chunk of an utterance (-1: the same)")
    extra_right_context_final: int = opt(
        "extra-right-context-final", -1,
        "As --extra-right-context, for the last chunk of an utterance (-1: the same)")
    frame_subsampling_factor: int = opt("frame-subsampling-factor", 1, "Input frames per output frame", least=1)
    frames_per_chunk: int = opt("frames-per-chunk", 50, "Output frames computed at once, before subsampling", least=1)
    acoustic_scale: float = opt("acoustic-scale", 1.0, "Factor by which the output is multiplied")
    debug: bool = False
    optimize: OptimizeOptions = field(default_factory=OptimizeOptions)
    compiler: CompilerOptions = field(default_factory=CompilerOptions)

    def extra_context(self, is_first: bool, is_last: bool) -> tuple[int, int]:
        """Return a chunk's left and right context beyond what the network needs, in frames.

        A chunk may be both first and last.
        """
        initial, final = self.extra_left_context_initial, self.extra_right_context_final
        return (initial if is_first and initial >= 0 else self.extra_left_context,
                final if is_last and final >= 0 else self.extra_right_context)


@options_class
class BatchOptions(CheckedOptions):
    """Options of computing chunks of many utterances in minibatches, as for ``nnet3-compute-batch``.

    Attributes
    ----------
    max_pending : limit on waiting chunks: the number of float32 elements of their features and outputs
    """

    minibatch_size: int = opt("minibatch-size", 128, "Chunks that are computed at a time", least=1)
    edge_minibatch_size: int = opt("edge-minibatch-size", 32,
                                   "The same for first and last chunks, where their context differs", least=1)
    ensure_exact_final_context: bool = opt(
        "ensure-exact-final-context", False,
        "Compute utterances shorter than a chunk by themselves, not continued with copies of their last frame")
    partial_minibatch_factor: float = opt(
        "partial-minibatch-factor", 0.5,
        "Minibatches that are not full have this times the full size, or this times that, and so on", least=0, below=1)
    max_pending: int = MAX_PENDING


@options_class(frozen=True)
class XvectorOptions(CheckedOptions):
    """Options of cutting utterances for x-vectors, as for ``nnet3-xvector-compute``. Lengths in frames."""

    chunk_size: int = opt("chunk-size", -1, "Frames of the pieces that are averaged (-1: whole utterances)", least=1)
    min_chunk_size: int = opt("min-chunk-size", 100, "Frames that a piece must have", least=1)
    pad_input: bool = opt("pad-input", True, "Continue shorter pieces with copies of their first and last frames")

    def check(self) -> None:
        """Raise UsageError for values beyond their limits."""
        super().check()
        if not self.pad_input and 0 < self.chunk_size < self.min_chunk_size:
            raise UsageError(f"--chunk-size={self.chunk_size} is less than --min-chunk-size={self.min_chunk_size}",
                             "no chunk would be long enough: use --pad-input=true or another size")


@options_class(frozen=True)
class BatchedXvectorOptions(CheckedOptions):
    """Options of x-vectors of many utterances together, as for ``nnet3-xvector-compute-batched``.

    Attributes
    ----------
    optimize, compiler : options of compiling computations and of storing them
    debug : whether to log every command as it runs
    """

    chunk_size: int = opt("chunk-size", 150, "Frames of the pieces, with the network's context", least=1)
    batch_size: int = opt("batch-size", 32, "Pieces that are computed at a time", least=1)
    pad_input: bool = opt("pad-input", True,
                          "Continue utterances shorter than a piece with copies of their last frame")
    optimize: OptimizeOptions = field(default_factory=OptimizeOptions)
    compiler: CompilerOptions = field(default_factory=CompilerOptions)
    debug: bool = False
