"""Operations on all components of a network: test modes, learning rates, freezing, parameters as a vector, constraints.

Only top-level components are changed, not those inside a CompositeComponent. "Updatable" components are those that
training changes; lists with a number for each are in the network's order. In patterns of names ``*`` matches any text,
even none. Kaldi: ``nnet-utils.h``.
"""
from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nnet3py.components.base import Component, Components, Properties
from nnet3py.components.updatable import UpdatableComponent, is_updatable
from nnet3py.config_line import did_you_mean
from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.network.model_file import AnyModel, network_of
from nnet3py.network.nnet import Nnet
from nnet3py.random_sequence import philox

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

logger = logging.getLogger(__name__)

RANDOM_TYPES = ("DropoutComponent", "DropoutMaskComponent", "GeneralDropoutComponent", "SpecAugmentTimeMaskComponent")
DROPOUT_TYPES = RANDOM_TYPES[:3]         # types with a dropout proportion

# Ratio of the mean square of the squared singular values to their squared mean: at least 1, apart from rounding.
LEAST_RATIO = 0.9


class ComponentArrays(Components, Protocol):
    """Interface of a network, and of its parameter store on a device."""

    def scale_components(self, factors: np.ndarray, /) -> None:
        """Multiply parameters and statistics of each component by its factor, in place."""


def is_a(component: Component, *type_names: str) -> bool:
    """Return whether the component's type, or a base of it, has one of these names; the types are not imported."""
    return any(cls.__name__ in type_names for cls in type(component).__mro__)


def components_of_type(nnet: Components, *type_names: str) -> Iterator[Any]:
    """Yield the components of these types, or of types derived from them, in the network's order."""
    return (component for component in nnet.components if is_a(component, *type_names))


@contextmanager
def compiled_form_may_change(nnet: Nnet) -> Iterator[None]:
    """Increase the network's version after the block if properties of components that compilation depends on changed.
    """
    def compiled_properties() -> list[tuple[Properties, bool]]:
        return [(c.properties, getattr(c, "learning_rate", 1.0) != 0.0) for c in nnet.components]

    before = compiled_properties()
    yield
    if compiled_properties() != before:
        nnet.structure_changed()


