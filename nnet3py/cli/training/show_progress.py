"""nnet3-show-progress: how a network changed between two iterations of its training."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import DEVICE, with_default
from nnet3py.cli.process.options import Options, option
from nnet3py.cli.training.train_setup import PROB, diagnostic_options

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet


@kaldi_command("nnet3-show-progress", group="Training", help="Show how a network changed in training.", usage="""
Log how much the parameters of each component changed from one network to another, and, with (merged) examples, what
that did to the objective.

Usage:  nnet3-show-progress [options] <old-net-in> <new-net-in> [<training-examples-in>]

e.g.: nnet3-show-progress 1.raw 2.raw ark:valid.egs
""", arguments=(2, 3), options=[
    option("num-segments", int, 1, "Points between the two networks at which the derivative is taken"),
    *PROB, *with_default(DEVICE, "use-gpu", "no"),
])
def show_progress(args: list[str], options: Options) -> int:
    """Log changes of parameters and objective."""
    from nnet3py.cli.process.compute_setup import set_up
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.averaging import log_parameter_changes

    device = set_up(options)
    old, new = read_nnet(args[0]), read_nnet(args[1])
    if old.num_parameters() != new.num_parameters():
        log.warning("Parameter-dim mismatch, cannot show progress.")
        return 0
    if len(args) == 3 and old.is_simple():
        _log_objective_changes(old, new, args[2], options, device)
    difference = log_parameter_changes(old, new)
    if options.verbose >= 1:
        from nnet3py.model_info import info

        log.vlog(1, f"Printing info for the difference network: {info(difference)}")
    return 0


def _log_objective_changes(old: Nnet, new: Nnet, examples: str, options: Options, device: str) -> None:
    from nnet3py.egs.example import read_egs
    from nnet3py.training.averaging import objective_changes

    objective_changes(old, new, [eg for _, eg in read_egs(examples)], options.num_segments,
                      diagnostic_options(options, device))
