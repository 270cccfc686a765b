"""Edit directives, the language of ``nnet3-copy --edits``, and the singular value decompositions of two of them.

Kaldi: ``ReadEditConfig``, ``SvdApplier``, ``ReduceRankOfComponents`` of ``nnet-utils.cc``.
"""
from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from nnet3py.components.base import Component
from nnet3py.config_line import ConfigLine, did_you_mean, is_valid_name, parse_config_lines
from nnet3py.errors import ConfigError
from nnet3py.network.model_file import AnyModel, network_of
from nnet3py.network.nnet import Nnet
from nnet3py.network.nnet_io import INPUT_SUFFIX
from nnet3py.network.structure import (
    ComponentNode,
    DescriptorNode,
    DimRangeNode,
    remove_nodes,
    remove_orphan_components,
    remove_orphan_nodes,
    remove_orphans,
)
from nnet3py.network.whole_model import DROPOUT_TYPES, is_a, name_matcher

logger = logging.getLogger(__name__)

# Natural gradient of the components that a decomposition makes.
RANK_IN, RANK_OUT, LINEAR_RANK_IN, LINEAR_RANK_OUT = 20, 80, 40, 80
UPDATE_PERIOD, NUM_SAMPLES_HISTORY, ALPHA = 4, 2000.0, 4.0


def apply_svd(nnet: Nnet, indexes: Sequence[int], bottleneck_dim: int, energy_threshold: float,
              shrinkage_threshold: float) -> None:
    """Replace affine components by a linear and an affine one with a smaller dimension between them, in place.

    Raises ConfigError if a component or node has the name of a new one already.

    Parameters
    ----------
    indexes : indexes of the components
    bottleneck_dim : dimension between the two; ignored if ``energy_threshold`` is positive
    energy_threshold : fraction of the sum of squared singular values that the kept ones must reach; 0 or less: unused
    shrinkage_threshold : components are only decomposed if that leaves at most this fraction of their parameters
    """
    decomposed: dict[int, tuple[int, int]] = {}
    new: list[tuple[Component, Component]] = []
    for c in indexes:
        component: Any = nnet.components[c]
        if _is_left_out(nnet, c, bottleneck_dim, "decomposing"):
            continue
        factors = np.linalg.svd(component.linear_params, full_matrices=False)
        if energy_threshold > 0.0:
            # Kaldi keeps this dimension for the size test of the components that follow.
            bottleneck_dim = _dim_of_energy(factors[1], energy_threshold)
        if _shrinks(component, factors[1], bottleneck_dim, shrinkage_threshold):
            _check_names(nnet, c)
            decomposed[c] = len(nnet.components) + 2 * len(new), len(nnet.components) + 2 * len(new) + 1
            new.append(_factors(component, factors, bottleneck_dim))
    logger.info("Converted %d components to FixedAffineComponent.", len(decomposed))   # Kaldi's wording
    if decomposed:
        for c, pair in zip(decomposed, new, strict=True):
            nnet.component_names += [f"{nnet.component_names[c]}_a", f"{nnet.component_names[c]}_b"]
            nnet.components += pair
        _replace_nodes(nnet, decomposed)
        remove_orphans(nnet)
    logger.info("Decomposed %d components with SVD dimension %d", len(decomposed), bottleneck_dim)


def _is_left_out(nnet: Nnet, c: int, rank: int, doing: str) -> bool:
    """Return whether component ``c`` is not affine, or has no dimension above ``rank``; warn in that case."""
    name, component = nnet.component_names[c], nnet.components[c]
    if not is_a(component, "AffineComponent"):
        logger.warning("Not %s component %s as it is not an AffineComponent.", doing, name)
        return True
    if min(component.input_dim, component.output_dim) > rank:
        return False
    logger.warning("Not %s component %s with SVD to rank %d because its dimension is %d -> %d", doing, name, rank,
                   component.input_dim, component.output_dim)
    return True