def name_matcher(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern in which ``*`` is any text and all else is literal."""
    return re.compile(".*".join(re.escape(piece) for piece in pattern.split("*")) + r"\Z", re.DOTALL)


def has_batchnorm(nnet: Nnet) -> bool:
    """Return whether some component is a BatchNormComponent."""
    return any(components_of_type(nnet, "BatchNormComponent"))


def set_batchnorm_test_mode(nnet: AnyModel, test_mode: bool) -> None:
    """Switch batch normalization to its stored statistics, or to those of each minibatch, in place.

    Parameters
    ----------
    nnet : network or acoustic model, changed in place
    test_mode : True for stored statistics, False for those of the minibatch
    """
    nnet = network_of(nnet)
    with compiled_form_may_change(nnet):
        for component in components_of_type(nnet, "BatchNormComponent"):
            component.set_test_mode(test_mode)


def set_dropout_test_mode(nnet: AnyModel, test_mode: bool) -> None:
    """Switch dropout and SpecAugment off, so that outputs have their expected values, or on again, in place.

    Parameters
    ----------
    nnet : network or acoustic model, changed in place
    test_mode : True for expected values, False for random masks
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
    nnet : network or acoustic model, changed in place
    rate : learning rate, 0 or more
    names : pattern of component names, in which ``*`` is any text, even none

    Raises
    ------
    UsageError : a rate that is not a number
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
    """Set the statistics of all components to zero, in place, except of batch normalization in test mode."""
    for component in nnet.components:
        component.zero_stats()


def freeze_natural_gradient(nnet: Nnet, freeze: bool) -> None:
    """Freeze the Fisher-matrix estimates of natural gradient, or let them adapt to the data again, in place."""
    for component in components_of_type(nnet, "UpdatableComponent"):
        component.freeze_natural_gradient(freeze)


def convert_repeated_to_block_affine(nnet: Nnet) -> None:
    """Replace each RepeatedAffineComponent by an equal BlockAffineComponent, in place, also inside composites."""
    for c, component in enumerate(nnet.components):
        if hasattr(component, "as_block_affine"):
            nnet.components[c] = component.as_block_affine()
            nnet.structure_changed()


# -- orthonormal constraint --------------------------------------------------------------------------------------------


def constrain_orthonormal(nnet: Components, draw: Callable[[], bool], ops: Ops) -> Callable[[], None]:
    """Move the matrices of constrained components a step towards equal singular values, in place.

    Parameters
    ----------
    draw : function without arguments, called once per constrained component, in order; it returns True with probability
        1/4, and only then the step is taken
    ops : operations of the device that holds the network's arrays

    Returns
    -------
    A function to call when the device has finished. It warns of matrices whose singular values differ too much, and
    raises NumericError for a matrix that is not finite, which was left unchanged.

    Unlike in Kaldi, components with the learning-rate factor 0 are left unchanged: they are frozen.

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
    """Move M one step towards M Mᵀ = s² I, in place; M is ``weights`` or its transpose, whichever has fewer rows.

    Parameters
    ----------
    weights : float32 (rows, cols), on the device of ``ops``
    constraint : s; a negative number for the s that keeps the norm of M

    Returns
    -------
    A function that waits for the device and returns rows * tr(P²) / tr(P)², float32 (1,), where P = M Mᵀ: it is 1 if P
    is a multiple of I, else larger; 1 for a fixed s, too.
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
    """Raise NumericError for an impossible ratio, as ``constrain_matrix`` computes it; warn of one far from 1."""
    if not ratio > LEAST_RATIO:
        raise NumericError(f"Ratio is {ratio:g} in the orthonormal constraint of component {name}; expected at least 1",
                           "its parameters are not finite, or too large")
    if not 0.99 < ratio <= 1.02:
        logger.warning("Ratio is %g (expected 0.99 to 1.02), component is %s", ratio, name)


def updatable_components(nnet: Nnet, names: str = "*") -> Iterator[tuple[str, UpdatableComponent]]:
    """Yield name and object of each updatable component whose name matches the pattern."""
    matcher = name_matcher(names)
    for name, component in nnet.named_components():
        if is_updatable(component) and matcher.match(name):
            yield name, component


def num_updatable_components(nnet: Nnet) -> int:
    """Return the number of updatable components. Kaldi: NumUpdatableComponents."""
    return sum(1 for _ in updatable_components(nnet))


# -- as a vector -------------------------------------------------------------------------------------------------------


def vectorize(nnet: Nnet) -> np.ndarray:
    """Return all parameters as one float32 vector (num_parameters,), in Kaldi's order. Kaldi: VectorizeNnet.

    The order is by component, and within a component the matrix by rows, then the bias.
    """
    vectors = [component.vectorize() for _, component in updatable_components(nnet)]
    return np.concatenate(vectors) if vectors else np.zeros(0, dtype=np.float32)


def unvectorize(nnet: Nnet, vector: np.ndarray) -> None:
    """Set all parameters from a vector as :func:`vectorize` makes it, in place. Kaldi: UnVectorizeNnet.

    Raises ShapeError for a vector of another size.
    """
    values = np.asarray(vector, dtype=np.float32)
    if values.shape != (nnet.num_parameters(),):
        raise ShapeError(f"expected a vector of {nnet.num_parameters()} parameters, found shape {values.shape}")
    start = 0
    for _, component in updatable_components(nnet):
        count = component.num_parameters()
        component.unvectorize(values[start:start + count])
        start += count


def perturb(nnet: Nnet, stddev: float, seed: int = 0) -> None:
    """Add independent normal noise to every parameter, in place. Kaldi: PerturbParams.

    Parameters
    ----------
    stddev : standard deviation of the noise
    seed : seed of the noise, which differs from Kaldi's
    """
    if not 0.0 <= stddev < float("inf"):
        raise UsageError(f"noise cannot have the standard deviation {stddev:g}; expected a finite number of 0 or more")
    rng = philox(seed)
    for _, component in updatable_components(nnet):
        component.perturb(stddev, rng)


# -- per component -----------------------------------------------------------------------------------------------------


def component_dot_products(nnet: Nnet, other: Nnet) -> list[float]:
    """Return each updatable component's dot product with that of the other network. Kaldi: ComponentDotProducts.

    Raises ShapeError for networks with different components.
    """
    nnet.check_alike(other)
    return [component.dot_product(theirs) for (_, component), (_, theirs)
            in zip(updatable_components(nnet), updatable_components(other), strict=True)]


def format_per_component(nnet: Nnet, values: Sequence[float]) -> str:
    """Format a number per updatable component as ``[ name:value name:value ]``.

    Kaldi: PrintVectorPerUpdatableComponent.
    """
    _check_count(nnet, values)
    pairs = zip(updatable_components(nnet), values, strict=True)
    return "[ " + "".join(f"{name}:{value:.6g} " for (name, _), value in pairs) + "]"


def scale_components(nnet: Nnet, factors: Sequence[float]) -> None:
    """Multiply each updatable component by its factor, in place; 0 makes exact zeros. Kaldi: ScaleNnetComponents."""
    _check_count(nnet, factors)
    for (_, component), factor in zip(updatable_components(nnet), factors, strict=True):
        component.scale(float(factor))


def add_components(nnet: Nnet, other: Nnet, alphas: Sequence[float], alpha: float) -> None:
    """Add multiples of another network's components, in place. Kaldi: AddNnetComponents.

    Parameters
    ----------
    other : network of the same structure
    alphas : factor of each updatable component
    alpha : factor of all other components, whose statistics are added
    """
    nnet.check_alike(other)
    _check_count(nnet, alphas)
    factors = iter(alphas)
    for mine, theirs in zip(nnet.components, other.components, strict=True):
        mine.add(float(next(factors)) if is_updatable(mine) else alpha, theirs)


def _check_count(nnet: Nnet, values: Sequence[float]) -> None:
    expected = num_updatable_components(nnet)
    if len(values) != expected:
        raise ShapeError(f"expected a number for each of {expected} updatable components, found {len(values)}")


# -- settings ----------------------------------------------------------------------------------------------------------


def learning_rates(nnet: Nnet) -> list[float]:
    """Return the learning rate of each updatable component, including its factor. Kaldi: GetLearningRates."""
    return [component.learning_rate for _, component in updatable_components(nnet)]


def set_learning_rates(nnet: Nnet, rates: Sequence[float]) -> None:
    """Set the learning rate of each updatable component, regardless of its factor, in place. Kaldi: SetLearningRates.
    """
    _check_count(nnet, rates)
    values = [_setting("learning rate", rate) for rate in rates]
    with compiled_form_may_change(nnet):
        for (_, component), rate in zip(updatable_components(nnet), values, strict=True):
            component.set_actual_learning_rate(rate)


def set_learning_rate_factor(nnet: Nnet, factor: float, names: str = "*") -> int:
    """Set the factor that multiplies learning rates set later, in place; return the number of matching components."""
    return _set(nnet, "learning_rate_factor", factor, names)


def set_max_change(nnet: Nnet, max_change: float, names: str = "*") -> int:
    """Set the limit of a minibatch's change (2-norm; 0: none), in place; return the number of matching components."""
    return _set(nnet, "max_change", max_change, names)


def set_l2_regularize(nnet: Nnet, l2_regularize: float, names: str = "*") -> int:
    """Set the factor of l2 regularization (0: none), in place; return the number of matching components."""
    return _set(nnet, "l2_regularize", l2_regularize, names)


def _set(nnet: Nnet, attribute: str, value: float, names: str) -> int:
    number = _setting(attribute.replace("_", "-"), value)
    chosen = [component for _, component in updatable_components(nnet, names)]
    for component in chosen:
        setattr(component, attribute, number)
    return len(chosen)


def _setting(what: str, value: float) -> float:
    """Return a setting rounded to float32, as in model files. Raises UsageError for a negative or infinite value."""
    with np.errstate(over="ignore"):
        number = float(np.float32(value))
    if not 0.0 <= number < float("inf"):
        raise UsageError(f"{what} cannot be {value:g}; expected 0 or more")
    return number


DEFAULT_RATE = 0.001      # Kaldi's learning rate of a component whose config line gives none


def freeze(nnet: AnyModel, pattern: str | Sequence[str] = "*") -> list[str]:
    """Freeze components, in place, so that later training leaves their parameters unchanged.

    Their learning-rate factor becomes 0, which model files store. Learning rates that are set later, by
    :func:`nnet3py.train`, a driver, ``nnet3-copy --learning-rate`` or the edit ``set-learning-rate``, are multiplied by
    it. Neither l2 regularization, nor momentum, nor the orthonormal constraint changes frozen components. They are
    trained again after :func:`unfreeze`, or after the edit ``set-learning-rate-factor``.

    Statistics, such as those of batch normalization, are no parameters, and are still accumulated.

    >>> nnet3py.freeze(nnet, "tdnn1*")
    ['tdnn1.affine']

    Parameters
    ----------
    nnet : network or acoustic model, changed in place
    pattern : pattern of component names, or a list of patterns; ``*`` is any text, even none

    Returns
    -------
    The names of the components that match, in the network's order.

    Raises
    ------
    UsageError : a pattern that matches no component with parameters; the network is unchanged
    """
    nnet = network_of(nnet)
    chosen = _updatable_matches(nnet, pattern)
    with compiled_form_may_change(nnet):
        for component in chosen.values():
            component.freeze()
    return list(chosen)


def unfreeze(nnet: AnyModel, pattern: str | Sequence[str] = "*") -> list[str]:
    """Unfreeze components that :func:`freeze` has frozen, in place, so that training changes them again.

    The former learning-rate factor and the learning rate that was set last are restored. Model files do not store
    former factors: in a network from a file, or after an edit that set a factor to 0, the factor becomes 1, and the
    learning rate the largest of the components that are not frozen (0.001, Kaldi's default, if all are).

    Parameters
    ----------
    nnet : network or acoustic model, changed in place
    pattern : pattern of component names, or a list of patterns; ``*`` is any text, even none

    Returns
    -------
    The names of the components that were frozen, in the network's order.

    Raises
    ------
    UsageError : a pattern that matches no component with parameters; the network is unchanged
    """
    nnet = network_of(nnet)
    chosen = {name: component for name, component in _updatable_matches(nnet, pattern).items() if component.is_frozen}
    rate = max((component.learning_rate / component.learning_rate_factor for _, component in nnet.named_components()
                if is_updatable(component) and not component.is_frozen), default=0.0) or DEFAULT_RATE
    with compiled_form_may_change(nnet):
        for component in chosen.values():
            component.unfreeze(rate)
    return list(chosen)


def _updatable_matches(nnet: Nnet, pattern: str | Sequence[str]) -> dict[str, UpdatableComponent]:
    """Return the updatable components that match any pattern. Raises UsageError for a pattern that matches none."""
    patterns = [pattern] if isinstance(pattern, str) else list(pattern)
    updatable = {name: component for name, component in nnet.named_components() if is_updatable(component)}
    if not patterns:
        raise UsageError("expected a pattern of components' names or several, found an empty list",
                         "'*' matches all components")
    matched: set[str] = set()
    for each in patterns:
        if not isinstance(each, str):
            raise UsageError(f"expected a pattern of components' names, a string, found {type(each).__name__}")
        names = [name for name in nnet.component_names if name_matcher(each).match(name)]
        if not updatable.keys() & set(names):
            raise UsageError(*_no_match(each, names, list(updatable)))
        matched |= updatable.keys() & set(names)
    return {name: component for name, component in updatable.items() if name in matched}


def _no_match(pattern: str, names: list[str], updatable: list[str]) -> tuple[str, str]:
    """Return error message and hint for a pattern that matches no updatable component."""
    choices = f"components with parameters are {', '.join(updatable)}" if updatable else (
        "the network has no component that training changes")
    if names:
        return f"{pattern!r} matches no component with parameters, only {', '.join(names)}", choices
    longer = any(name.startswith(pattern) for name in updatable) and pattern and not pattern.endswith("*")
    return (f"{pattern!r} matches no component of the network",
            f"try {pattern + '*'!r}" if longer else did_you_mean(pattern, updatable) or choices)
