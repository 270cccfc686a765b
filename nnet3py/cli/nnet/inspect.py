"""nnet3-inspect: what a model or a model folder holds, and what it lacks."""
from __future__ import annotations

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option


@kaldi_command("nnet3-inspect", group="Start here", help="Show what a model or its folder holds, and what it lacks.",
               usage="""
Show what a model or a model folder holds, and what is missing for computing, training or decoding with it, and for
recognizing sound. A folder may be that of a training, with final.mdl in it, or that of a model published for
recognition, with am/final.mdl.

Usage:  nnet3-inspect [options] <model-or-folder>

e.g.:
 nnet3-inspect final.mdl
 nnet3-inspect --json exp/chain/tdnn
""", arguments=(1, 1), options=[
    option("json", bool, False, "Print JSON, for programs"),
])
def inspect(args: list[str], options: Options) -> int:
    """Print a table, or JSON."""
    from nnet3py.inspection import inspect as look
    from nnet3py.io.streams import write_text

    inspection = look(args[0])
    if options.json:
        import json

        write_text("-", json.dumps(inspection.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        write_text("-", inspection.text())
    return 0
