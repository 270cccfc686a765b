"""nnet3-average: the weighted average of several networks."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError


@kaldi_command("nnet3-average", group="Models", help="Average the parameters of several networks.", usage="""
Write the weighted average of several networks of the same structure.

Usage:  nnet3-average [options] <model1> <model2> ... <modelN> <model-out>

e.g.:
 nnet3-average 1.1.nnet 1.2.nnet 1.3.nnet 2.nnet
""", arguments=(2, None), options=[
    BINARY,
    option("weights", str, "", "Weights of the models, separated by colons and scaled to a sum of one (empty: equal)"),
    option("num-threads", int, -1, "No effect: models are averaged one after another"),
])
def average(args: list[str], options: Options) -> int:
    """Average networks, component statistics included."""
    from nnet3py.network.model_file import read_nnet
    from nnet3py.training.averaging import average_nnets, normalized_weights

    *sources, target = args
    weights = normalized_weights(_parse_weights(options.weights), len(sources))
    result = average_nnets(((source, read_nnet(source)) for source in sources), weights)
    result.write(target, binary=options.binary)
    log.log(f"Averaged parameters of {len(sources)} neural nets, and wrote to {target}")
    return 0


def _parse_weights(text: str) -> list[float] | None:
    if not text:
        return None
    try:
        return [float(part) for part in text.split(":")]
    except ValueError:
        raise UsageError(f"--weights={text} is not a list of numbers separated by colons",
                         "for example --weights=0.25:0.75") from None
