"""The option groups that several programs share, as data: Kaldi's names, defaults and prefixes.

``[*SIMPLE, *IVEC, *DEVICE]`` in a command's ``options`` registers them. ``with_default`` changes one default where a
program differs from the rest.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnet3py.cli.process.options import Option, declared, normalize, option
from nnet3py.compiler.optimize_options import OptimizeOptions
from nnet3py.option_fields import settings_of

Group = tuple[Option, ...]

# For commands that are called only by people, not by scripts that read logs.
QUIET = option("print-args", bool, False, "Repeat the command line on standard error")

BINARY = option("binary", bool, True, "Write output in binary mode")


def with_default(group: Sequence[Option], name: str, default: Any) -> Group:
    """``group`` with another default for one of its options."""
    if normalize(name) not in [option_.name for option_ in group]:
        raise ValueError(f"no option {name} in this group")
    return tuple(option_.but(default=default) if option_.name == normalize(name) else option_ for option_ in group)


def without(group: Sequence[Option], *names: str) -> Group:
    """``group`` without some of its options."""
    return tuple(option_ for option_ in group if option_.name not in names)


def unprefixed(group: Sequence[Option]) -> Group:
    """``group`` with options named without their prefix, as some programs have them."""
    return tuple(option_.but(option_.name.rpartition(".")[2]) for option_ in group)


OPTIM: Group = tuple(
    option_.but(idle=lambda level, options: "" if level < 2 else "nothing is compressed, and derivatives are exact")
    if option_.name == "optimization.memory-compression-level" else option_
    for option_ in declared(settings_of(OptimizeOptions(), "optimization.")))

COMPUTE: Group = (
    option("computation.debug", bool, False, "Log every command that is run, with norms of what it changes"),
)

COMPILER: Group = (
    option("compiler.use-shortcut", bool, True, "Compile for two sequences and extend to many"),
    option("compiler.cache-capacity", int, 64, "Number of compiled computations kept"),
)

SIMPLE: Group = (
    option("extra-left-context", int, 0, "Frames of left context added to what the network needs"),
    option("extra-right-context", int, 0, "Frames of right context added to what the network needs"),
    option("extra-left-context-initial", int, -1,
           "As --extra-left-context, for the first chunk of an utterance (-1: the same)"),
    option("extra-right-context-final", int, -1,
           "As --extra-right-context, for the last chunk of an utterance (-1: the same)"),
    option("frame-subsampling-factor", int, 1, "Input frames per output frame"),
    option("acoustic-scale", float, 0.1, "Factor by which the output is multiplied"),
    option("frames-per-chunk", int, 50, "Output frames computed at once, before subsampling"),
    option("debug-computation", bool, False, "Log every command that is run"),
    *OPTIM, *COMPUTE,
)

IVEC: Group = (
    option("ivectors", str, "", "Rspecifier of iVectors, one vector per utterance (or per speaker, with --utt2spk)"),
    option("utt2spk", str, "", "Rspecifier of the utterance-to-speaker map, for --ivectors per speaker"),
    option("online-ivectors", str, "", "Rspecifier of iVectors estimated online, one matrix per utterance"),
    option("online-ivector-period", int, 0, "Frames between the rows of --online-ivectors"),
)

PROB: Group = (
    option("debug-computation", bool, False, "Log every command that is run"),
    option("compute-accuracy", bool, True, "Compute the accuracy as well as the objective"),
    option("compute-per-dim-accuracy", bool, False, "Compute the accuracy of each output dimension"),
    *OPTIM, *COMPILER, *COMPUTE,
)

TRAINER: Group = (
    option("srand", int, 0, "Seed of all random choices"),
    option("store-component-stats", bool, True, "Gather activation and derivative statistics in the components"),
    option("zero-component-stats", bool, True, "Forget the statistics that the model comes with"),
    option("print-interval", int, 100, "Minibatches between two lines with the objective"),
    option("max-param-change", float, 2.0, "Largest change of all parameters per minibatch, a 2-norm (0: no limit)"),
    option("momentum", float, 0.0, "Part of a minibatch's change that is carried over to the next"),
    option("l2-regularize-factor", float, 1.0, "Multiplies the components' own l2-regularize constants"),
    option("batchnorm-stats-scale", float, 0.8, "Multiplies the stored batch-norm statistics after each minibatch"),
    option("backstitch-training-scale", float, 0.0, "Size of the backward step of backstitch training (0: none)"),
    option("backstitch-training-interval", int, 1, "Minibatches from one with backstitch to the next"),
    option("read-cache", str, "", "File of compiled computations, from --write-cache, which need not be compiled then"),
    option("write-cache", str, "", "Write the compiled computations to this file"),
    option("binary-write-cache", bool, True, "Write that file in binary"),
    option("cuda-cache-memory", bool, True, "No effect: it is about Kaldi's memory"),
    option("cuda-memory-proportion", float, 0.5, "No effect: it is about Kaldi's memory"),
)

CHAIN: Group = (
    option("l2-regularize", float, 0.0, "l2 penalty on the network's chain output"),
    option("out-of-range-regularize", float, 0.01, "Penalty on chain output beyond +-30"),
    option("leaky-hmm-coefficient", float, 1.0e-05,
           "Probability, for each frame, of going to any state of the denominator graph; most recipes use 0.1"),
    option("xent-regularize", float, 0.0, "Weight of the cross-entropy at the output NAME-xent (0: none)"),
    option("lwf-scale", float, 0.0, "Factor of posteriors that come with examples, added to the derivatives"),
    option("lwf-den-scale", float, 0.0, "The same, for denominator posteriors"),
    option("numerator-graph-threads", int, -1,
           "Kaldi's threads for the numerators of end-to-end examples; here the threads of --num-threads share them"),
)

EGGEN: Group = (
    option("left-context", int, 0, "Frames of left context in each example"),
    option("right-context", int, 0, "Frames of right context in each example"),
    option("left-context-initial", int, -1, "As --left-context, for the first chunk of an utterance (-1: the same)"),
    option("right-context-final", int, -1, "As --right-context, for the last chunk of an utterance (-1: the same)"),
    option("num-frames", str, "1", "Labeled frames per example: a comma-separated list, the usual one first"),
    option("num-frames-overlap", int, 0, "Frames by which neighboring examples overlap"),
    option("frame-subsampling-factor", int, 1, "Input frames per output frame"),
)

# What examples made from features have in addition, frame-level and chain ones alike.
EGS_OF_FEATURES: Group = (
    *EGGEN,
    option("compress", bool, True, "Store features in compressed form"),
    option("ivectors", str, "", "Alias for --online-ivectors"),
    option("online-ivectors", str, "", "Rspecifier of iVectors, one matrix per utterance"),
    option("online-ivector-period", int, 1, "Frames between the rows of --online-ivectors"),
    option("length-tolerance", int, 100, "Frames by which features and iVectors may differ in length"),
)

_DEPRECATED = "Kaldi ignores it, too; the sizes of minibatches are those that --minibatch-size allows"
MERGE: Group = (
    option("compress", bool, False, "Compress the features of the merged examples"),
    option("measure-output-frames", str, "deprecated", "No effect, as in Kaldi", idle=_DEPRECATED),
    option("discard-partial-minibatches", str, "deprecated", "No effect, as in Kaldi", idle=_DEPRECATED),
    option("minibatch-size", str, "256",
           "Sequences per minibatch: sizes and ranges (64:128,256), by example size (128=64/256=32)"),
    option("multilingual-eg", bool, False, "Merge only examples of the same language; for chain examples"),
)

NUM_THREADS = option("num-threads", int, 0,
                     "Threads of the compiled code and of BLAS (0: $NNET3PY_NUM_THREADS, or the cores this process may "
                     "use)")

# What a command that computes takes besides Kaldi's own options.
DEVICE: Group = (
    option("use-gpu", str, "optional", "yes|no|optional|wait: use a GPU; without one yes fails, wait warns",
           choices=("yes", "no", "optional", "wait")),
    option("device", str, "", "cpu or cuda; wins over --use-gpu", choices=("", "cpu", "cuda")),
    option("cuda-use-tensor-cores", bool, False, "Let products on a GPU round their factors to TF32, for its tensor "
           "cores; true also with NNET3PY_TF32=1"),
    NUM_THREADS,
    option("compiler.cache-dir", str, "", "Folder where compiled computations are kept, so that the next process need "
           "not compile them (empty: $NNET3PY_COMPUTATION_CACHE, if that is set)"),
)
