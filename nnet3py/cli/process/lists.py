"""Option values that are lists."""
from __future__ import annotations

from nnet3py import option_file
from nnet3py.cli.process.options import OptionError


def int_list(text: str, what: str) -> list[int]:
    """The integers, 0 or more, of a list such as ``13:14:15``; OptionError for anything else."""
    numbers = option_file.integers(text)
    if numbers is None:
        raise OptionError(f"Bad {what} (should be colon-separated list of integers): '{text}'")
    return numbers


def float_list(text: str, what: str) -> list[float]:
    """The numbers of a list such as ``0.5:0.5``; OptionError for anything else."""
    try:
        return [float(part) for part in text.split(":")] if text else []
    except ValueError:
        raise OptionError(f"Bad {what} (should be colon-separated list of numbers): '{text}'") from None
