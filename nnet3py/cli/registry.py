"""Every command: Kaldi's name, the module and function that run it, and one line of help.

Help, shell completion, ``bin/`` and the entry points of the package are made from this table, so none of them
imports a command. A person's name for a command is Kaldi's without ``nnet3-``. ``nnet3-inspect`` and
``nnet3-compile`` are ours: Kaldi has no such programs.
"""
from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """Where a command lives: ``nnet3py.cli.<module>``, the attribute in it, and one line of help."""

    module: str
    function: str
    help: str


COMMANDS: dict[str, Entry] = {
    "nnet3-init": Entry("model_init", "init", "Make a network from a config file, or extend an existing one."),
    "nnet3-info": Entry("model_info", "info", "Print what a network consists of."),
    "nnet3-copy": Entry("model_copy", "copy", "Copy a network; optionally edit, scale or convert it."),
    "nnet3-inspect": Entry("inspect", "inspect", "Show what a model or its folder holds, and what it lacks."),
    "nnet3-compile": Entry("compile", "compile_request", "Show what the compiler makes of a network and a request."),
    "nnet3-am-init": Entry("model_am", "am_init", "Make an acoustic model from a network and a transition model."),
    "nnet3-am-copy": Entry("model_copy", "am_copy", "Copy an acoustic model; optionally edit it or take its network."),
    "nnet3-am-info": Entry("model_info", "am_info", "Print what an acoustic model consists of."),
    "nnet3-am-adjust-priors": Entry("model_am", "am_adjust_priors", "Set the priors of an acoustic model."),
    "nnet3-get-egs": Entry("egs_get", "get_egs", "Make training examples from features and posteriors."),
    "nnet3-copy-egs": Entry("egs_copy", "copy_egs", "Copy training examples; optionally select, shift or split."),
    "nnet3-shuffle-egs": Entry("egs_shuffle", "shuffle_egs", "Put training examples into random order."),
    "nnet3-merge-egs": Entry("egs_merge", "merge_egs", "Merge training examples into minibatches."),
    "nnet3-subset-egs": Entry("egs_subset", "subset_egs", "Select a random subset of training examples."),
    "nnet3-train": Entry("train", "train", "Train a network on merged examples."),
    "nnet3-compute": Entry("compute", "compute", "Compute a network's output for features."),
    "nnet3-compute-prob": Entry("compute_prob", "compute_prob", "Print objective and accuracy on examples."),
    "nnet3-average": Entry("average", "average", "Average the parameters of several networks."),
    "copy-feats": Entry("copy_feats", "copy_feats", "Copy features; optionally compress them."),
    "feat-to-dim": Entry("feat_to", "feat_to_dim", "Print the dimension of features."),
    "feat-to-len": Entry("feat_to", "feat_to_len", "Print the number of frames of features."),
    "copy-int-vector": Entry("copy_int_vector", "copy_int_vector", "Copy integer vectors, such as alignments."),
    "ali-to-post": Entry("ali_to_post", "ali_to_post", "Turn alignments into posteriors."),
    "copy-matrix": Entry("copy_matrix", "copy_matrix", "Copy matrices; optionally scale or transform them."),
}


def person_name(kaldi_name: str) -> str:
    """The name a person types after ``nnet3py``: Kaldi's without ``nnet3-``."""
    return kaldi_name.removeprefix("nnet3-")


PERSON_NAMES: dict[str, str] = {person_name(name): name for name in COMMANDS}
