"""nnet3-init: a network from a config file."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.nnet.config_text import read_config_text
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import Options, option


@kaldi_command("nnet3-init", group="Models", help="Make a network from a config file, or extend an existing one.",
               usage="""
Make a network from a config file. With an existing network, its nodes and components are kept unless the config
defines others of the same name.

Usage:  nnet3-init [options] [<existing-model-in>] <config-in> <raw-nnet-out>

e.g.:
 nnet3-init nnet.config 0.raw
or: nnet3-init 1.raw nnet.config 2.raw
""", arguments=(2, 3), options=[
    BINARY,
    option("srand", int, 0, "Seed for random number generator"),
])
def init(args: list[str], options: Options) -> int:
    """Make or extend a network."""
    from nnet3py.network.model_file import read_nnet
    from nnet3py.network.nnet import Nnet

    *existing, config, target = args
    nnet = Nnet()
    if existing:
        nnet = read_nnet(existing[0])
        log.log(f"Read raw neural net from {existing[0]}")
    nnet.read_config(read_config_text(config), seed=options.srand, path=config)
    nnet.write(target, binary=options.binary)
    log.log(f"Initialized raw neural net and wrote it to {target}")
    return 0
