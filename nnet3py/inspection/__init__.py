"""What a model file or a model folder holds, and what it lacks for computing, training or decoding.

``inspect(path) -> Inspection``. ``facts.py`` is plain data; ``model.py`` and ``folder.py`` collect, ``readiness.py``
says what is missing and what to do, ``text.py`` makes the table.
"""
from __future__ import annotations

from nnet3py.inspection.inspect import inspect

__all__ = ["inspect"]
