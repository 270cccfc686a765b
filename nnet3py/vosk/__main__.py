"""``python -m nnet3py.vosk program.py [arguments]``: a program that imports vosk runs with nnet3py in its place."""
from __future__ import annotations

import os
import runpy
import sys

import nnet3py.vosk

_USAGE = "usage: python -m nnet3py.vosk PROGRAM [ARGUMENT ...]\n   or: python -m nnet3py.vosk -m MODULE [ARGUMENT ...]"


def main() -> None:
    """Run the program as ``python program.py`` does: as ``__main__``, with its arguments and its folder on the path."""
    args = sys.argv[1:]
    if not args or args[0] in ("-h", "--help") or args == ["-m"]:
        print(_USAGE, file=sys.stdout if args and args[0] != "-m" else sys.stderr)
        sys.exit(0 if args and args[0] != "-m" else 2)
    sys.modules["vosk"] = nnet3py.vosk
    if args[0] == "-m":
        sys.argv = args[1:]
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
        return
    if not os.path.isfile(args[0]):
        sys.exit(f"python -m nnet3py.vosk: there is no program {args[0]}")
    sys.argv = args
    sys.path[0] = os.path.dirname(os.path.abspath(args[0]))
    runpy.run_path(args[0], run_name="__main__")


if __name__ == "__main__":
    main()
