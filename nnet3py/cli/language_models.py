"""arpa2fst and arpa-to-const-arpa: n-gram models in the forms that graphs and rescoring use."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.command import kaldi_command
from nnet3py.cli.options import Options, option
from nnet3py.errors import UsageError

_WARNINGS = option("max-arpa-warnings", int, 30, "Most warnings about single lines that are shown; -1: all")


@kaldi_command("arpa-to-const-arpa", usage="""
Turn an ARPA file whose words are numbers into a const-ARPA file, which is looked up without being built first.

Usage: arpa-to-const-arpa [options] <arpa-rxfilename> <const-arpa-wxfilename>
e.g.:
 arpa-to-const-arpa --bos-symbol=1 --eos-symbol=2 lm.int.arpa G.carpa
See also: arpa2fst, lattice-lmrescore-const-arpa
""", arguments=(2, 2), options=[
    option("bos-symbol", int, -1, "Number of the word that begins sentences"),
    option("eos-symbol", int, -1, "Number of the word that ends sentences"),
    option("unk-symbol", int, -1, "Number of the word that stands for unknown ones; -1: there is none"),
    _WARNINGS,
])
def arpa_to_const_arpa(args: list[str], options: Options) -> int:
    """Convert a file."""
    from nnet3py.fst.arpa import Warner, WordIds, read_arpa
    from nnet3py.fst.const_arpa import build_const_arpa

    if options.bos_symbol == -1 or options.eos_symbol == -1:
        raise UsageError("--bos-symbol and --eos-symbol must be given",
                         "they are the numbers of <s> and </s> in words.txt")
    log.log(f"Reading {args[0]}", "BuildConstArpaLm", "const-arpa-lm.cc", 1078)
    arpa = read_arpa(args[0], WordIds(None), Warner(options.max_arpa_warnings))
    build_const_arpa(arpa, options.bos_symbol, options.eos_symbol, options.unk_symbol).write(args[1])
    return 0
