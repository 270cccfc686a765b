"""Operations on all components of a network at once: test modes, rates, statistics, the orthonormal constraint.

They see top-level components only, not those inside a CompositeComponent. Kaldi: ``nnet-utils.h``.
"""
from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nnet3py.components.base import Component, Components, Properties
from nnet3py.components.updatable import is_updatable
from nnet3py.errors import NumericError, UsageError
from nnet3py.network.any_model import AnyModel, network_of
from nnet3py.network.nnet import Nnet

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

logger = logging.getLogger(__name__)

RANDOM_TYPES = ("DropoutComponent", "DropoutMaskComponent", "GeneralDropoutComponent", "SpecAugmentTimeMaskComponent")
DROPOUT_TYPES = RANDOM_TYPES[:3]         # those with a dropout proportion

LEAST_RATIO = 0.9        # of squared singular values' mean square to squared mean; at least 1 apart from rounding


class ComponentArrays(Components, Protocol):
    """A network, or its store on a device."""

    def scale_components(self, factors: np.ndarray, /) -> None:
        """Multiply parameters and statistics of each component by its factor, in place."""


def is_a(component: Component, *type_names: str) -> bool:
    """True if the component is of one of these types or derived from it; needs no import of the types."""
    return any(cls.__name__ in type_names for cls in type(component).__mro__)


def components_of_type(nnet: Components, *type_names: str) -> Iterator[Any]:
    """The network's components of these types, or derived from them, in order."""
    return (component for component in nnet.components if is_a(component, *type_names))


@contextmanager
def compiled_form_may_change(nnet: Nnet) -> Iterator[None]:
    """Raise the network's version if what the compiler sees of the components has changed afterwards."""
    def seen() -> list[tuple[Properties, bool]]:
        return [(c.properties, getattr(c, "learning_rate", 1.0) != 0.0) for c in nnet.components]

    before = seen()
    yield
    if seen() != before:
        nnet.structure_changed()


def name_matcher(pattern: str) -> re.Pattern[str]:
    """A regular expression for a pattern in which ``*`` is any text, even none, and everything else is literal."""
    return re.compile(".*".join(re.escape(piece) for piece in pattern.split("*")) + r"\Z", re.DOTALL)


def has_batchnorm(nnet: Nnet) -> bool:
    """True if some component is a BatchNormComponent."""
    return any(components_of_type(nnet, "BatchNormComponent"))


def set_batchnorm_test_mode(nnet: AnyModel, test_mode: bool) -> None:
    """Let batch normalization use its stored statistics, or each minibatch's own, in place.

    Parameters
    ----------
    nnet : a network, or an acoustic model; changed in place
    test_mode : True: the stored ones
    """
    nnet = network_of(nnet)
    with compiled_form_may_change(nnet):
        for component in components_of_type(nnet, "BatchNormComponent"):
            component.set_test_mode(test_mode)


def set_dropout_test_mode(nnet: AnyModel, test_mode: bool) -> None:
    """Switch dropout and the like to expected values, or back, in place.

    Parameters
    ----------
    nnet : a network, or an acoustic model; changed in place
    test_mode : True: expected values
    """
    nnet = network_of(nnet)
    with compiled_form_may_change(nnet):
        for component in components_of_type(nnet, *RANDOM_TYPES):
            component.test_mode = test_mode


def set_dropout_proportion(nnet: Nnet, proportion: float) -> None:
    """Set the proportion of all dropout components, in place."""
    with compiled_form_may_change(nnet):
        for component in components_of_type(nnet, *DROPOUT_TYPES):
            component.dropout_proportion = float(np.float32(proportion))


def set_learning_rate(nnet: AnyModel, rate: float, names: str = "*") -> None:
    """Set the learning rate of components, each to ``rate`` times its learning-rate factor, in place.

    Parameters
    ----------
    nnet : a network, or an acoustic model; changed in place
    rate : 0 or more
    names : a pattern of components' names, in which ``*`` is any text, even none

    Raises UsageError for a rate that is no number.
    """
    nnet = network_of(nnet)
    if not isinstance(rate, int | float | np.number):
        raise UsageError(f"rate={rate!r}: expected a number",
                         "the rate comes first: set_learning_rate(nnet, 0.001, 'tdnn1*')")
    matcher = name_matcher(names)
    with compiled_form_may_change(nnet):
        for name, component in nnet.named_components():
            if is_updatable(component) and matcher.match(name):
                component.set_underlying_learning_rate(rate)


