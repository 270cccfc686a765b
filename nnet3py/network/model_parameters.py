"""The parameters and training settings of a whole network: as a vector, per component, perturbed, scaled.

"Updatable" components are those that training changes. Lists with a number for each are in the network's order.
Names are matched as in edit directives: ``*`` stands for any text. Kaldi: ``nnet-utils.h``.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nnet3py.components.updatable import UpdatableComponent, is_updatable
from nnet3py.errors import ShapeError, UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import compiled_form_may_change, name_matcher


def updatable_components(nnet: Nnet, names: str = "*") -> Iterator[tuple[str, UpdatableComponent]]:
    """Name and object of each updatable component with a matching name."""
    matcher = name_matcher(names)
    for name, component in nnet.named_components():
        if is_updatable(component) and matcher.match(name):
            yield name, component


def num_updatable_components(nnet: Nnet) -> int:
    """How many components training changes. Kaldi: NumUpdatableComponents."""
    return sum(1 for _ in updatable_components(nnet))


# -- as a vector -------------------------------------------------------------------------------------------------------


def vectorize(nnet: Nnet) -> np.ndarray:
    """All parameters in one float32 vector (num_parameters,), in Kaldi's order. Kaldi: VectorizeNnet.

    Component by component; in each the matrix row by row, then the bias.
    """
    vectors = [component.vectorize() for _, component in updatable_components(nnet)]
    return np.concatenate(vectors) if vectors else np.zeros(0, dtype=np.float32)


def unvectorize(nnet: Nnet, vector: np.ndarray) -> None:
    """Set all parameters from a vector as :func:`vectorize` makes it, in place. Kaldi: UnVectorizeNnet.

    Raises
    ------
    ShapeError : a vector of another size
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
    stddev : its standard deviation
    seed : determines the noise, which is not Kaldi's
    """
    if not 0.0 <= stddev < float("inf"):
        raise UsageError(f"noise cannot have the standard deviation {stddev:g}")
    rng = np.random.Generator(np.random.Philox(seed))
    for _, component in updatable_components(nnet):
        component.perturb(stddev, rng)


# -- per component -----------------------------------------------------------------------------------------------------


def component_dot_products(nnet: Nnet, other: Nnet) -> list[float]:
    """For each updatable component, the dot product with the other network's. Kaldi: ComponentDotProducts.

    Raises
    ------
    ShapeError : networks with different components
    """
    nnet.check_alike(other)
    return [component.dot_product(theirs) for (_, component), (_, theirs)
            in zip(updatable_components(nnet), updatable_components(other), strict=True)]


def format_per_component(nnet: Nnet, values: Sequence[float]) -> str:
    """``[ name:value name:value ]`` with a number per updatable component. Kaldi: PrintVectorPerUpdatableComponent."""
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
    other : a network of the same structure
    alphas : a factor for each updatable component
    alpha : the factor for all the others, whose statistics are added
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
    """The learning rate of each updatable component, including its factor. Kaldi: GetLearningRates."""
    return [component.learning_rate for _, component in updatable_components(nnet)]


def set_learning_rates(nnet: Nnet, rates: Sequence[float]) -> None:
    """Set the learning rate of each updatable component, whatever its factor, in place. Kaldi: SetLearningRates."""
    _check_count(nnet, rates)
    values = [_setting("learning rate", rate) for rate in rates]
    with compiled_form_may_change(nnet):
        for (_, component), rate in zip(updatable_components(nnet), values, strict=True):
            component.set_actual_learning_rate(rate)


def set_learning_rate_factor(nnet: Nnet, factor: float, names: str = "*") -> int:
    """Set the factor of learning rates that are set later, in place; returns for how many components."""
    return _set(nnet, "learning_rate_factor", factor, names)


def set_max_change(nnet: Nnet, max_change: float, names: str = "*") -> int:
    """Set the largest change (2-norm) per minibatch, 0 for no limit, in place; returns for how many components."""
    return _set(nnet, "max_change", max_change, names)


def set_l2_regularize(nnet: Nnet, l2_regularize: float, names: str = "*") -> int:
    """Set the strength of l2 regularization, 0 for none, in place; returns for how many components."""
    return _set(nnet, "l2_regularize", l2_regularize, names)


def _set(nnet: Nnet, attribute: str, value: float, names: str) -> int:
    number = _setting(attribute.replace("_", "-"), value)
    chosen = [component for _, component in updatable_components(nnet, names)]
    for component in chosen:
        setattr(component, attribute, number)
    return len(chosen)


def _setting(what: str, value: float) -> float:
    """The number as files hold it. Raises UsageError for values that a trainer cannot use."""
    with np.errstate(over="ignore"):
        number = float(np.float32(value))
    if not 0.0 <= number < float("inf"):
        raise UsageError(f"{what} cannot be {value:g}; expected 0 or more")
    return number
