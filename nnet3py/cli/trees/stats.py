"""acc-tree-stats and sum-tree-stats: statistics of features by HMM state and phones around it."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.lists import int_list
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.cli.trees.options import CONTEXT, check_context


@kaldi_command("acc-tree-stats", group="Trees and topologies", help="Gather the statistics that a tree is built from.",
               usage="""
Gather statistics for building a tree: the sums of features and of their squares by HMM state and phones around it.

Usage:  acc-tree-stats [options] <model> <features-rspecifier> <alignments-rspecifier> <tree-accs-out>
e.g.:
 acc-tree-stats final.mdl scp:train.scp ark:1.ali 1.tacc
See also: sum-tree-stats, build-tree
""", arguments=(4, 4), options=[
    BINARY, *CONTEXT,
    option("var-floor", float, 0.01, "Variance floor for tree clustering"),
    option("ci-phones", str, "", "Colon-separated list of phones (after mapping) whose neighbors do not count"),
    option("phone-map", str, "", "File with lines <old-phone> <new-phone>, numbers"),
])
def acc_tree_stats(args: list[str], options: Options) -> int:
    """Gather statistics; 1 if there was no utterance."""
    import numpy as np

    from nnet3py.cli.alignments.align_phones import read_phone_map
    from nnet3py.errors import within
    from nnet3py.formats.general import check_finite
    from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.io.tables import RandomAccessReader, SequentialReader
    from nnet3py.trees.stats import ABSENT, Accumulator

    check_context(options)
    ci_phones = int_list(options.ci_phones, "ci-phones")
    if 0 in ci_phones or len(set(ci_phones)) < len(ci_phones):
        raise OptionError(f"--ci-phones={options.ci_phones} must name phones from 1, each once")
    phone_map = None
    if options.phone_map:
        mapped = read_phone_map(options.phone_map) or {}
        phone_map = np.full(max(mapped, default=0) + 1, ABSENT, dtype=np.int64)
        phone_map[[*mapped]] = [*mapped.values()]
    model = read_object(args[0], TransitionModel.read)
    accumulator = Accumulator(model, options.context_width, options.central_position, ci_phones, phone_map,
                              options.var_floor)
    done = missing = failed = 0
    with SequentialReader(args[1], FLOAT_MATRIX) as features, RandomAccessReader(args[2], INT_VECTOR) as alignments:
        for key, matrix in features:
            if key not in alignments:
                missing += 1
                continue
            ids = alignments[key]
            if len(ids) != len(matrix):
                log.warning(f"Alignments has wrong size {len(ids)} vs. {len(matrix)}, utterance {key}")
                failed += 1
                continue
            with within(f"utterance {key}"):
                check_finite(matrix, "features")
                if not accumulator.add(matrix, ids):
                    log.warning(f"AccumulateTreeStats: alignment appears to be bad, not using it: utterance {key}")
            done += 1
    stats = accumulator.stats()
    write_object(args[3], stats.write, options.binary)
    log.log(f"Accumulated stats for {done} files, {missing} failed due to no alignment, {failed} failed for other "
            f"reasons.")
    log.log(f"Number of separate stats (context-dependent states) is {len(stats)}")
    return 0 if done else 1


@kaldi_command("sum-tree-stats", group="Trees and topologies", help="Add statistics for building a tree.", usage="""
Add statistics for building trees, gathered on parts of the data.

Usage:  sum-tree-stats [options] tree-accs-out tree-accs-in1 tree-accs-in2 ...
e.g.:
 sum-tree-stats treeacc 1.treeacc 2.treeacc 3.treeacc
See also: acc-tree-stats, build-tree
""", arguments=(2, None), options=[BINARY])
def sum_tree_stats(args: list[str], options: Options) -> int:
    """Add statistics; 1 if there were none."""
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.trees.stats import TreeStats, summed

    stats = summed(read_object(name, TreeStats.read) for name in args[1:])
    write_object(args[0], stats.write, options.binary)
    log.log(f"Wrote summed accs ( {len(stats)} individual stats)")
    return 0 if len(stats) else 1
