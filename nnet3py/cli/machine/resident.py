"""nnet3py resident: run a script whose programs of ours need not be loaded anew each time."""
from __future__ import annotations

from nnet3py import log, system
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import QUIET
from nnet3py.cli.process.options import Options
from nnet3py.errors import Nnet3Error


@kaldi_command("resident", group="Start here", help="Run a script whose programs of ours need not be loaded each time.",
               launcher=False, usage="""
Run a command, such as one of Kaldi's scripts, while a process that has loaded
everything is ready: each program of ours that it calls is a copy of this
process, which takes milliseconds instead of tenths of a second. It ends with
the command. Linux only.

Usage:  nnet3py resident [options] <command> [<argument> ...]

e.g.:
 nnet3py resident steps/nnet3/train_raw_dnn.py --dir exp/tdnn ...
""", arguments=(1, None), options=[QUIET], runs_program=True)
def resident(args: list[str], options: Options) -> int:
    """Run the command; its exit status is ours."""
    if not (system.TELLS_OF_PROCESSES and system.CAN_FORK):
        raise Nnet3Error("nnet3py resident needs Linux, whose /proc tells what a caller's process is like",
                         "run the command without it")
    from nnet3py.cli.process.resident_server import ResidentServer, load_everything

    load_everything()
    server = ResidentServer()
    status = server.run(args)
    log.vlog(1, f"{server.num_served} commands were run by copies of this process, {server.num_sent_away} by their own")
    return status
