"""Calls of functions in higher layers of the package by methods of lower ones, such as ``nnet(feats)``. Light.

The module of a network must not import the modules that compute or display networks (docs/architecture.md, "The
floors"). So the package itself has a table of these functions, with their modules.
"""
from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def provided(name: str) -> Any:
    """Return the function ``name`` of the table ``_PROVIDED`` in ``nnet3py/__init__.py``; import its module."""
    package: Any = sys.modules[__package__]
    return getattr(import_module(package._PROVIDED[name]), name)


class Shown:
    """Base of classes whose objects notebooks show as HTML, made by :func:`nnet3py.inspection.notebook.html_of`."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        text: str = provided("html_of")(self)
        return text
