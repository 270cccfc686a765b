"""What the commands of chain training share: the options of the objective, and examples by language."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from nnet3py.cli.process.options import Options
from nnet3py.errors import within

if TYPE_CHECKING:
    from nnet3py.egs.chain_example import NnetChainExample
    from nnet3py.training.chain_objective import ChainOptions

DEFAULT_LANGUAGE = "default"


def chain_options(options: Options) -> ChainOptions:
    """The objective's options from the ``CHAIN`` group; UsageError for values that make no sense."""
    from nnet3py.training.chain_objective import ChainOptions

    result = ChainOptions(
        l2_regularize=options.l2_regularize, out_of_range_regularize=options.out_of_range_regularize,
        leaky_hmm_coefficient=options.leaky_hmm_coefficient, xent_regularize=options.xent_regularize,
        lwf_scale=options.lwf_scale, lwf_den_scale=options.lwf_den_scale,
        numerator_graph_threads=options.numerator_graph_threads)
    result.check()
    return result


def examples(reader: Iterable[tuple[str, NnetChainExample]],
             by_language: bool) -> Iterator[tuple[str, NnetChainExample]]:
    """Keys and chain examples; ``by_language``: the outputs ``output`` are renamed to those of the key's language.

    A thread reads ahead.
    """
    from nnet3py.egs.example import examples_ahead
    from nnet3py.egs.sequence_egs import language_of, rename_outputs

    for key, eg in examples_ahead(reader):
        if by_language:
            with within(f"example {key}"):
                rename_outputs(eg, language_of(key) or DEFAULT_LANGUAGE)
        yield key, eg
