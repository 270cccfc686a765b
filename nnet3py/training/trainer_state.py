"""The state of a training, from which it can be continued exactly: arrays by name, for ``np.savez`` and the like.

Names are ``nnet.COMPONENT.ARRAY`` (parameters and statistics), ``momentum.COMPONENT.ARRAY`` (earlier changes, for
momentum), ``natural_gradient.K.COMPONENT.ARRAY`` (estimates; K counts preconditioners), ``draws.…`` (the random
number generator), ``training.…`` (counts).
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3py.components.base import Component
from nnet3py.components.natural_gradient import NUM_NUMBERS, OnlineNaturalGradient, named_preconditioners
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.network.nnet import Nnet

if TYPE_CHECKING:
    from nnet3py.ops.table import Ops

State = dict[str, np.ndarray]

_ESTIMATE = ("w", "spectrum", "gram", "numbers")       # the arrays of an OnlineNaturalGradient
_DRAWS = {"counter": 4, "key": 2, "buffer": 4, "rest": 3}     # of numpy's Philox generator, and their sizes


def network_arrays(prefix: str, nnet: Nnet, with_statistics: bool) -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and array (not a copy) of all arrays of a network that training changes."""
    for name, component in nnet.named_components():
        yield from _component_arrays(f"{prefix}.{name}", component, with_statistics)


def _component_arrays(prefix: str, component: Component, with_statistics: bool) -> Iterator[tuple[str, np.ndarray]]:
    for number, child in enumerate(component.children):
        yield from _component_arrays(f"{prefix}.{number}", child, with_statistics)
    if component.children:             # a composite's arrays are its children's
        return
    for name in (*component.PARAMETERS, *(component.STATISTICS if with_statistics else ())):
        if getattr(component, name) is not None:
            yield f"{prefix}.{name}", getattr(component, name)
    if with_statistics and hasattr(component, "stored"):
        yield f"{prefix}.stored", component.stored


def estimates(ops: Ops, nnet: Nnet) -> State:
    """Return copies of the arrays of all preconditioners that have been used, by name."""
    state: State = {}
    for prefix, preconditioner in _named(nnet):
        if preconditioner.numbers is not None:
            state[f"{prefix}.calls"] = np.array(preconditioner.t)
            for name in _ESTIMATE:
                if getattr(preconditioner, name) is not None:
                    state[f"{prefix}.{name}"] = np.array(ops.copy_out(getattr(preconditioner, name)))
    return state


def restore_arrays(arrays: Mapping[str, np.ndarray], state: Mapping[str, Any]) -> None:
    """Copy the arrays of ``state`` with the names of ``arrays`` into these, after checking that all are there.

    Raises Nnet3Error if the state lacks an array, and ShapeError if an array of the state has another shape.
    """
    values = {}
    for name, array in arrays.items():
        if name not in state:
            raise Nnet3Error(f"the state has no {name!r}", "is it the state of a trainer of this network?")
        values[name] = np.asarray(state[name])
        if values[name].shape != array.shape:
            raise ShapeError(f"the state has {name!r} of shape {values[name].shape}, expected {array.shape}",
                             "the state is that of another network")
    for name, array in arrays.items():
        array[...] = values[name]


def prepared_estimates(ops: Ops, nnet: Nnet, state: Mapping[str, Any]) -> Callable[[], None]:
    """Check the preconditioners' arrays in a state; return a function that sets the preconditioners to them.

    A preconditioner that the state lacks is initialized anew. Raises ShapeError for arrays of inconsistent shapes.
    """
    settings = []
    for prefix, preconditioner in _named(nnet):
        arrays = {name: np.asarray(state[f"{prefix}.{name}"]) for name in _ESTIMATE if f"{prefix}.{name}" in state}
        calls = int(state[f"{prefix}.calls"]) if f"{prefix}.calls" in state else 0
        rank = len(arrays["w"]) if "w" in arrays else 0
        shapes = {"numbers": (NUM_NUMBERS,), "spectrum": (rank + 1,), "gram": (rank, rank)}
        for name, shape in shapes.items():
            if name in arrays and arrays[name].shape != shape:
                raise ShapeError(f"the state has '{prefix}.{name}' of shape {arrays[name].shape}, expected {shape}")
        settings.append((preconditioner, arrays, calls))

    def restore() -> None:
        for preconditioner, arrays, calls in settings:
            preconditioner.t = calls
            preconditioner.num_beginnings += 1               # its arrays are at other addresses
            if "w" in arrays:
                preconditioner.rank = len(arrays["w"])
            for name in _ESTIMATE:
                setattr(preconditioner, name, _in_memory(ops, arrays[name]) if name in arrays else None)

    return restore


def _named(nnet: Nnet) -> Iterator[tuple[str, OnlineNaturalGradient]]:
    return ((f"natural_gradient.{number}.{name}", preconditioner)
            for number, (name, preconditioner) in enumerate(named_preconditioners(nnet)))


def _in_memory(ops: Any, array: np.ndarray) -> Any:
    vector = ops.new_vector(array.size, array.dtype.type)
    ops.copy_in(vector, array.ravel())
    return vector.reshape(*array.shape) if array.ndim > 1 else vector


def draws_state(draws: np.random.Generator) -> State:
    """Return the state of a random generator of numpy (Philox) as arrays by name."""
    state: Any = draws.bit_generator.state
    rest = [state["buffer_pos"], state["has_uint32"], state["uinteger"]]
    return {"draws.counter": state["state"]["counter"].copy(), "draws.key": state["state"]["key"].copy(),
            "draws.buffer": state["buffer"].copy(), "draws.rest": np.array(rest, np.uint64)}


def draws_of(state: Mapping[str, Any]) -> np.random.Generator:
    """Return a random generator with a state from :func:`draws_state`. Raises the errors of :func:`restore_arrays`."""
    arrays = {f"draws.{name}": np.zeros(size, np.uint64) for name, size in _DRAWS.items()}
    restore_arrays(arrays, state)
    position, has_word, word = arrays["draws.rest"].tolist()
    generator = np.random.Philox()
    generator.state = {"bit_generator": "Philox", "buffer": arrays["draws.buffer"], "buffer_pos": position,
                       "state": {"counter": arrays["draws.counter"], "key": arrays["draws.key"]},
                       "has_uint32": has_word, "uinteger": word}
    return np.random.Generator(generator)
