"""nnet3-info and nnet3-am-info: what a model consists of, on standard output."""
from __future__ import annotations

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options


@kaldi_command("nnet3-info", group="Models", help="Print what a network consists of.", usage="""
Describe a network: its contexts, its size, its nodes and its components.

Usage:  nnet3-info [options] <raw-nnet>

e.g.:
 nnet3-info 0.raw
""", arguments=(1, 1))
def info(args: list[str], options: Options) -> int:
    """Print the description of a network; with --verbose=2 singular values too."""
    from nnet3py.io.streams import write_text
    from nnet3py.model_info import info as describe
    from nnet3py.network.model_file import read_nnet

    write_text("-", describe(read_nnet(args[0]), verbose=options.verbose))
    return 0


@kaldi_command("nnet3-am-info", group="Models", help="Print what an acoustic model consists of.", usage="""
Describe an acoustic model: its dimensions and priors, then its network.

Usage:  nnet3-am-info [options] <nnet>

e.g.:
 nnet3-am-info 0.mdl
""", arguments=(1, 1))
def am_info(args: list[str], options: Options) -> int:
    """Print the description of an acoustic model."""
    from nnet3py.acoustic_model import read_model
    from nnet3py.io.streams import write_text
    from nnet3py.model_info import acoustic_model_info

    write_text("-", acoustic_model_info(read_model(args[0]), verbose=options.verbose))
    return 0
