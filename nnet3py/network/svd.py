"""Fewer parameters through singular value decomposition: affine components split in two, or reduced in rank.

Kaldi: the ``apply-svd`` and ``reduce-rank`` directives (``SvdApplier``, ``ReduceRankOfComponents``).
"""
from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnet3py.components.base import Component
from nnet3py.errors import ConfigError
from nnet3py.network.nnet import Nnet
from nnet3py.network.nodes import ComponentNode, DescriptorNode, DimRangeNode
from nnet3py.network.orphans import remove_orphans
from nnet3py.network.whole_model import is_a

logger = logging.getLogger(__name__)

RANK_IN, RANK_OUT, LINEAR_RANK_IN, LINEAR_RANK_OUT = 20, 80, 40, 80      # of the new components' natural gradient
UPDATE_PERIOD, NUM_SAMPLES_HISTORY, ALPHA = 4, 2000.0, 4.0


def apply_svd(nnet: Nnet, indexes: Sequence[int], bottleneck_dim: int, energy_threshold: float,
              shrinkage_threshold: float) -> None:
    """Replace affine components by a linear and an affine one with a smaller dimension between them, in place.

    Parameters
    ----------
    indexes : of the components
    bottleneck_dim : that dimension; ignored if ``energy_threshold`` is given
    energy_threshold : keep the fewest singular values whose squares sum to this share of the total; 0 or less: off
    shrinkage_threshold : leave a component alone if it would not get smaller than this share of its parameters

    Raises
    ------
    ConfigError : the name of a new component or node is taken
    """
    decomposed: dict[int, tuple[int, int]] = {}
    new: list[tuple[Component, Component]] = []
    for c in indexes:
        name, component = nnet.component_names[c], nnet.components[c]
        if not is_a(component, "AffineComponent"):
            logger.warning("Not decomposing component %s as it is not an AffineComponent.", name)
            continue
        if component.input_dim <= bottleneck_dim or component.output_dim <= bottleneck_dim:
            logger.warning("Not decomposing component %s with SVD to rank %d because its dimension is %d -> %d",
                           name, bottleneck_dim, component.input_dim, component.output_dim)
            continue
        factors = np.linalg.svd(component.linear_params, full_matrices=False)    # type: ignore[attr-defined]
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


def _check_names(nnet: Nnet, c: int) -> None:
    """Raise ConfigError if a name that decomposed component ``c`` or its nodes need is taken."""
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
    """How many of the largest singular values make up ``threshold`` of the sum of squares."""
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
    """The linear and the affine component whose product is the decomposed one."""
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
    """Replace each node of a decomposed component by two: ``<node>_a`` with its input, and ``<node>_b`` after it."""
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
    """Reduce the matrices of affine components to at most this rank, in place."""
    count = 0
    for c in indexes:
        name, component = nnet.component_names[c], nnet.components[c]
        if not is_a(component, "AffineComponent"):
            logger.warning("Not reducing rank of component %s as it is not an AffineComponent.", name)
            continue
        if min(component.input_dim, component.output_dim) <= rank:
            logger.warning("Not reducing rank of component %s with SVD to rank %d because its dimension is %d -> %d",
                           name, rank, component.input_dim, component.output_dim)
            continue
        weights = component.linear_params       # type: ignore[attr-defined]
        left, singular_values, right = np.linalg.svd(weights, full_matrices=False)
        weights[...] = (left[:, :rank] * singular_values[:rank]) @ right[:rank]
        logger.info("For component %s singular value sum changed by reduce-rank command from %.6g to %.6g", name,
                    singular_values.sum(), singular_values[:rank].sum())
        count += 1
    logger.info("Reduced rank of parameters of %d components.", count)
