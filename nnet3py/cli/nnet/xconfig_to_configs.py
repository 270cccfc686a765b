"""xconfig-to-configs: an xconfig file becomes the config files of a network. Kaldi: steps/nnet3/xconfig_to_configs.py.

Besides the config files it writes the networks that they make and ``vars``, the context that training drivers ask for.
"""
from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, command_echo, option
from nnet3py.errors import ConfigError, UsageError, within

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet
    from nnet3py.xconfig import Expansion

CONTENTS = {
    "init.config": "the network from which a fixed transform is estimated",
    "ref.config": "the whole network, with random values for fixed transforms: to find out its contexts",
    "final.config": "the whole network, with fixed transforms from their files",
}


@kaldi_command("xconfig-to-configs", group="Models", help="Turn a list of layers into configs.", usage="""
Turn an xconfig file, in which each line is a layer, into config files for nnet3-init: ref.config, final.config and,
if a layer such as fixed-affine-layer asks for it, init.config. It also writes xconfig and xconfig.expanded.* (what was
read, with all options), the networks ref.raw and init.raw, and vars (the network's left and right context).

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
    """Write the config files of a network."""
    from nnet3py.cli.nnet.config_text import read_config_text
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
    """Write everything that follows from the xconfig alone; an older init.config is removed."""
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
    """Make ref.raw and init.raw, and write the context of the former to vars; the latter's may not be larger."""
    from nnet3py.compiler.build_graph import compute_simple_nnet_context
    from nnet3py.io.streams import write_text

    ref = make_network(folder, "ref", existing, edits)
    if not ref.is_simple():
        raise ConfigError("the context of this network cannot be measured: it needs an input called 'input', an output "
                          f"called 'output', and no other input but 'ivector' [{os.path.join(folder, 'ref.config')}]",
                          "a line such as 'output name=output input=LAYER' makes the output of one layer that one")
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
    """The network that a config makes of the existing one, written as ``name``.raw, then edited."""
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