def scale_batchnorm_stats(nnet: ComponentArrays, factor: float) -> None:
    """Scale the statistics of batch normalization, in place; ``factor`` is between 0 and 1."""
    if not 0.0 <= factor <= 1.0:
        raise UsageError(f"batch-norm statistics cannot be scaled by {factor:g}; the factor is between 0 and 1")
    if factor != 1.0:
        nnet.scale_components(np.array([factor if is_a(component, "BatchNormComponent") else 1.0
                                        for component in nnet.components]))


def zero_component_stats(nnet: Nnet) -> None:
    """Set the statistics of all components to zero, in place (batch normalization's only outside test mode)."""
    for component in nnet.components:
        component.zero_stats()


def freeze_natural_gradient(nnet: Nnet, freeze: bool) -> None:
    """Stop natural gradient from adapting to the data, or let it resume, in place."""
    for component in components_of_type(nnet, "UpdatableComponent"):
        component.freeze_natural_gradient(freeze)


def convert_repeated_to_block_affine(nnet: Nnet) -> None:
    """Replace each RepeatedAffineComponent, or one derived from it, by an equal BlockAffineComponent, in place.

    Types that can be converted, or hold others that can, have a method ``as_block_affine()`` for this.
    """
    for c, component in enumerate(nnet.components):
        if hasattr(component, "as_block_affine"):
            nnet.components[c] = component.as_block_affine()
            nnet.structure_changed()


# -- orthonormal constraint --------------------------------------------------------------------------------------------


def constrain_orthonormal(nnet: Components, draw: Callable[[], bool], ops: Ops) -> Callable[[], None]:
    """Move the matrices of constrained components a step towards equal singular values, in place.

    Parameters
    ----------
    draw : called once per constrained component, in order; True with probability 1/4: the step is taken
    ops : the operations of the device that has the network's arrays

    Returns
    -------
    A function to call when the device has finished: it checks the matrices, warns, and raises NumericError for one
    whose parameters are not finite, which was left unchanged.

    Components with the learning-rate factor 0 stay as they are, unlike in Kaldi: they are frozen.

    Kaldi: ConstrainOrthonormal. The step follows Povey et al., "Semi-orthogonal low-rank matrix factorization for deep
    neural networks", 2018.
    """
    ratios = []
    for name, component in zip(nnet.component_names, nnet.components, strict=True):
        constraint = getattr(component, "orthonormal_constraint", 0.0)
        if constraint != 0.0 and draw() and not getattr(component, "is_frozen", False):
            parameters = component.parameters()
            weights = parameters["linear_params"] if "linear_params" in parameters else parameters["params"]
            ratios.append((name, constrain_matrix(ops, weights, constraint)))

    def check() -> None:
        for name, ratio in ratios:
            check_ratio(float(ratio()[0]), name)

    return check


def constrain_matrix(ops: Ops, weights: DeviceArray, constraint: float) -> Callable[[], np.ndarray]:
    """One step of M towards M Mᵀ = s² I, in place; M is ``weights`` or its transpose, whichever has fewer rows.

    Parameters
    ----------
    weights : float32 (rows, cols), on the device of ``ops``
    constraint : s, or a negative number for the s that keeps the size of M

    Returns
    -------
    A function that waits for the ratio for :func:`check_ratio`, float32 (1,).
    """
    ops.reset_scratch()
    wide = weights.shape[0] <= weights.shape[1]
    p, copied, ratio = ops.scratch(*[min(weights.shape)] * 2), ops.scratch(*weights.shape), ops.scratch_vector(1)
    ops.replay(_constrain, ops, weights, p, copied, ratio, constraint, wide)
    return ops.read_later(ratio)


def _constrain(ops: Ops, weights: DeviceArray, p: DeviceArray, copied: DeviceArray, ratio: DeviceArray,
               constraint: float, wide: bool) -> None:
    ops.add_mat_mat(p, weights, weights, 1.0, 0.0, trans_a=not wide, trans_b=wide)
    ops.orthonormal_step(p, ratio, constraint)
    ops.copy_mat(copied, weights, 1.0)
    ops.add_mat_mat(weights, *((p, copied) if wide else (copied, p)), -1.0, 1.0)


def check_ratio(ratio: float, name: str) -> None:
    """Raise NumericError, or warn, if squared singular values cannot have this mean square over squared mean."""
    if not ratio > LEAST_RATIO:
        raise NumericError(f"Ratio is {ratio:g} in the orthonormal constraint of component {name}; expected at least 1",
                           "its parameters are not finite, or too large")
    if not 0.99 < ratio <= 1.02:
        logger.warning("Ratio is %g (expected 0.99 to 1.02), component is %s", ratio, name)