def _check_names(nnet: Nnet, c: int) -> None:
    """Raise ConfigError if the new names for component ``c`` and its nodes exist already."""
    users = [node.name for node in nnet.nodes if isinstance(node, ComponentNode) and node.component_index == c]
    for suffix in ("_a", "_b"):
        if nnet.component_names[c] + suffix in nnet.component_names:
            raise ConfigError(f"Neural network already has a component named {nnet.component_names[c]}{suffix}",
                              "rename it, or leave this component out of apply-svd")
        for user in users:
            if user + suffix in nnet.node_names:
                raise ConfigError(f"the network already has a node named {user}{suffix}",
                                  "rename it, or leave its component out of apply-svd")


def _dim_of_energy(singular_values: np.ndarray, threshold: float) -> int:
    """Return how many of the largest singular values have squares that sum to ``threshold`` times the sum of all."""
    energy = np.cumsum(singular_values ** 2, dtype=np.float32)
    return min(int(np.searchsorted(energy, np.float32(threshold) * energy[-1])) + 1, len(energy))


def _shrinks(component: Any, singular_values: np.ndarray, dim: int, threshold: float) -> bool:
    input_dim, output_dim = component.input_dim, component.output_dim
    squares = singular_values ** 2
    logger.info("For this svd operation, the squared singular values sum to %.6g, %.6g of them kept; dimension is "
                "reduced from %d to %d", squares.sum(), squares[:dim].sum(), len(singular_values), dim)
    ratio = dim * (input_dim + output_dim) / (input_dim * output_dim)
    logger.info("Shrinkage ratio is %.6g", ratio)
    if ratio > threshold:
        logger.info("Shrinkage ratio %.6g greater than threshold : %.6g Skipping SVD for this layer.", ratio, threshold)
    return bool(ratio <= threshold)


def _factors(component: Any, factors: tuple[np.ndarray, np.ndarray, np.ndarray],
             dim: int) -> tuple[Component, Component]:
    """Return the linear and the affine component whose product approximates the decomposed one."""
    from nnet3py.components.affine import LinearComponent, NaturalGradientAffineComponent
    from nnet3py.components.natural_gradient import OnlineNaturalGradient

    def preconditioner(rank: int) -> OnlineNaturalGradient:
        return OnlineNaturalGradient(rank, UPDATE_PERIOD, NUM_SAMPLES_HISTORY, ALPHA)

    left, singular_values, right = factors
    roots = np.sqrt(singular_values[:dim])
    first = LinearComponent(np.ascontiguousarray(roots[:, None] * right[:dim]),
                            preconditioner(LINEAR_RANK_IN), preconditioner(LINEAR_RANK_OUT))
    second = NaturalGradientAffineComponent(np.ascontiguousarray(left[:, :dim] * roots), component.bias_params.copy(),
                                            preconditioner(RANK_IN), preconditioner(RANK_OUT))
    for new in (first, second):
        new.copy_settings(component)
    return first, second


def _replace_nodes(nnet: Nnet, decomposed: dict[int, tuple[int, int]]) -> None:
    """Replace each node of a decomposed component by ``<node>_a``, with the node's input, followed by ``<node>_b``."""
    shown = [f"{node.name}_b" if isinstance(node, ComponentNode) and node.component_index in decomposed else node.name
             for node in nnet.nodes]
    lines: list[str] = []
    for i, node in enumerate(nnet.nodes):
        if isinstance(node, ComponentNode) and node.component_index in decomposed:
            first, second = (nnet.component_names[c] for c in decomposed[node.component_index])
            text = nnet.descriptor_of(i - 1).descriptor.text(shown)
            lines.append(f"component-node name={node.name}_a component={first} input={text}")
            lines.append(f"component-node name={node.name}_b component={second} input={node.name}_a")
        elif isinstance(node, ComponentNode):
            text = nnet.descriptor_of(i - 1).descriptor.text(shown)
            lines.append(f"component-node name={node.name} component={nnet.component_names[node.component_index]} "
                         f"input={text}")
        elif isinstance(node, DescriptorNode) and nnet.is_output(i):
            lines.append(f"output-node name={node.name} input={node.descriptor.text(shown)} objective={node.objective}")
        elif isinstance(node, DimRangeNode):
            lines.append(f"dim-range-node name={node.name} input-node={shown[node.source]} "
                         f"dim-offset={node.dim_offset} dim={node.dim}")
    nnet.read_config("\n".join(lines))


