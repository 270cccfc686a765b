"""Making, describing, editing and averaging networks.

nnet3-init, xconfig-to-configs, nnet3-info, nnet3-am-info, nnet3-inspect, nnet3-copy, nnet3-am-copy and nnet3-average.
"""
from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import BINARY, Options, command_echo, float_list, option
from nnet3py.errors import ConfigError, UsageError, within

if TYPE_CHECKING:
    from nnet3py.acoustic_model import AcousticModel
    from nnet3py.network.nnet import Nnet
    from nnet3py.xconfig import Expansion


def read_config_text(path: str) -> str:
    """Return the text of a config file; ConfigError for a file that is not UTF-8 text."""
    from nnet3py.io.streams import complete_input

    with complete_input(path) as stream:
        data = stream.without_mark().read()
    try:
        if data.startswith(b"\0B"):
            raise ConfigError(f"expected a config file, found binary data in {path}", "are the arguments in order?")
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the config file {path} is not UTF-8 text (byte {error.start})") from None


@kaldi_command("nnet3-init", "Models", "Make a network from a config file, or extend an existing one.", """
Make a network from a config file. With an existing network, its nodes and components are kept, except those that the
config file defines anew.

Usage:  nnet3-init [options] [<existing-model-in>] <config-in> <raw-nnet-out>

e.g.:
 nnet3-init nnet.config 0.raw
or: nnet3-init 1.raw nnet.config 2.raw
""", arguments=(2, 3), options=[
    BINARY,
    option("srand", int, 0, "Seed for random number generator"),
])
def init(args: list[str], options: Options) -> int:
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


CONTENTS = {
    "init.config": "the network in front of a fixed transform, for estimating the transform",
    "ref.config": "the whole network, with random values for fixed transforms, for measuring its context",
    "final.config": "the whole network, with fixed transforms from their files",
}


@kaldi_command("xconfig-to-configs", "Models", "Turn an xconfig file of layers into config files.", """
Turn an xconfig file, in which each line is a layer, into config files for nnet3-init: ref.config, final.config and,
if a layer such as fixed-affine-layer needs it, init.config. Also written are xconfig (a copy), xconfig.expanded.* (the
layers with all their options), the networks ref.raw and init.raw, and vars (the network's left and right context, for
training drivers).

Usage:  xconfig-to-configs --xconfig-file=<file> --config-dir=<dir> [options]

e.g.:
 xconfig-to-configs --xconfig-file network.xconfig --config-dir exp/tdnn/configs
""", arguments=(0, 0), detached_values=True, options=[
    option("xconfig-file", str, "", "The xconfig file to read"),
    option("config-dir", str, "", "The folder to write to; made if it is not there"),
    option("existing-model", str, "", "A network or acoustic model to build on; its nodes may be inputs of layers"),
    option("nnet-edits", str, "", "Edit directives, as for nnet3-copy --edits, applied before contexts are measured"),
])
def xconfig_to_configs(args: list[str], options: Options) -> int:
    from nnet3py.network.model_file import read_nnet
    from nnet3py.xconfig import existing_nodes, expand

    for name in ("xconfig-file", "config-dir"):
        if not options[name]:
            raise UsageError(f"--{name} is required", "run with --help for an example")
    existing = read_nnet(options.existing_model) if options.existing_model else None
    text = read_config_text(options.xconfig_file)
    expansion = expand(text, options.xconfig_file, existing_nodes(existing) if existing is not None else ())
    folder = options.config_dir
    os.makedirs(folder, exist_ok=True)
    names = [name for name in ("xconfig-file", "config-dir", "existing-model", "nnet-edits") if options[name]]
    command = command_echo("xconfig-to-configs", [f"--{name}={options[name]}" for name in names])
    write_configs(folder, text, expansion, " ".join(command.split()))
    write_contexts(folder, existing, options.nnet_edits)
    log.log(f"Wrote configs of {len(expansion.layers)} layers to {folder}")
    return 0


