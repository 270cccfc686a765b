"""Functions of higher stages that methods of lower classes call, such as ``nnet(feats)``. Light.

A class of an early stage cannot import what computes or draws its objects (docs/architecture.md, "The floors"). The
package, which is above all stages, names those functions when it is imported; their modules are loaded at first use.
"""
from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

_module_of: dict[str, str] = {}


def provide(functions: Mapping[str, str]) -> None:
    """Add functions, each name with its module, that :func:`provided` returns from now on."""
    _module_of.update(functions)


def provided(name: str) -> Any:
    """Return the function of that name, which :func:`provide` was told of; its module is imported now."""
    return getattr(import_module(_module_of[name]), name)


class Shown:
    """Base of the objects that notebooks display as :func:`nnet3py.inspection.notebook.html_of` draws them."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        text: str = provided("html_of")(self)
        return text
