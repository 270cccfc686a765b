"""What a model file or a model folder holds, and what it lacks for computing, training or decoding."""
from __future__ import annotations

from nnet3py.inspection.inspect import inspect

__all__ = ["inspect"]
