"""Named tuples of arrays as arguments of compiled functions, which are called with each array as an argument.

The fields' types give the types of the arrays::

    class Tree(NamedTuple):
        nodes: Int32Rows
        counts: Int64s

    _grow = Loop("nnet3py.lattices.tree_loops", "grow", types_of(Tree) + " i8")
    _grow(*tree, size)

and in ``tree_loops.py`` the function is decorated: ``@by_arrays def grow(tree: Tree, size: int) -> int``.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeAlias, get_type_hints

import numpy as np

# arrays in the notation of engine/loop.py
Bytes: TypeAlias = Annotated[np.ndarray, "u1[]"]
Int32s: TypeAlias = Annotated[np.ndarray, "i4[]"]
Int64s: TypeAlias = Annotated[np.ndarray, "i8[]"]
Float32s: TypeAlias = Annotated[np.ndarray, "f4[]"]
Float64s: TypeAlias = Annotated[np.ndarray, "f8[]"]
Int32Rows: TypeAlias = Annotated[np.ndarray, "i4[,]"]
Int64Rows: TypeAlias = Annotated[np.ndarray, "i8[,]"]
Float32Rows: TypeAlias = Annotated[np.ndarray, "f4[,]"]
# addresses of arrays
ByteAddress: TypeAlias = Annotated[Any, "u1*"]
UInt32Address: TypeAlias = Annotated[Any, "u4*"]
Int32Address: TypeAlias = Annotated[Any, "i4*"]
Int64Address: TypeAlias = Annotated[Any, "i8*"]
Float32Address: TypeAlias = Annotated[Any, "f4*"]
Float64Address: TypeAlias = Annotated[Any, "f8*"]
# numbers
Int64: TypeAlias = Annotated[int, "i8"]
Float64: TypeAlias = Annotated[float, "f8"]


class Strings(NamedTuple):
    """The arcs of a compact lattice, and the transition-ids of arcs and of final weights."""

    arc_starts: Int64s
    next_states: Int32s
    string_starts: Int64s
    ids: Int32s
    final_string_starts: Int64s
    final_ids: Int32s


class Compared(NamedTuple):
    """Arrays by which states of a compact lattice are compared, besides those of its arcs.

    ``mapped`` has for each state an equal state with a higher number, or its own number; ``order`` sorts the arcs of
    each state by label and destination.
    """

    labels: Int32s
    weights: Float32Rows
    final_weights: Float32Rows
    mapped: Int32s
    order: Int64s


def types_of(*structures: type) -> str:
    """Return the types of the fields of named tuples, in the notation of :class:`~nnet3py.engine.loop.Loop`."""
    return " ".join(kind.__metadata__[0] for structure in structures
                    for kind in get_type_hints(structure, include_extras=True).values())


def by_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function with named tuples as arguments: the result takes the tuples' fields as separate arguments.

    ``function`` is inlined into the result, so the machine code is that of a function of arrays.
    """
    from nnet3py.engine.inline import inline

    kinds = get_type_hints(function)
    names: dict[str, Any] = {"body": inline(function)}
    arguments, values = [], []
    for name in inspect.signature(function).parameters:
        fields = [f"{name}_{field}" for field in getattr(kinds[name], "_fields", ())]
        names[kinds[name].__name__] = kinds[name]
        arguments += fields or [name]
        values.append(f"{kinds[name].__name__}({', '.join(fields)})" if fields else name)
    exec(f"def {function.__name__}({', '.join(arguments)}):\n    return body({', '.join(values)})\n", names)
    return names[function.__name__]