def write_configs(folder: str, text: str, expansion: Expansion, command: str) -> None:
    """Write the files xconfig, xconfig.expanded.1 and .2, and the config files of an expanded xconfig.

    An init.config from before is removed if there is none now. ``command`` is quoted in each file.
    """
    from nnet3py.io.streams import write_text

    head = f"# Made by this command:\n# {command}\n"
    write_text(os.path.join(folder, "xconfig"), f"{head}# from this file:\n{text}")
    write_text(os.path.join(folder, "xconfig.expanded.1"),
               f"{head}# The layers with all of their options.\n{expansion.with_options}")
    write_text(os.path.join(folder, "xconfig.expanded.2"),
               f"{head}# The layers with all of their options, and inputs written out.\n{expansion.normalized}")
    for path, content in expansion.files.items():
        write_text(path, content)
    configs = {"init.config": expansion.init, "ref.config": expansion.ref, "final.config": expansion.final}
    for name, lines in configs.items():
        if lines is not None:
            write_text(os.path.join(folder, name), f"{head}# It holds {CONTENTS[name]}.\n\n{lines}")
    if expansion.init is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, "init.config"))


def write_contexts(folder: str, existing: Nnet | None, edits: str) -> None:
    """Make ref.raw and, if there is an init.config, init.raw; write the context of ref.raw to the file vars.

    Raises ConfigError if the network of init.config has a larger context.
    """
    from nnet3py.compiler.build_graph import compute_simple_nnet_context
    from nnet3py.io.streams import write_text

    ref = make_network(folder, "ref", existing, edits)
    if not ref.is_simple():
        raise ConfigError("the context of this network cannot be measured: it needs an input called 'input', an output "
                          f"called 'output', and no other input but 'ivector' [{os.path.join(folder, 'ref.config')}]",
                          "a line such as 'output name=output input=LAYER' makes the output of a layer the output")
    left, right = compute_simple_nnet_context(ref)
    init_config = os.path.join(folder, "init.config")
    if os.path.exists(init_config):
        init = make_network(folder, "init", existing, edits)
        if init.is_simple():
            init_left, init_right = compute_simple_nnet_context(init)
            if init_left > left or init_right > right:
                raise ConfigError(f"the network in {init_config} has a context of {init_left} and "
                                  f"{init_right} frames, more than the whole network's {left} and {right}",
                                  "use delay= in the fixed-affine-layer to shift its output")
    write_text(os.path.join(folder, "vars"), f"model_left_context={left}\nmodel_right_context={right}\n")


def make_network(folder: str, name: str, existing: Nnet | None, edits: str) -> Nnet:
    """Make a network from ``name``.config, or extend a copy of ``existing``; write it as ``name``.raw.

    Returns the network after ``edits``, which are not in the file.
    """
    from nnet3py.network.edits import apply_edits, edits_of_option
    from nnet3py.network.nnet import Nnet

    config = os.path.join(folder, f"{name}.config")
    nnet = existing.copy() if existing is not None else Nnet()
    with within(f"making a network of {config}"), open(config, encoding="utf-8") as stream:
        nnet.read_config(stream.read(), path=config)
    nnet.write(os.path.join(folder, f"{name}.raw"))
    if edits:
        apply_edits(nnet, edits_of_option(edits), "--nnet-edits")
    return nnet


@kaldi_command("nnet3-info", "Models", "Print a description of a network.", """
Print a description of a network: left and right context, number of parameters, nodes and components.

Usage:  nnet3-info [options] <raw-nnet>

e.g.:
 nnet3-info 0.raw
""", arguments=(1, 1))
def info(args: list[str], options: Options) -> int:
    from nnet3py.io.streams import write_text
    from nnet3py.model_info import info as describe
    from nnet3py.network.model_file import read_nnet

    write_text("-", describe(read_nnet(args[0]), verbose=options.verbose))
    return 0


@kaldi_command("nnet3-am-info", "Models", "Print a description of an acoustic model.", """
Print a description of an acoustic model: dimensions and priors, then the network.

Usage:  nnet3-am-info [options] <nnet>

e.g.:
 nnet3-am-info 0.mdl
""", arguments=(1, 1))
def am_info(args: list[str], options: Options) -> int:
    from nnet3py.acoustic_model import read_model
    from nnet3py.io.streams import write_text
    from nnet3py.model_info import acoustic_model_info

    write_text("-", acoustic_model_info(read_model(args[0]), verbose=options.verbose))
    return 0


