"""What commands that compute chunks of many utterances at a time share: options and the source of utterances."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.nnet.utterances import IvectorSource
from nnet3py.cli.process.options import declared
from nnet3py.errors import Nnet3Error, within
from nnet3py.option_fields import settings_of
from nnet3py.runtime.options import BatchOptions

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.io.tables import TableWriter
    from nnet3py.runtime.cutting import Utterance

BATCH = declared(settings_of(BatchOptions))


class MissingData(Nnet3Error):
    """What an utterance needs is not there. The message is the whole warning."""


class UtteranceSource:
    """Features as utterances, counted. One that lacks something has an error, so that warnings come in order.

    ``utterance(key, features)`` makes one from features that are not empty; MissingData for what it lacks.
    """

    def __init__(self, features: Any, utterance: Callable[[str, np.ndarray], Utterance]) -> None:
        self._features, self._utterance = features, utterance
        self.num_read = self.num_frames = 0

    def __iter__(self) -> Iterator[Utterance]:
        from nnet3py.runtime.cutting import Utterance

        for key, feats in self._features:
            self.num_read += 1
            try:
                if len(feats) == 0:
                    raise MissingData(f"Zero-length utterance: {key}")
                utterance = self._utterance(key, feats)
            except MissingData as error:
                yield Utterance(key, feats, error=error)
                continue
            self.num_frames += len(feats)
            yield utterance


def with_ivectors(features: Any, ivectors: IvectorSource) -> UtteranceSource:
    """Utterances with their i-vectors."""
    from nnet3py.runtime.cutting import Utterance

    def utterance(key: str, feats: np.ndarray) -> Utterance:
        try:
            with within(f"utterance {key}"):
                return Utterance(key, feats, *ivectors.find(key))
        except KeyError as error:
            raise MissingData(f"No {error.args[0]} available for utterance {key}") from None

    return UtteranceSource(features, utterance)


def warn_of(key: str, error: Nnet3Error) -> None:
    """Warn of an utterance that was not computed."""
    log.warning(str(error) if isinstance(error, MissingData) else f"Skipping utterance {key}: {error}")


def write_outputs(writer: TableWriter[np.ndarray], outputs: Iterable[tuple[str, np.ndarray | Nnet3Error]],
                  apply_exp: bool = False) -> int:
    """Write what was computed of utterances, or exp of it, and warn of those that were not; how many were written."""
    import numpy as np

    num_written = 0
    for key, output in outputs:
        if not isinstance(output, np.ndarray):
            warn_of(key, output)
            continue
        writer.write(key, np.exp(output) if apply_exp else output)
        num_written += 1
    return num_written
