"""Option values that are lists."""
from __future__ import annotations

from nnet3py.cli.options import OptionError


def int_list(text: str, what: str) -> list[int]:
    """The integers, 0 or more, of a list such as ``13:14:15``; OptionError for anything else."""
    parts = text.split(":") if text else []
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise OptionError(f"Bad {what} (should be colon-separated list of integers): '{text}'")
    return [int(part) for part in parts]


def float_list(text: str, what: str) -> list[float]:
    """The numbers of a list such as ``0.5:0.5``; OptionError for anything else."""
    try:
        return [float(part) for part in text.split(":")] if text else []
    except ValueError:
        raise OptionError(f"Bad {what} (should be colon-separated list of numbers): '{text}'") from None
