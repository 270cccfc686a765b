"""Networks as a list of layers: an xconfig file and the config lines it stands for. Kaldi: steps/libs/nnet3/xconfig.

``expand(text).final`` is config text for ``Nnet.from_config``. docs/xconfig.md describes every layer type.

docs/xconfig.md describes each layer type. ``expand(text, path=None, existing=()) -> Expansion`` with ``init``,
``ref``, ``final`` (config text), ``with_options``, ``normalized``, ``files`` and ``layers``; it imports neither numpy
nor the network. ``line.py``: ``XconfigLine(text, path, number)`` with ``type``, ``name``, ``values``,
``error(message, hint)``. ``descriptor.py``: ``Descriptor(operator, arguments)`` with ``text(spell)`` and
``dim(dim_of)``. ``layer.py``: ``Layer``, whose types declare ``OPTIONS`` (key → default, whose type is the option's)
and ``AUXILIARY``, check values in ``derive()``, and give ``output()``, ``output_dim()``, ``auxiliary(part)`` and
``build(lines)``; ``ConfigLines.step(name, type, settings, input)`` adds a component with its node. ``registry.py``
maps a type to its module and class. ``cli/nnet/xconfig_to_configs.py`` writes the files and measures contexts.
"""
from __future__ import annotations

from nnet3py.xconfig.expand import Expansion, existing_nodes, expand
from nnet3py.xconfig.registry import LAYER_MODULES, layer_class

__all__ = ["LAYER_MODULES", "Expansion", "existing_nodes", "expand", "layer_class"]
