"""How notebooks show an object. Light: classes of all stages are derived from this one.

Drawing belongs to a later stage, which is imported by name when there is something to show.
"""
from __future__ import annotations

from importlib import import_module


class Shown:
    """An object that notebooks show as :func:`nnet3py.inspection.notebook.html_of` draws it."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        text: str = import_module("nnet3py.inspection.notebook").html_of(self)
        return text
