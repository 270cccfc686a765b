"""Problems and curves of a training, from its logs: nnet3-monitor and nnet3-report."""
from __future__ import annotations

import logging

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option

logger = logging.getLogger(__name__)


@kaldi_command("nnet3-monitor", "Training", "Print the problems of a training, with remedies.", """
Print a line for each problem of a training, with a remedy to try: an objective that diverges or stalls, layers that are
saturated or dead, changes that are nearly always cut by max-change, derivatives that are clipped. Training drivers
print the same lines while they train. The exit status is always 0.

Usage:  nnet3-monitor [options] <exp-dir>

e.g.:
 nnet3-monitor exp/tdnn
""", arguments=(1, 1), options=[])
def monitor(args: list[str], options: Options) -> int:
    from pathlib import Path

    from nnet3py.io.streams import write_text
    from nnet3py.report.monitor import all_messages
    from nnet3py.report.training_logs import read_iterations

    iterations = read_iterations(Path(args[0]))
    lines = all_messages(iterations) or [f"no problems in {len(iterations)} iterations"]
    write_text("-", "".join(line + "\n" for line in lines))
    return 0


@kaldi_command("nnet3-report", "Training", "Write a page with plots about a training.", """
Write a report of a training: an HTML page with error rates, duration, command and options, plots of objective and
accuracy, learning rate, changes and sizes of parameters, activations of each layer, and how often changes were cut by
max-change, warnings, and a drawing of the network. While the training runs, a browser reloads the page regularly; with
--follow the page is written again until the training has ended.

The plots are written beside it, each as SVG and PNG, and the numbers of the curves as report.csv. Plots need matplotlib
(nnet3-extras plot says how to install it); without it everything else is written.

Usage:  nnet3-report [options] <exp-dir> [<exp-dir2> ...]

With several folders, the objectives of all are drawn in the same plots, over epochs, iterations or hours, as chosen on
the page; all else is about the first folder.

e.g.:
 nnet3-report exp/tdnn
 nnet3-report --follow exp/tdnn &
 nnet3-report --tensorboard exp/tdnn && tensorboard --logdir exp/tdnn/report/tensorboard
 nnet3-report --output-dir=exp/report exp/tdnn exp/lstm
""", arguments=(1, None), options=[
    option("output-dir", str, "", "Folder for report.html and the plots (empty: <exp-dir>/report)"),
    option("follow", bool, False, "Write the report again from time to time, as long as the (first) training runs"),
    option("tensorboard", bool, False,
           "Also write data for TensorBoard, into the folder tensorboard beside the report; "
           "needs the extra tensorboard"),
])
def report(args: list[str], options: Options) -> int:
    from pathlib import Path

    from nnet3py.io.streams import write_text
    from nnet3py.report.training_page import follow, write_report
    from nnet3py.report.training_plots import why_no_plots

    if reason := why_no_plots():
        logger.warning("%s; the report is written without plots", reason)
    folders = [Path(name) for name in args]
    write = follow if options.follow else write_report
    page = write(folders, Path(options.output_dir) if options.output_dir else folders[0] / "report",
                 options.tensorboard)
    write_text("-", f"{page}\n")
    return 0
