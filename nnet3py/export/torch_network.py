"""The class of a generated torch module, made from its source when it is exported or loaded.

Files of ``torch.save`` refer to this file and its functions by name, and load without the rest of the package.
"""
from __future__ import annotations

import hashlib
import linecache
import sys
from types import ModuleType
from typing import Any

from torch import nn


class TorchNetwork(nn.Module):
    """Base of all generated modules, which are saved with their source and made from it again.

    ``source`` : Python source of the class, including ``forward``.
    """

    source = ""

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Reduce for ``torch.save``, ``pickle`` and ``copy.deepcopy``: other processes cannot import the class."""
        reduced: Any = super().__reduce_ex__(protocol)
        return empty_network, (self.source,), *reduced[2:]


def empty_network(source: str) -> TorchNetwork:
    """Make a module of the class that a source defines, without state. Files of modules refer to this function."""
    cls = network_class(source)
    return cls.__new__(cls)


def network_class(source: str) -> type[TorchNetwork]:
    """Return the class ``Network`` that a source defines; the same class for the same source.

    The class is in a module in ``sys.modules``, where ``torch.export`` and ``torch.jit`` look up what the source
    imports.
    """
    name = f"nnet3py_network_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    if name not in sys.modules:
        made = ModuleType(name)
        made.__file__ = file = f"<{name}>"
        linecache.cache[file] = len(source), None, source.splitlines(True), file     # for torch.jit and for tracebacks
        exec(compile(source, file, "exec"), made.__dict__)
        made.__dict__["Network"].source = source
        sys.modules[name] = made
    cls: type[TorchNetwork] = sys.modules[name].__dict__["Network"]
    return cls
