"""The options of the window of phones, which commands about trees share."""
from __future__ import annotations

from nnet3py.cli.process.options import OptionError, Options, option

CONTEXT = (option("context-width", int, 3, "Phones in the window of the tree"),
           option("central-position", int, 1, "Which phone of the window is the one that is modeled, from 0"))


def check_context(options: Options) -> None:
    """OptionError for a position outside the window."""
    if not 0 <= options.central_position < options.context_width:
        raise OptionError(f"--central-position={options.central_position} lies outside a window of "
                          f"--context-width={options.context_width} phones")