def reduce_rank(nnet: Nnet, indexes: Sequence[int], rank: int) -> None:
    """Reduce the matrices of affine components to rank ``rank`` or less, in place."""
    count = 0
    for c in indexes:
        if _is_left_out(nnet, c, rank, "reducing rank of"):
            continue
        weights = nnet.components[c].linear_params       # type: ignore[attr-defined]
        left, singular_values, right = np.linalg.svd(weights, full_matrices=False)
        weights[...] = (left[:, :rank] * singular_values[:rank]) @ right[:rank]
        logger.info("For component %s singular value sum changed by reduce-rank command from %.6g to %.6g",
                    nnet.component_names[c], singular_values.sum(), singular_values[:rank].sum())
        count += 1
    logger.info("Reduced rank of parameters of %d components.", count)


def apply_edits(nnet: AnyModel, text: str, path: str | None = None) -> None:
    """Apply edit directives to a network, in place and in order: the language of ``nnet3-copy --edits``.

    >>> nnet3py.apply_edits(nnet, "set-learning-rate-factor name=tdnn1* learning-rate-factor=0")

    Parameters
    ----------
    nnet : network or acoustic model, changed in place
    text : directives, one per line, each a word and ``key=value`` pairs; ``#`` begins a comment
    path : source of the text, for error messages

    Raises
    ------
    ConfigError : an unknown directive, or a missing or unknown key; earlier directives have been applied by then
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
    """Return the directives of the value of ``--edits``, in which ``;`` stands for a newline."""
    return value.replace(";", "\n")


def _required(line: ConfigLine, *keys: str) -> None:
    missing = [key for key in keys if not line.has(key)]
    if missing:
        raise line.error(f"In edits-config, expected {' and '.join(f'{key}=' for key in missing)} to be set in line: "
                         f"{line.whole_line}")


def _matching(nnet: Nnet, line: ConfigLine, *type_names: str) -> Iterator[tuple[int, Any]]:
    """Yield index and component where the name matches ``name=`` (default ``*``) and the type is one of those named."""
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


def _set_learning_rate(nnet: Nnet, line: ConfigLine) -> None:
    _required(line, "learning-rate")
    rate, count = line.get_float("learning-rate"), 0
    for _, component in _matching(nnet, line, "UpdatableComponent"):
        component.set_underlying_learning_rate(rate)
        count += 1
    nnet.structure_changed()         # for a learning rate of 0 the compiler leaves out derivatives
    logger.info("Set learning rates for %d components.", count)


def _set(nnet: Nnet, line: ConfigLine, key: str, attribute: str, type_names: tuple[str, ...], what: str) -> None:
    """Set an attribute of the matching components of these types to the value of ``key``; log ``what`` was set."""
    _required(line, key)
    value, count = float(np.float32(line.get_float(key))), 0
    for _, component in _matching(nnet, line, *type_names):
        setattr(component, attribute, value)
        count += 1
    nnet.structure_changed()
    logger.info("Set %s for %d components.", what, count)


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
    "remove-orphan-nodes": lambda nnet, line: remove_orphan_nodes(nnet, line.get_bool("remove-orphan-inputs", False)),
    "remove-orphan-components": lambda nnet, line: remove_orphan_components(nnet),
    "remove-orphans": lambda nnet, line: remove_orphans(nnet, line.get_bool("remove-orphan-inputs", False)),
    "set-learning-rate": _set_learning_rate,
    "set-learning-rate-factor": lambda nnet, line: _set(
        nnet, line, "learning-rate-factor", "learning_rate_factor", ("UpdatableComponent",), "learning rate factors"),
    "rename-node": _rename_node,
    "remove-output-nodes": _remove_output_nodes,
    "set-dropout-proportion": lambda nnet, line: _set(
        nnet, line, "proportion", "dropout_proportion", DROPOUT_TYPES, "dropout proportions"),
    "apply-svd": _apply_svd,
    "reduce-rank": _reduce_rank,
}
