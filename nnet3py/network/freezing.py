"""Components that training leaves as they are: frozen ones have the learning-rate factor 0."""
from __future__ import annotations

from collections.abc import Sequence

from nnet3py.components.updatable import UpdatableComponent, is_updatable
from nnet3py.config_line import did_you_mean
from nnet3py.errors import UsageError
from nnet3py.network.any_model import AnyModel, network_of
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import compiled_form_may_change, name_matcher

DEFAULT_RATE = 0.001      # Kaldi's, for a component whose config line gives none


def freeze(nnet: AnyModel, pattern: str | Sequence[str] = "*") -> list[str]:
    """Keep components as they are in all training that follows, in place.

    Their learning-rate factor becomes 0, which model files hold. So learning rates that are set later do not train
    them: by :func:`nnet3py.train`, by a driver, by ``nnet3-copy --learning-rate``, by the edit ``set-learning-rate``.
    Neither l2 regularization, nor momentum, nor the orthonormal constraint changes them. What ends it is
    :func:`unfreeze`, or another factor, by the edit ``set-learning-rate-factor``.

    Statistics, such as batch normalization's, are no parameters, and are still gathered.

    >>> nnet3py.freeze(nnet, "tdnn1*")
    ['tdnn1.affine']

    Parameters
    ----------
    nnet : a network, or an acoustic model; changed in place
    pattern : of components' names, or several of them; ``*`` is any text, even none

    Returns
    -------
    The names of the components that match, in the network's order.

    Raises
    ------
    UsageError : a pattern that matches no component with parameters; nothing is changed then
    """
    nnet = network_of(nnet)
    chosen = _chosen(nnet, pattern)
    with compiled_form_may_change(nnet):
        for component in chosen.values():
            component.freeze()
    return list(chosen)


def unfreeze(nnet: AnyModel, pattern: str | Sequence[str] = "*") -> list[str]:
    """Let training change components again that :func:`freeze` has frozen, in place; others stay as they are.

    Each gets the learning-rate factor that it had, and the learning rate that was set last. Model files do not hold
    what a factor was before: in a network from a file, or a factor that an edit set to 0, the factor becomes 1, and the
    learning rate the largest one of the components that are not frozen (0.001 if there is none, as Kaldi's default).

    Parameters
    ----------
    nnet : a network, or an acoustic model; changed in place
    pattern : of components' names, or several of them; ``*`` is any text, even none

    Returns
    -------
    The names of the components that were frozen, in the network's order.

    Raises
    ------
    UsageError : a pattern that matches no component with parameters; nothing is changed then
    """
    nnet = network_of(nnet)
    chosen = {name: component for name, component in _chosen(nnet, pattern).items() if component.is_frozen}
    rate = max((component.learning_rate / component.learning_rate_factor for _, component in nnet.named_components()
                if is_updatable(component) and not component.is_frozen), default=0.0) or DEFAULT_RATE
    with compiled_form_may_change(nnet):
        for component in chosen.values():
            component.unfreeze(rate)
    return list(chosen)


def _chosen(nnet: Nnet, pattern: str | Sequence[str]) -> dict[str, UpdatableComponent]:
    """The updatable components that match some pattern. UsageError for a pattern that matches none."""
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
    """Why nothing can be frozen, and what to try."""
    those = f"components with parameters are {', '.join(updatable)}" if updatable else (
        "the network has no component that training changes")
    if names:
        return f"{pattern!r} matches no component with parameters, only {', '.join(names)}", those
    longer = any(name.startswith(pattern) for name in updatable) and pattern and not pattern.endswith("*")
    return (f"{pattern!r} matches no component of the network",
            f"try {pattern + '*'!r}" if longer else did_you_mean(pattern, updatable) or those)
