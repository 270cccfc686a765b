"""What compiled code uses until the process ends, and so must outlive Python's modules. Light."""
from __future__ import annotations

import ctypes
from typing import TypeVar

T = TypeVar("T")


def lasting(thing: T) -> T:
    """The same object, which is never freed.

    At its end Python takes modules apart in an order of its own, while threads of the team may still look for work,
    and functions that were made of compiled code are still to be freed.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing
