"""The class of a torch module, made from its source: where it is exported, and wherever such a module is loaded."""
from __future__ import annotations

import hashlib
import linecache
import sys
from types import ModuleType
from typing import Any

from torch import nn


class TorchNetwork(nn.Module):
    """What all generated modules share: they are saved with their source, and made from it again.

    Attributes
    ----------
    source : the Python source of the class, ``forward`` and all
    """

    source = ""

    def __reduce_ex__(self, protocol: Any) -> Any:
        """For ``torch.save``, ``pickle`` and ``copy.deepcopy``: no other process can import the class."""
        reduced: Any = super().__reduce_ex__(protocol)
        return empty_network, (self.source,), *reduced[2:]


def empty_network(source: str) -> TorchNetwork:
    """A module of the class that a source defines, before it has any state. What files of modules refer to."""
    cls = network_class(source)
    return cls.__new__(cls)


def network_class(source: str) -> type[TorchNetwork]:
    """The class ``Network`` that a source defines; the same class whenever the source is the same.

    It lies in a module in ``sys.modules``: ``torch.export`` and ``torch.jit`` look up there what the source imports.
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
