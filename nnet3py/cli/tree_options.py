"""What commands about trees share: the options of the window of phones, and lists of phones with colons."""
from __future__ import annotations

from nnet3py.cli.options import OptionError, Options, option

CONTEXT = (option("context-width", int, 3, "Phones in the window of the tree"),
           option("central-position", int, 1, "Which phone of the window is the one that is modelled, from 0"))


def check_context(options: Options) -> None:
    """OptionError for a position outside the window."""
    if not 0 <= options.central_position < options.context_width:
        raise OptionError(f"--central-position={options.central_position} lies outside a window of "
                          f"--context-width={options.context_width} phones")


def colon_list(text: str, name: str) -> list[int]:
    """The numbers of ``1:2:3``, none for an empty text; OptionError for anything else."""
    words = text.split(":") if text else []
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise OptionError(f"expected numbers with colons between them for --{name}, found '{text}'")
    return [int(word) for word in words]
