"""The options of the window of phones, which commands about trees share."""
from __future__ import annotations

from nnet3py.cli.process.options import OptionError, Options, declared
from nnet3py.option_fields import settings_of
from nnet3py.trees.options import BuildOptions

CONTEXT = tuple(each for each in declared(settings_of(BuildOptions))
                if each.name in ("context-width", "central-position"))


def check_context(options: Options) -> None:
    """OptionError for a position outside the window."""
    if not 0 <= options.central_position < options.context_width:
        raise OptionError(f"--central-position={options.central_position} lies outside a window of "
                          f"--context-width={options.context_width} phones")
