"""Layers of xconfig files, expanded into config lines: Kaldi's ``steps/libs/nnet3/xconfig`` for our commands.

``expand(text) -> Expansion`` (``expand.py``) makes the configs of a file, ``XconfigLine`` (``line.py``) is one of its
lines, and ``Layer`` (``layer.py``) the base of all layer types, which are in the files of their families. Names of
components and nodes, the order of lines and even blanks are Kaldi's, so that the configs are equal to the byte.

The result is text: nothing here imports components, the compiler, numpy or numba. Kaldi's own scripts could do it
where Kaldi is installed.
"""
from __future__ import annotations

from nnet3py.xconfig.expand import LAYER_MODULES, Expansion, existing_nodes, expand, layer_class

__all__ = ["LAYER_MODULES", "Expansion", "existing_nodes", "expand", "layer_class"]
