"""The option ``--channel`` of the commands that compute features of sound."""
from __future__ import annotations

from nnet3py import log


def chosen_channel(key: str, count: int, wanted: int) -> int | None:
    """The channel to take of so many, for an option ``--channel``; None, with a warning, if there is no such."""
    if wanted < 0:
        if count != 1:
            log.warning(f"Channel not specified but you have data with {count} channels; defaulting to zero [{key}]")
        return 0
    if wanted >= count:
        log.warning(f"File with id {key} has {count} channels but you specified channel {wanted}, producing no output.")
        return None
    return wanted