@kaldi_command("nnet3-inspect", "Start here", "Show the contents of a model or its folder, and what is missing.", """
Show the contents of a model or a model folder, and which files are missing for computing outputs, training, decoding or
recognizing sound with this model. The folder may be of a training, with final.mdl, or of a model published for
recognition, with am/final.mdl.

Usage:  nnet3-inspect [options] <model-or-folder>

e.g.:
 nnet3-inspect final.mdl
 nnet3-inspect --json exp/chain/tdnn
""", arguments=(1, 1), options=[
    option("json", bool, False, "Print JSON instead of a table"),
])
def inspect(args: list[str], options: Options) -> int:
    from nnet3py.inspection import inspect as look
    from nnet3py.io.streams import write_text

    inspection = look(args[0])
    if options.json:
        import json

        write_text("-", json.dumps(inspection.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        write_text("-", inspection.text())
    return 0


EDITING = (
    BINARY,
    option("learning-rate", float, -1.0, "If 0 or more, the learning rate of all updatable components, to be "
           "multiplied by their learning-rate-factor (below 0: unchanged)"),
    option("nnet-config", str, "", "Name of a config file with nodes and components to add or to replace"),
    option("edits-config", str, "", "Name of a file of edit directives"),
    option("edits", str, "", "Edit directives separated by ';', such as --edits='remove-orphans; rename-node ...'"),
    option("scale", float, 1.0, "Factor for the parameters and statistics of all components"),
    option("prepare-for-test", bool, False, "Set batch-norm and dropout test mode, and merge components if possible"),
)


@kaldi_command("nnet3-copy", "Models", "Copy a network; optionally edit, scale or convert it.", """
Copy a network, changed as the options say. Of an acoustic model, the network is copied.

Usage:  nnet3-copy [options] <nnet-in> <nnet-out>

e.g.:
 nnet3-copy --binary=false 0.raw text.raw
""", arguments=(2, 2), options=[
    *EDITING,
    option("batchnorm-test-mode", bool, False, "Batch-norm test mode of the copy, without --prepare-for-test"),
])
def copy(args: list[str], options: Options) -> int:
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


@kaldi_command("nnet3-am-copy", "Models", "Copy an acoustic model; optionally edit it or take its network.", """
Copy an acoustic model, changed as the options say, or (--raw=true) only its network.

Usage:  nnet3-am-copy [options] <nnet-in> <nnet-out>

e.g.:
 nnet3-am-copy --binary=false 1.mdl text.mdl
 nnet3-am-copy --raw=true 1.mdl 1.raw
""", arguments=(2, 2), options=[
    *EDITING,
    option("raw", bool, False, "Write only the raw network"),
    option("set-raw-nnet", str, "", "Name of a raw network that replaces the model's own"),
    option("convert-repeated-to-block", bool, False, "Turn RepeatedAffineComponents into BlockAffineComponents"),
])
def am_copy(args: list[str], options: Options) -> int:
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


@kaldi_command("nnet3-average", "Models", "Average the parameters of several networks.", """
Write a network whose parameters and statistics are weighted averages of those of several networks of the same
structure.

Usage:  nnet3-average [options] <model1> <model2> ... <modelN> <model-out>

e.g.:
 nnet3-average 1.1.nnet 1.2.nnet 1.3.nnet 2.nnet
""", arguments=(2, None), options=[
    BINARY,
    option("weights", str, "", "Weights of the models, separated by colons and scaled to a sum of one (empty: equal)"),
    option("num-threads", int, -1, "No effect: models are averaged one after another"),
])
def average(args: list[str], options: Options) -> int:
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.averaging import average_nnets, normalized_weights

    *sources, target = args
    weights = normalized_weights(float_list(options.weights, "--weights") or None, len(sources))
    result = average_nnets(((source, read_nnet(source)) for source in sources), weights)
    result.write(target, binary=options.binary)
    log.log(f"Averaged parameters of {len(sources)} neural nets, and wrote to {target}")
    return 0
