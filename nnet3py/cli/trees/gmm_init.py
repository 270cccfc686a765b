"""gmm-init-model, gmm-init-mono and gmm-init-biphone: trees and models to begin with."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.lists import int_list
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option

if TYPE_CHECKING:
    from nnet3py.gaussians.mixtures import DiagGmm
    from nnet3py.hmm.topology import HmmTopology

_MOST_DIMENSIONS = 9999
_SHARED_PHONES = option("shared-phones", str, "", "File whose lines are sets of phones (numbers) that share their pdfs")


@kaldi_command("gmm-init-model", group="Trees and topologies", help="Make a model from a tree and its statistics.",
               usage="""
Make a model with a Gaussian for each pdf of a tree, from the tree's statistics; or with the pdfs of an old model that
fit.

Usage:  gmm-init-model [options] <tree-in> <tree-stats-in> <topo-file> <model-out> [<old-tree> <old-model>]
e.g.:
 gmm-init-model tree treeacc topo 1.mdl
or, with the pdfs of an old model:
 gmm-init-model tree treeacc topo 1.mdl prev/tree prev/30.mdl
See also: build-tree, gmm-init-mono
""", arguments=(4, 6), options=[
    BINARY,
    option("write-occs", str, "", "File for the number of frames of each pdf"),
    option("var-floor", float, 0.01, "Variance floor"),
])
def gmm_init_model(args: list[str], options: Options) -> int:
    """Make a model."""
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


def _sets(rxfilename: str, topology: HmmTopology) -> list[tuple[int, ...]]:
    """Sets of phones that share pdfs; each phone alone without a file."""
    from nnet3py.io.streams import read_integer_lines
    from nnet3py.trees.initial_models import phone_sets

    if not rxfilename:
        return [(phone,) for phone in topology.phones]
    return phone_sets(read_integer_lines(rxfilename, keep_empty=True), rxfilename)


def _write(args: list[str], tree: Any, topology: HmmTopology, gaussian: DiagGmm, options: Options,
           perturb_factor: float = 0.0) -> None:
    from nnet3py.io.object_files import write_object
    from nnet3py.trees.initial_models import same_for_all

    model = same_for_all(tree, topology, gaussian, perturb_factor)
    write_object(args[2], model.write, options.binary)
    write_object(args[3], tree.write, options.binary)


def _standard(dim: int) -> DiagGmm:
    """Mean and variance 1."""
    import numpy as np

    from nnet3py.gaussians.mixtures import DiagGmm

    return DiagGmm.single(np.ones(dim), np.ones(dim))


@kaldi_command("gmm-init-mono", group="Trees and topologies", help="Make a tree without context, and a model for it.",
               usage="""
Make a tree without context, and a model for it with the same Gaussian for all pdfs, from given features.

Usage:  gmm-init-mono [options] <topology-in> <dim> <model-out> <tree-out>
e.g.:
 gmm-init-mono topo 39 mono.mdl mono.tree
See also: make-mono-tree, gmm-init-model, gmm-init-biphone
""", arguments=(4, 4), options=[
    BINARY,
    option("train-feats", str, "", "Features (rspecifier) for mean and variance; without them both are 1"),
    _SHARED_PHONES,
    option("perturb-factor", float, 0.0, "Move the means at random by this many standard deviations"),
])
def gmm_init_mono(args: list[str], options: Options) -> None:
    """Make a tree and a model."""
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
    gaussian = _standard(dim)
    if options.train_feats:
        stats = empty_stats(dim)
        with SequentialReader(options.train_feats, FLOAT_MATRIX) as features:
            for key, matrix in features:
                with within(f"utterance {key}"):
                    accumulate_stats(matrix, stats)
        gaussian = global_gaussian(stats)
    tree = monophone_tree(topology, _sets(options.shared_phones, topology) if options.shared_phones else None)
    _write(args, tree, topology, gaussian, options, options.perturb_factor)


@kaldi_command("gmm-init-biphone", group="Trees and topologies",
               help="Make the tree of all pairs of phones, and a model for it.", usage="""
Make the tree of all pairs of a left phone and a phone, and a model for it, all of whose pdfs are alike.

Usage:  gmm-init-biphone [options] <topology-in> <dim> <model-out> <tree-out>
e.g.:
 gmm-init-biphone topo 39 bi.mdl bi.tree
See also: gmm-init-mono, build-tree
""", arguments=(4, 4), options=[
    BINARY, _SHARED_PHONES,
    option("ci-phones", str, "", "Colon-separated list of phones whose pdfs do not depend on the left phone"),
    option("phone-counts", str, "", "File with lines <left-phone> <phone> <count> and <phone> <count>; rare biphones "
                                    "share their pdfs"),
    option("min-biphone-count", int, 100, "With --phone-counts: what a biphone needs for its own pdfs"),
    option("min-monophone-count", int, 20, "With --phone-counts: what a phone needs for its rare biphones' own pdfs"),
])
def gmm_init_biphone(args: list[str], options: Options) -> None:
    """Make a tree and a model."""
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
    tree = biphone_tree(topology, _sets(options.shared_phones, topology), int_list(options.ci_phones, "ci-phones"),
                        counts)
    _write(args, tree, topology, _standard(dim), options)
