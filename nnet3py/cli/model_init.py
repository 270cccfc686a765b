"""nnet3-init: a network from a config file."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.command import kaldi_command
from nnet3py.cli.option_groups import BINARY
from nnet3py.cli.options import Options, option
from nnet3py.errors import ConfigError


@kaldi_command("nnet3-init", usage="""
Initialize nnet3 neural network from a config file; outputs 'raw' nnet without associated information such as
transition model and priors. With an existing network, its nodes and components are kept unless the config defines
others of the same name.

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


def read_config_text(path: str) -> str:
    """The text of a config file. Raises ConfigError if it is no text."""
    from nnet3py.io.streams import open_input

    with open_input(path) as stream:
        data = stream.read()
    try:
        if data.startswith(b"\0B"):
            raise ConfigError(f"expected a config file, found binary data in {path}", "are the arguments in order?")
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the config file {path} is not UTF-8 text (byte {error.start})") from None
