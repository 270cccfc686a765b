"""Topologies, trees and models before training: make-topology, make-mono-tree, gmm-init-mono, -biphone, -model."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, int_list, option
from nnet3py.errors import UsageError

if TYPE_CHECKING:
    from nnet3py.gaussians.mixtures import DiagGmm
    from nnet3py.hmm.topology import HmmTopology

_MOST_DIMENSIONS = 9999
_SHARED_PHONES = option("shared-phones", str, "", "File whose lines are sets of phones (integers) that share their "
                        "pdfs")


@kaldi_command("make-topology", group="Trees and topologies",
               help="Make an HMM topology from lists of phones.", usage="""
Write the HMM topology of phones, which are given as two colon-separated lists of integers; that of silence phones may
be empty. For chain models all phones have the same topology; for others silence has its own. Kaldi has scripts named
gen_topo for this.

Usage: make-topology [options] <nonsilence-phones> <silence-phones> <topology-out>
e.g.: make-topology 2:3:4:5 1 topo
 make-topology --chain=false --num-nonsil-states=3 --num-sil-states=5 2:3:4:5 1 topo
See also: make-mono-tree
""", arguments=(3, 3), options=[
    option("chain", bool, True, "One state for each phone, with two pdfs"),
    option("num-nonsil-states", int, 3, "States of a phone that is not silence, with --chain=false"),
    option("num-sil-states", int, 5, "States of a silence phone, with --chain=false"),
    BINARY.but(default=False),
])
def make_topology(args: list[str], options: Options) -> int:
    """Write an HMM topology for lists of phones; return 0."""
    from nnet3py.hmm.topology import chain_topology, left_to_right_topology
    from nnet3py.io.object_files import write_object

    nonsilence, silence = (_phones(text) for text in args[:2])
    if options.chain:
        topology = chain_topology(sorted([*nonsilence, *silence]))
    else:
        topology = left_to_right_topology(nonsilence, silence, options.num_nonsil_states, options.num_sil_states)
    write_object(args[2], topology.write, options.binary)
    return 0


def _phones(text: str) -> list[int]:
    words = text.replace(":", " ").split()
    wrong = [word for word in words if not (word.isascii() and word.isdigit() and len(word) < 10)]
    if wrong:
        raise UsageError(f"expected a colon-separated list of phones (integers), found '{wrong[0]}'")
    return [int(word) for word in words]


@kaldi_command("make-mono-tree", group="Trees and topologies",
               help="Make a monophone tree, and a transition model.", usage="""
Make a context-independent (monophone) tree, and a transition model with the topology's probabilities. gmm-init-mono
makes the same tree, and a GMM.

Usage:  make-mono-tree [options] <topology-in> <tree-out> <transition-model-out>
e.g.:
 make-mono-tree topo tree final.mdl
See also: phones-to-ali, nnet3-am-init, tree-info
""", arguments=(3, 3), options=[BINARY, _SHARED_PHONES])
def make_mono_tree(args: list[str], options: Options) -> int:
    """Write a monophone tree and its transition model; return 0."""
    from nnet3py.hmm.topology import HmmTopology
    from nnet3py.hmm.tree import initial_transition_model, monophone_tree
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.io.streams import read_integer_lines

    topology = read_object(args[0], HmmTopology.read)
    shared = read_integer_lines(options.shared_phones) if options.shared_phones else None
    tree = monophone_tree(topology, shared)
    model = initial_transition_model(tree, topology)
    write_object(args[1], tree.write, options.binary)
    write_object(args[2], model.write, options.binary)
    log.log(f"Made a tree with {tree.num_pdfs} pdfs for {len(topology.phones)} phones.")
    return 0


# -- Gaussian mixture models -------------------------------------------------------------------------------------------


@kaldi_command("gmm-init-model", group="Trees and topologies",
               help="Make a GMM from a tree and its statistics.", usage="""
Make a GMM with one Gaussian for each pdf of a tree, from the tree's statistics; or, with an old tree and an old model,
with the mixtures of the old pdfs that share most statistics with each pdf.

Usage:  gmm-init-model [options] <tree-in> <tree-stats-in> <topo-file> <model-out> [<old-tree> <old-model>]
e.g.:
 gmm-init-model tree treeacc topo 1.mdl
or, with the pdfs of an old model:
 gmm-init-model tree treeacc topo 1.mdl prev/tree prev/30.mdl
