"""nnet3-combine: the best average of the last models of a training."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY, DEVICE
from nnet3py.cli.process.options import Options, declared, fields_from
from nnet3py.option_fields import settings_of
from nnet3py.training.options import CombineOptions


@kaldi_command("nnet3-combine", group="Training", help="Find the best average of the last models of a training.",
               usage="""
Average the last models of a training: of the first model alone, of the first two, the first three and so on, write the
average that has the best objective on (merged) validation examples. Give the newest model first. Batch-norm statistics
are computed again for it, on these examples.

Usage:  nnet3-combine [options] <nnet-in1> <nnet-in2> ... <nnet-inN> <valid-examples-in> <nnet-out>

e.g.:
 nnet3-combine 35.raw 34.raw 33.raw 'ark:nnet3-merge-egs --minibatch-size=1:64 ark:combine.egs ark:- |' final.raw
""", arguments=(3, None), options=[
    BINARY,
    *declared(settings_of(CombineOptions)),
    *DEVICE,
])
def combine(args: list[str], options: Options) -> int:
    """Write the best average of models."""
    from nnet3py.cli.process.compute_setup import compiler_options, set_up
    from nnet3py.egs.example import read_egs
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.diagnostics import combine_nnets
    from nnet3py.training.options import CombineOptions

    *sources, examples, target = args
    combine_options = fields_from(options, CombineOptions(
        compiler=compiler_options(options), device=set_up(options)))
    combine_options.check()
    egs = [eg for _, eg in read_egs(examples)]
    log.log(f"Read {len(egs)} examples.")
    nnets = ((source, read_nnet(source)) for source in sources)
    result = combine_nnets(nnets, len(sources), egs, combine_options)
    result.nnet.write(target, binary=options.binary)
    log.log(f"Finished combining neural nets, wrote model to {target}")
    return 0
