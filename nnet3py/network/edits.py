"""Edit directives: the small language of ``nnet3-copy --edits``. Kaldi: ``ReadEditConfig`` of ``nnet-utils.cc``."""
from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nnet3py.config_line import ConfigLine, did_you_mean, is_valid_name, parse_config_lines
from nnet3py.network.any_model import AnyModel, network_of
from nnet3py.network.config_reader import INPUT_SUFFIX
from nnet3py.network.nnet import Nnet
from nnet3py.network.orphans import remove_nodes, remove_orphan_components, remove_orphan_nodes, remove_orphans
from nnet3py.network.svd import apply_svd, reduce_rank
from nnet3py.network.whole_model import DROPOUT_TYPES, is_a, name_matcher

logger = logging.getLogger(__name__)


def apply_edits(nnet: AnyModel, text: str, path: str | None = None) -> None:
    """Run edit directives on the network, in place and in order: the language of ``nnet3-copy --edits``.

    >>> nnet3py.apply_edits(nnet, "set-learning-rate-factor name=tdnn1* learning-rate-factor=0")

    Parameters
    ----------
    nnet : a network, or an acoustic model; changed in place
    text : a directive per line, each a word and ``key=value`` pairs; a ``#`` begins a comment
    path : where the text comes from, for messages

    Raises
    ------
    ConfigError : a directive that does not exist, lacks a key or has one too many; earlier ones have been done by then
    """
    nnet = network_of(nnet)
    for line in parse_config_lines(text, path):
        directive = DIRECTIVES.get(line.first_token)
        if directive is None:
            raise line.error(f"Directive '{line.first_token}' is not currently supported (reading edit-config).",
                             did_you_mean(line.first_token, list(DIRECTIVES))
                             or f"directives are {', '.join(DIRECTIVES)}")
        directive(nnet, line)
        if line.unused_values():
            raise line.error(f"Could not interpret '{line.unused_values()}' in edit config line {line.whole_line}")


def edits_of_option(value: str) -> str:
    """The directives in the value of ``--edits``, where ``;`` stands for a newline."""
    return value.replace(";", "\n")


def _required(line: ConfigLine, *keys: str) -> None:
    missing = [key for key in keys if not line.has(key)]
    if missing:
        raise line.error(f"In edits-config, expected {' and '.join(f'{key}=' for key in missing)} to be set in line: "
                         f"{line.whole_line}")


def _matching(nnet: Nnet, line: ConfigLine, *type_names: str) -> Iterator[tuple[int, Any]]:
    """Index and component of those whose names match ``name=`` (default ``*``) and that have one of these types."""
    matcher = name_matcher(line.get_string("name", "*"))
    for c, name in enumerate(nnet.component_names):
        if matcher.match(name) and is_a(nnet.components[c], *type_names):
            yield c, nnet.components[c]


# -- the directives ----------------------------------------------------------------------------------------------------


def _convert_to_fixed_affine(nnet: Nnet, line: ConfigLine) -> None:
    from nnet3py.components.affine import FixedAffineComponent

    count = 0
    for c, component in _matching(nnet, line, "AffineComponent"):
        nnet.components[c] = FixedAffineComponent(component.linear_params, component.bias_params)
        count += 1
    nnet.structure_changed()
    logger.info("Converted %d components to FixedAffineComponent.", count)


def _remove_orphan_nodes(nnet: Nnet, line: ConfigLine) -> None:
    remove_orphan_nodes(nnet, line.get_bool("remove-orphan-inputs", False))


def _remove_orphan_components(nnet: Nnet, line: ConfigLine) -> None:
    remove_orphan_components(nnet)


def _remove_orphans(nnet: Nnet, line: ConfigLine) -> None:
    remove_orphans(nnet, line.get_bool("remove-orphan-inputs", False))


def _set_learning_rate(nnet: Nnet, line: ConfigLine) -> None:
    _required(line, "learning-rate")
    rate, count = line.get_float("learning-rate"), 0
    for _, component in _matching(nnet, line, "UpdatableComponent"):
        component.set_underlying_learning_rate(rate)
        count += 1
    nnet.structure_changed()         # since the compiler leaves out derivatives for a rate of 0
    logger.info("Set learning rates for %d components.", count)


