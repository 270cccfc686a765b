"""Options of training, objectives, diagnostics, averaging and the estimation of transitions. Light."""
from __future__ import annotations

import math
from dataclasses import field
from typing import TypedDict

from nnet3py.compiler.optimize_options import CompilerOptions, OptimizeOptions
from nnet3py.errors import UsageError
from nnet3py.option_fields import CheckedOptions, opt, options_class


@options_class
class TrainerOptions(CheckedOptions):
    """Options of training, as for ``nnet3-train``; names and defaults are Kaldi's.

    Attributes
    ----------
    optimize, compiler : options of compiling computations and of storing them
    debug : whether to log every command as it runs
    device : "cpu" or "cuda"
    """

    srand: int = opt("srand", 0, "Seed of all random choices")
    store_component_stats: bool = opt("store-component-stats", True,
                                      "Gather activation and derivative statistics in the components")
    zero_component_stats: bool = opt("zero-component-stats", True, "Forget the statistics that the model comes with")
    print_interval: int = opt("print-interval", 100, "Minibatches between two lines with the objective", least=1)
    max_param_change: float = opt("max-param-change", 2.0,
                                  "Largest change of all parameters per minibatch, a 2-norm (0: no limit)", least=0)
    momentum: float = opt("momentum", 0.0, "Part of a minibatch's change that is carried over to the next", least=0)
    l2_regularize_factor: float = opt("l2-regularize-factor", 1.0,
                                      "Multiplies the components' own l2-regularize constants")
    batchnorm_stats_scale: float = opt("batchnorm-stats-scale", 0.8,
                                       "Multiplies the stored batch-norm statistics after each minibatch", least=0,
                                       most=1)
    backstitch_training_scale: float = opt("backstitch-training-scale", 0.0,
                                           "Size of the backward step of backstitch training (0: none)", least=0)
    backstitch_training_interval: int = opt("backstitch-training-interval", 1,
                                            "Minibatches from one with backstitch to the next", least=1)
    optimize: OptimizeOptions = field(default_factory=OptimizeOptions)
    compiler: CompilerOptions = field(default_factory=CompilerOptions)
    debug: bool = False
    device: str = "cpu"

    def check(self) -> None:
        """Raise UsageError for values beyond their limits, or momentum with backstitch."""
        super().check()
        if self.momentum and self.backstitch_training_scale:
            raise UsageError(f"--momentum={self.momentum:g} must be 0 with backstitch")


class TrainerSettings(TypedDict, total=False):
    """Keyword arguments that are attributes of :class:`TrainerOptions`, with their types."""

    srand: int
    store_component_stats: bool
    zero_component_stats: bool
    print_interval: int
    max_param_change: float
    momentum: float
    l2_regularize_factor: float
    batchnorm_stats_scale: float
    backstitch_training_scale: float
    backstitch_training_interval: int
    optimize: OptimizeOptions
    compiler: CompilerOptions
    debug: bool
    device: str


@options_class
class ChainOptions(CheckedOptions):
    """Options of the LF-MMI objective. Kaldi: ``ChainTrainingOptions``."""

    l2_regularize: float = opt("l2-regularize", 0.0, "l2 penalty on the network's chain output", least=0,
                               below=math.inf)
    out_of_range_regularize: float = opt("out-of-range-regularize", 0.01, "Penalty on chain output beyond +-30",
                                         least=0, below=math.inf)
    leaky_hmm_coefficient: float = opt(
        "leaky-hmm-coefficient", 1.0e-05,
        "Probability, for each frame, of going to any state of the denominator graph; most recipes use 0.1",
        above=0, below=1)
    xent_regularize: float = opt("xent-regularize", 0.0,
                                 "Weight of the cross-entropy at the output NAME-xent (0: none)", least=0,
                                 below=math.inf)
    lwf_scale: float = opt("lwf-scale", 0.0, "Factor of posteriors that come with examples, added to the derivatives",
                           least=0, below=math.inf)
    lwf_den_scale: float = opt("lwf-den-scale", 0.0, "The same, for denominator posteriors", least=0, below=math.inf)
    numerator_graph_threads: int = opt(
        "numerator-graph-threads", -1,
        "No effect: the threads of --num-threads share the numerators of end-to-end examples", least=0)


@options_class
class DiagnosticOptions:
    """Options of computing objective and accuracy, as for ``nnet3-compute-prob``.

    Attributes
    ----------
    store_component_stats : whether to accumulate statistics in the components
    optimize, compiler : options of compiling computations and of storing them
    debug : whether to log every command as it runs
    device : "cpu" or "cuda"
    """

    compute_accuracy: bool = opt("compute-accuracy", True, "Compute the accuracy as well as the objective")
    compute_per_dim_accuracy: bool = opt("compute-per-dim-accuracy", False,
                                         "Compute the accuracy of each output dimension")
    store_component_stats: bool = False
    optimize: OptimizeOptions = field(default_factory=OptimizeOptions)
    compiler: CompilerOptions = field(default_factory=CompilerOptions)
    debug: bool = False
    device: str = "cpu"


@options_class
class CombineOptions(CheckedOptions):
    """Options of averaging models, as for ``nnet3-combine``.

    Attributes
    ----------
    optimize, compiler : options of compiling computations and of storing them
    device : "cpu" or "cuda"
    """

    max_objective_evaluations: int = opt("max-objective-evaluations", 30,
                                         "The most averages to try, besides the first model alone", least=1)
    batchnorm_test_mode: bool = opt("batchnorm-test-mode", False,
                                    "Try averages with their stored batch-norm statistics")
    dropout_test_mode: bool = opt("dropout-test-mode", True, "Try averages without dropout")
    optimize: OptimizeOptions = field(default_factory=OptimizeOptions)
    compiler: CompilerOptions = field(default_factory=CompilerOptions)
    device: str = "cpu"


@options_class
class MinibatchOptions:
    """Options of making minibatches from utterances in memory.

    Attributes
    ----------
    left_context, right_context : frames before and after those with targets; -1: the network's context
    num_frames : number of frames with targets in an example; several lengths, the main one first: ``"150,110,90"``
    minibatch_size : number of examples in a minibatch, or a range: ``"64"``, ``"1:64"``
    dense_targets : whether targets in tables are matrices (frames, dim), or integer vectors (frames,)
    """

    left_context: int = opt("left-context", -1, "With --feats: frames of left context (-1: what the network needs)")
    right_context: int = opt("right-context", -1, "With --feats: frames of right context (-1: what the network needs)")
    num_frames: str = opt("num-frames", "8", "With --feats: labeled frames per example")
    minibatch_size: str = opt("minibatch-size", "64", "With --feats: examples per minibatch")
    dense_targets: bool = opt("dense-targets", False, "--targets are matrices, one row per frame")


@options_class
class TransitionOptions(CheckedOptions):
    """Options of estimating transition probabilities, as for ``nnet3-am-train-transitions``."""

    transition_floor: float = opt("transition-floor", 0.01, "Least probability of a transition", above=0, below=1)
    transition_min_count: float = opt("transition-min-count", 5.0,
                                      "Transition-states seen less often keep their probabilities")
    share_for_pdfs: bool = opt("share-for-pdfs", False, "Transition-states with the same pdf share their probabilities")
