"""Descriptions of models and model folders: their contents, and what is missing for computing, training or decoding.

``inspect(path) -> Inspection`` (``inspect.py``, ``facts.py``) describes a file or a folder, ``summary(nnet)`` and
``compare(a, b)`` (``summary.py``) print tables of networks, ``html_of(value)`` (``notebook.py``) displays objects in
notebooks. ``model.py`` describes networks, ``readiness.py`` finds missing things and names remedies.

Everything except commands may be imported. Descriptions are plain data without numpy arrays, for ``--json``. No other
program looks into Kaldi's model folders; HTML needs no template library, since it is a few tables.
"""
from __future__ import annotations

from nnet3py.inspection.inspect import inspect

__all__ = ["inspect"]
