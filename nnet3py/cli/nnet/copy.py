"""nnet3-copy and nnet3-am-copy: models, edited on the way."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.nnet.config_text import read_config_text
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import Options, option

if TYPE_CHECKING:
    from nnet3py.acoustic_model import AcousticModel
    from nnet3py.network.nnet import Nnet

EDITING = (
    BINARY,
    option("learning-rate", float, -1.0, "If 0 or more, the learning rate of all updatable components, to be "
           "multiplied by their learning-rate-factor"),
    option("nnet-config", str, "", "Name of a config file with nodes and components to add or to replace"),
    option("edits-config", str, "", "Name of a file of edit directives"),
    option("edits", str, "", "Edit directives separated by ';', such as --edits='remove-orphans; rename-node ...'"),
    option("scale", float, 1.0, "Factor for the parameters and statistics of all components"),
    option("prepare-for-test", bool, False, "Set batch-norm and dropout test mode, and collapse the network"),
)


@kaldi_command("nnet3-copy", group="Models", help="Copy a network; optionally edit, scale or convert it.", usage="""
Copy a network, with any changes that the options ask for. The input may be an acoustic model, whose network is taken.

Usage:  nnet3-copy [options] <nnet-in> <nnet-out>

e.g.:
 nnet3-copy --binary=false 0.raw text.raw
""", arguments=(2, 2), options=[
    *EDITING,
    option("batchnorm-test-mode", bool, False, "Batch-norm test mode of the copy, without --prepare-for-test"),
])
def copy(args: list[str], options: Options) -> int:
    """Copy a raw network."""
    from nnet3py.network.inference import prepare_for_test
    from nnet3py.network.model_file import read_nnet
    from nnet3py.network.whole_model import set_batchnorm_test_mode

    source, target = args
    nnet = read_nnet(source)
    _read_nnet_config(nnet, options)
    _set_learning_rate(nnet, options)
    _scale(nnet, options)
    _edit(nnet, options)
    if options.prepare_for_test:
        prepare_for_test(nnet)
    else:
        set_batchnorm_test_mode(nnet, options.batchnorm_test_mode)
    nnet.write(target, binary=options.binary)
    log.log(f"Copied raw neural net from {source} to {target}")
    return 0


@kaldi_command("nnet3-am-copy", group="Models", help="Copy an acoustic model; optionally edit it or take its network.",
               usage="""
Copy an acoustic model, with any changes that the options ask for, or only its network.

Usage:  nnet3-am-copy [options] <nnet-in> <nnet-out>

e.g.:
 nnet3-am-copy --binary=false 1.mdl text.mdl
 nnet3-am-copy --raw=true 1.mdl 1.raw
""", arguments=(2, 2), options=[
    *EDITING,
    option("raw", bool, False, "Write only the raw network"),
    option("set-raw-nnet", str, "", "Name of a raw network to take instead of the model's own"),
    option("convert-repeated-to-block", bool, False, "Turn RepeatedAffineComponents into BlockAffineComponents"),
])
def am_copy(args: list[str], options: Options) -> int:
    """Copy an acoustic model, or its network."""
    from nnet3py.acoustic_model import read_model
    from nnet3py.network.inference import prepare_for_test
    from nnet3py.network.whole_model import convert_repeated_to_block_affine

    source, target = args
    model = read_model(source)
    if options.set_raw_nnet:
        _set_raw_nnet(model, options.set_raw_nnet)
    nnet = model.nnet
    _read_nnet_config(nnet, options)
    if options.convert_repeated_to_block:
        convert_repeated_to_block_affine(nnet)
    _set_learning_rate(nnet, options)
    _edit(nnet, options)
    _scale(nnet, options)
    if options.prepare_for_test:
        prepare_for_test(nnet)
    if options.raw:
        nnet.write(target, binary=options.binary)
        log.log(f"Copied neural net from {source} to raw format as {target}")
    else:
        model.write(target, binary=options.binary)
        log.log(f"Copied neural net from {source} to {target}")
    return 0


def _set_raw_nnet(model: AcousticModel, path: str) -> None:
    from nnet3py.acoustic_model import check_is_simple
    from nnet3py.network.model_file import read_nnet

    model.nnet = read_nnet(path)
    check_is_simple(model.nnet)
    output_dim = model.nnet.output_dim("output")
    if model.priors.size not in (0, output_dim):
        log.warning(f"Removing priors since there is a dimension mismatch after changing the nnet: {model.priors.size} "
                    f"vs. {output_dim}")
        model.priors = model.priors[:0]


def _read_nnet_config(nnet: Nnet, options: Options) -> None:
    if options.nnet_config:
        nnet.read_config(read_config_text(options.nnet_config), path=options.nnet_config)


def _set_learning_rate(nnet: Nnet, options: Options) -> None:
    from nnet3py.network.whole_model import set_learning_rate

    if options.learning_rate >= 0.0:
        set_learning_rate(nnet, options.learning_rate)


def _scale(nnet: Nnet, options: Options) -> None:
    if options.scale != 1.0:
        nnet.scale(options.scale)


def _edit(nnet: Nnet, options: Options) -> None:
    from nnet3py.network.edits import apply_edits, edits_of_option

    if options.edits_config:
        apply_edits(nnet, read_config_text(options.edits_config), options.edits_config)
    if options.edits:
        apply_edits(nnet, edits_of_option(options.edits), "--edits")