def _set_learning_rate_factor(nnet: Nnet, line: ConfigLine) -> None:
    _required(line, "learning-rate-factor")
    factor, count = float(np.float32(line.get_float("learning-rate-factor"))), 0
    for _, component in _matching(nnet, line, "UpdatableComponent"):
        component.learning_rate_factor = factor
        count += 1
    logger.info("Set learning rate factors for %d components.", count)


def _rename_node(nnet: Nnet, line: ConfigLine) -> None:
    _required(line, "old-name", "new-name")
    old, new = line.get_string("old-name"), line.get_string("new-name")
    names = nnet.node_names
    renamable = [name for i, name in enumerate(names) if not nnet.is_component_input(i)]
    if old not in renamable:
        raise line.error(f"Could not rename node from {old} to {new} because there is no node called {old}",
                         did_you_mean(old, renamable))
    if not is_valid_name(new):
        raise line.error(f"Node name '{new}' is not allowable, in line: {line.whole_line}",
                         "a letter or '_', then letters, digits, '_', '-' and '.'")
    if new in names or (nnet.is_component(names.index(old)) and new + INPUT_SUFFIX in names):
        raise line.error(f"Node of requested name {new} already exists, cannot rename {old}")
    i = names.index(old)
    nnet.nodes[i].name = new
    if nnet.is_component(i):
        nnet.nodes[i - 1].name = new + INPUT_SUFFIX
    nnet.structure_changed()


def _remove_output_nodes(nnet: Nnet, line: ConfigLine) -> None:
    _required(line, "name")
    matcher = name_matcher(line.get_string("name"))
    outputs = [i for i in range(len(nnet.nodes)) if nnet.is_output(i)]
    removed = [i for i in outputs if matcher.match(nnet.nodes[i].name)]
    if len(removed) == len(outputs):
        raise line.error("All outputs were removed.", f"the outputs are "
                         f"{', '.join(nnet.nodes[i].name for i in outputs)}")
    logger.info("Removing %d output nodes.", len(removed))
    remove_nodes(nnet, removed)


def _set_dropout_proportion(nnet: Nnet, line: ConfigLine) -> None:
    _required(line, "proportion")
    proportion, count = float(np.float32(line.get_float("proportion"))), 0
    for _, component in _matching(nnet, line, *DROPOUT_TYPES):
        component.dropout_proportion = proportion
        count += 1
    nnet.structure_changed()
    logger.info("Set dropout proportions for %d components.", count)


def _apply_svd(nnet: Nnet, line: ConfigLine) -> None:
    _required(line, "name")
    bottleneck_dim, energy = line.get_int("bottleneck-dim", -1), line.get_float("energy-threshold", -1.0)
    shrinkage = line.get_float("shrinkage-threshold", 1.0)
    if bottleneck_dim <= 0 and energy <= 0.0:
        raise line.error("Either Bottleneck-dim or energy-threshold must be set in apply-svd command.",
                         f"in line: {line.whole_line}")
    if energy >= 1.0 or shrinkage >= 1.0:
        raise line.error(f"energy-threshold={energy:g} and shrinkage-threshold={shrinkage:g} must be below 1",
                         "give shrinkage-threshold, which is 1 by default, for example 0.99")
    matcher = name_matcher(line.get_string("name"))
    apply_svd(nnet, [c for c, name in enumerate(nnet.component_names) if matcher.match(name)], bottleneck_dim, energy,
              shrinkage)


def _reduce_rank(nnet: Nnet, line: ConfigLine) -> None:
    _required(line, "name", "rank")
    rank = line.get_int("rank")
    if rank <= 0:
        raise line.error(f"Rank must be positive in reduce-rank command: {line.whole_line}")
    matcher = name_matcher(line.get_string("name"))
    reduce_rank(nnet, [c for c, name in enumerate(nnet.component_names) if matcher.match(name)], rank)


DIRECTIVES: dict[str, Callable[[Nnet, ConfigLine], None]] = {
    "convert-to-fixed-affine": _convert_to_fixed_affine,
    "remove-orphan-nodes": _remove_orphan_nodes,
    "remove-orphan-components": _remove_orphan_components,
    "remove-orphans": _remove_orphans,
    "set-learning-rate": _set_learning_rate,
    "set-learning-rate-factor": _set_learning_rate_factor,
    "rename-node": _rename_node,
    "remove-output-nodes": _remove_output_nodes,
    "set-dropout-proportion": _set_dropout_proportion,
    "apply-svd": _apply_svd,
    "reduce-rank": _reduce_rank,
}