See also: build-tree, gmm-init-mono
""", arguments=(4, 6), options=[
    BINARY,
    option("write-occs", str, "", "Wxfilename of the occupation counts: frames of each pdf"),
    option("var-floor", float, 0.01, "Variance floor"),
])
def gmm_init_model(args: list[str], options: Options) -> int:
    """Write a GMM made from a tree and its statistics; return 0."""
    from nnet3py.formats.matrices import write_vector
    from nnet3py.gaussians.mixtures import GmmModel
    from nnet3py.hmm.topology import HmmTopology
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.trees.initial_models import OldModel, model_of_stats
    from nnet3py.trees.stats import TreeStats

    if len(args) == 5:
        raise OptionError("an old tree needs an old model, too", "give 4 or 6 arguments")
    tree = read_object(args[0], ContextDependency.read)
    stats = read_object(args[1], TreeStats.read)
    log.log(f"Number of separate statistics is {len(stats)}")
    topology = read_object(args[2], HmmTopology.read)
    old = None
    if len(args) == 6:
        old = OldModel(read_object(args[4], ContextDependency.read), read_object(args[5], GmmModel.read))
    model, counts = model_of_stats(tree, stats, topology, options.var_floor, old)
    write_object(args[3], model.write, options.binary)
    if options.write_occs:
        write_object(options.write_occs, lambda writer: write_vector(writer, counts), options.binary)
    log.log("Wrote model.")
    return 0


def _dimension(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MOST_DIMENSIONS):
        raise OptionError(f"expected a dimension from 1 to {_MOST_DIMENSIONS}, found '{text}'")
    return int(text)


def _read_phone_sets(rxfilename: str, topology: HmmTopology) -> list[tuple[int, ...]]:
    """Read sets of phones that share pdfs; without a file each phone of the topology is a set."""
    from nnet3py.io.streams import read_integer_lines
    from nnet3py.trees.initial_models import phone_sets

    if not rxfilename:
        return [(phone,) for phone in topology.phones]
    return phone_sets(read_integer_lines(rxfilename, keep_empty=True), rxfilename)


def _write_model(args: list[str], tree: Any, topology: HmmTopology, gaussian: DiagGmm, options: Options,
           perturb_factor: float = 0.0) -> None:
    from nnet3py.io.object_files import write_object
    from nnet3py.trees.initial_models import same_for_all

    model = same_for_all(tree, topology, gaussian, perturb_factor)
    write_object(args[2], model.write, options.binary)
    write_object(args[3], tree.write, options.binary)


def _default_gaussian(dim: int) -> DiagGmm:
    import numpy as np

    from nnet3py.gaussians.mixtures import DiagGmm

    return DiagGmm.single(np.ones(dim), np.ones(dim))      # mean and variance 1, as in Kaldi


@kaldi_command("gmm-init-mono", group="Trees and topologies", help="Make a monophone tree, and a GMM.", usage="""
Make a context-independent (monophone) tree, and a GMM in which all pdfs have the same Gaussian, with the mean and
variance of the features of --train-feats.

Usage:  gmm-init-mono [options] <topology-in> <dim> <model-out> <tree-out>
e.g.:
 gmm-init-mono topo 39 mono.mdl mono.tree
See also: make-mono-tree, gmm-init-model, gmm-init-biphone
""", arguments=(4, 4), options=[
    BINARY,
    option("train-feats", str, "", "Rspecifier of the features (empty: mean and variance are 1)"),
    _SHARED_PHONES,
    option("perturb-factor", float, 0.0, "Perturb the means at random, by Gaussian noise with this many standard "
           "deviations"),
])
def gmm_init_mono(args: list[str], options: Options) -> None:
    """Write a monophone tree and a GMM."""
    from nnet3py.errors import within
    from nnet3py.feat.cmvn import accumulate_stats, empty_stats
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.hmm.topology import HmmTopology
    from nnet3py.hmm.tree import monophone_tree
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import SequentialReader
    from nnet3py.trees.initial_models import global_gaussian

    dim = _dimension(args[1])
    topology = read_object(args[0], HmmTopology.read)
    gaussian = _default_gaussian(dim)
    if options.train_feats:
        stats = empty_stats(dim)
        with SequentialReader(options.train_feats, FLOAT_MATRIX) as features:
            for key, matrix in features:
                with within(f"utterance {key}"):
                    accumulate_stats(matrix, stats)
        gaussian = global_gaussian(stats)
    tree = monophone_tree(topology, _read_phone_sets(options.shared_phones, topology))
    _write_model(args, tree, topology, gaussian, options, options.perturb_factor)


@kaldi_command("gmm-init-biphone", group="Trees and topologies",
               help="Make the full biphone tree, and a GMM.", usage="""
Make the full left-biphone tree, with pdfs for each pair of left phone and phone, and a GMM in which all pdfs have the
same Gaussian (mean and variance 1).

Usage:  gmm-init-biphone [options] <topology-in> <dim> <model-out> <tree-out>
e.g.:
 gmm-init-biphone topo 39 bi.mdl bi.tree
See also: gmm-init-mono, build-tree
""", arguments=(4, 4), options=[
    BINARY, _SHARED_PHONES,
    option("ci-phones", str, "", "Colon-separated list of context-independent phones (integers)"),
    option("phone-counts", str, "", "File with lines <left-phone> <phone> <count> and <phone> <count>; rare biphones "
           "share pdfs"),
    option("min-biphone-count", int, 100, "With --phone-counts: least count of a biphone with pdfs of its own"),
    option("min-monophone-count", int, 20, "With --phone-counts: least count of a phone whose rare biphones have pdfs "
           "apart from other phones'"),
])
def gmm_init_biphone(args: list[str], options: Options) -> None:
    """Write the full biphone tree and a GMM."""
    from nnet3py.hmm.topology import HmmTopology
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import read_lines
    from nnet3py.trees.initial_models import BiphoneCounts, biphone_tree

    dim = _dimension(args[1])
    topology = read_object(args[0], HmmTopology.read)
    counts = None
    if options.phone_counts:
        counts = BiphoneCounts.parse(read_lines(options.phone_counts), max(topology.phones), options.min_biphone_count,
                                     options.min_monophone_count, options.phone_counts)
        log.log("Loaded mono/bi phone counts.")
    tree = biphone_tree(topology, _read_phone_sets(options.shared_phones, topology),
                        int_list(options.ci_phones, "ci-phones"), counts)
    _write_model(args, tree, topology, _default_gaussian(dim), options)
