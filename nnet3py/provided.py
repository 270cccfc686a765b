"""Functions of higher stages that methods of lower classes call, such as ``nnet(feats)``. Light.

A class of an early stage cannot import what computes or displays its objects (docs/architecture.md, "The floors"). The
package itself, which is above all stages, has the table of these functions with their modules.
"""
from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def provided(name: str) -> Any:
    """Return a function of the package's table ``_PROVIDED``, whose module is imported at first use."""
    package: Any = sys.modules[__package__]
    return getattr(import_module(package._PROVIDED[name]), name)


class Shown:
    """Base of the objects that notebooks display as :func:`nnet3py.inspection.notebook.html_of` draws them."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        text: str = provided("html_of")(self)
        return text
