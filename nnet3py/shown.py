"""What a notebook shows of an object. Light: the classes of all stages are derived from this one.

How things are drawn belongs to a later stage, which is asked for by name when there is something to show.
"""
from __future__ import annotations

from importlib import import_module


class Shown:
    """An object that notebooks show as :func:`nnet3py.inspection.notebook.html_of` draws it."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        text: str = import_module("nnet3py.inspection.notebook").html_of(self)
        return text
