"""Networks as a list of layers: an xconfig file and the config lines it stands for. Kaldi: steps/libs/nnet3/xconfig.

``expand(text).final`` is config text for ``Nnet.from_config``. docs/xconfig.md describes every layer type.
"""
from __future__ import annotations

from nnet3py.xconfig.expand import Expansion, existing_nodes, expand
from nnet3py.xconfig.registry import LAYER_MODULES, layer_class

__all__ = ["LAYER_MODULES", "Expansion", "existing_nodes", "expand", "layer_class"]
