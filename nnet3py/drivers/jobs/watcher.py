"""The process that ends a driver's jobs when the driver is gone, however it went.

It runs as ``python -I -S watcher.py`` with a pipe from the driver as standard input, and imports nothing of the
package. A line ``+NUMBER`` tells of a process group that started, ``-NUMBER`` of one that ended. At the end of the
input the driver is gone, if only by SIGKILL: the groups that are left get SIGTERM, then SIGKILL.
"""
from __future__ import annotations

import os
import signal
import sys
import time

PATIENCE = 2.0   # seconds between SIGTERM, at which commands remove their temporary files, and SIGKILL
_POLL = 0.02     # seconds


def end_groups(groups: set[int]) -> None:
    """End process groups: SIGTERM, and SIGKILL for those that are still there after ``PATIENCE`` seconds."""
    for group in groups:
        _send(group, signal.SIGTERM)
    left = _living(groups)
    deadline = time.monotonic() + PATIENCE
    while left and time.monotonic() < deadline:
        time.sleep(_POLL)
        left = _living(left)
    for group in left:
        _send(group, signal.SIGKILL)


def _send(group: int, number: int) -> bool:
    """Send a signal (0 only asks) to a process group; returns whether the group exists."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass             # a member changed its user, or (macOS) only zombies are left
    return True


def _living(groups: set[int]) -> set[int]:
    """Those process groups that have a member which has not ended."""
    alive = {group for group in groups if _send(group, 0)}
    if not alive or not os.path.exists("/proc/self/stat"):
        return alive
    # In a container, nobody may be there to collect those that have ended: they would seem to exist for ever.
    living = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stream:
                    state, _, group = stream.read().rpartition(b")")[2].split()[:3]
            except OSError:
                continue                 # it went away meanwhile
            if state not in b"ZX":
                living.add(int(group))
    return alive & living


def main() -> None:
    """Follow the driver's lines, and end the groups that are left at the end of the input."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)      # what is meant for the driver must not end its watcher first
    groups: set[int] = set()
    for line in sys.stdin:
        sign, group = line[0], int(line[1:])
        if sign == "+":
            groups.add(group)
        else:
            groups.discard(group)
    end_groups(groups)


if __name__ == "__main__":
    main()
