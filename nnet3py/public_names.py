"""Lazy public names of packages: the module of a name is imported when the name is first used. Light.

>>> give_names(__name__, {"best_path": "nnet3py.lattices.best_path"})      # in nnet3py/lattices/__init__.py
"""
from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from nnet3py.errors import NoSuchAttribute


class _Package(ModuleType):
    """Package with lazy public names; ``_module_of`` has the module of each name."""

    _module_of: Mapping[str, str]
    _elsewhere: Mapping[str, str]

    def __getattr__(self, name: str) -> Any:
        module = self._module_of.get(name)
        if module is None:
            raise NoSuchAttribute(f"module '{self.__name__}' has no attribute '{name}'", lambda: self._advice(name))
        value = getattr(import_module(module), name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; do nothing for a module that has the same name as a public function of the package.

        Python sets such an attribute whenever it imports a module of the package, which would hide the function.
        ``from nnet3py.lattices.determinize import determinize_pruned`` does not use the attribute, and still works.
        """
        if not (isinstance(value, ModuleType) and name in self._module_of):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self._module_of, *self.__dict__.get("__all__", ())})

    def _advice(self, name: str) -> str | None:
        if name in self._elsewhere or name.startswith("_"):
            return self._elsewhere.get(name)
        from nnet3py.config_line import did_you_mean

        return did_you_mean(name, dir(self))


def give_names(package: str, module_of: Mapping[str, str], elsewhere: Mapping[str, str] | None = None) -> None:
    """Add lazy public names to a package.

    Parameters
    ----------
    package : ``__name__`` of the package, which is being imported
    module_of : module of each public name
    elsewhere : hints for names that other libraries use; a key may be several names, separated by blanks
    """
    module = sys.modules[package]
    hints = {name: text for names, text in (elsewhere or {}).items() for name in names.split()}
    module.__dict__.update(_module_of=dict(module_of), _elsewhere=hints)
    module.__class__ = _Package
