"""What commands that compute chunks of many utterances at a time share: options and the source of utterances."""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.options import Options, option
from nnet3py.cli.utterances import IvectorSource

if TYPE_CHECKING:
    from nnet3py.runtime.batch import BatchOptions, Utterance

BATCH = (
    option("minibatch-size", int, 128, "Chunks that are computed at a time"),
    option("edge-minibatch-size", int, 32, "The same, of first and last chunks, where their context is another"),
    option("ensure-exact-final-context", bool, False,
           "Compute utterances shorter than a chunk by themselves, not continued with copies of their last frame"),
    option("partial-minibatch-factor", float, 0.5,
           "Minibatches that are not full have this times the full size, or this times that, and so on"),
)


def batch_options(options: Options) -> BatchOptions:
    """What the ``BATCH`` options ask for."""
    from nnet3py.runtime.batch import BatchOptions

    return BatchOptions(
        minibatch_size=options.minibatch_size, edge_minibatch_size=options.edge_minibatch_size,
        ensure_exact_final_context=options.ensure_exact_final_context,
        partial_minibatch_factor=options.partial_minibatch_factor)


class UtteranceSource:
    """Features with their i-vectors; warns of utterances that lack either."""

    def __init__(self, features: Any, ivectors: IvectorSource) -> None:
        self._features, self._ivectors = features, ivectors
        self.num_read = 0

    def __iter__(self) -> Iterator[Utterance]:
        from nnet3py.runtime.batch import Utterance

        for key, feats in self._features:
            self.num_read += 1
            if len(feats) == 0:
                log.warning(f"Zero-length utterance: {key}")
                continue
            try:
                found = self._ivectors.find(key)
            except KeyError as error:
                log.warning(f"No {error.args[0]} available for utterance {key}")
                continue
            yield Utterance(key, feats, *found)
