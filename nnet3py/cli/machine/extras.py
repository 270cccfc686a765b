"""nnet3-extras: optional packages, and the commands that install them."""
from __future__ import annotations

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError


@kaldi_command("nnet3-extras", group="Start here", help="Show what more can be installed, for words or plots, and how.",
               usage="""
Show which optional packages are installed, which only some things need, such as word decoding, and the command that
installs the missing ones into the Python that runs this command. The exit status is 1 if something that was asked for
is missing.

Usage:  nnet3-extras [options] [<extra> ...]

e.g.:
 nnet3-extras
 nnet3-extras decode || echo "no words then"
""", arguments=(0, 100), options=[
    option("python", bool, False, "Print the Python that runs the commands, and nothing else"),
])
def extras(args: list[str], options: Options) -> int:
    """Print a line for each; 1 if one that was named is not complete."""
    import sys

    from nnet3py.extras import EXTRAS, install_command, missing_packages
    from nnet3py.io.streams import write_text

    if options.python:
        write_text("-", f"{sys.executable}\n")
        return 0
    unknown = [name for name in args if name not in EXTRAS]
    if unknown:
        raise UsageError(f"there is no extra '{unknown[0]}'", f"expected some of {', '.join(EXTRAS)}")
    lines, missing = [], False
    for name in args or EXTRAS:
        packages = missing_packages(name)
        missing |= bool(packages)
        state = f"{', '.join(packages)} missing; install: {install_command(name)}" if packages else "installed"
        lines.append(f"{name:9} {EXTRAS[name]}: {state}")
    write_text("-", "\n".join(lines) + "\n")
    return 1 if missing and args else 0
