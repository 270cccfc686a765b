"""nnet3py bin-path: where the launchers with Kaldi's names lie."""
from __future__ import annotations

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import QUIET
from nnet3py.cli.process.options import Options


@kaldi_command("bin-path", group="Start here", help="Print the folder of the launchers with Kaldi's names, for PATH.",
               launcher=False, usage="""
Print the folder of the launchers with Kaldi's names, for PATH.

Usage:  nnet3py bin-path

e.g.:
 export PATH=$(nnet3py bin-path):$PATH
""", arguments=(0, 0), options=[QUIET])
def bin_path(args: list[str], options: Options) -> None:
    """Print the folder."""
    from nnet3py.drivers.executor import launcher_folder

    print(launcher_folder())
