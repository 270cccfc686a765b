"""Process that ends a driver's jobs when the driver is gone, even if it was killed.

It runs as ``python -I -S watcher.py`` with a pipe from the driver as standard input, and imports nothing of the
package but the file ``system.py``. A line ``+NUMBER`` tells of a process group that started, ``-NUMBER`` of one that
ended. At the end of the input the driver is gone, even if by SIGKILL: the groups that are left get SIGTERM, then
SIGKILL.
"""
from __future__ import annotations

import signal
import sys
from pathlib import Path

if __package__:
    from nnet3py.system import ENDING_SIGNALS, end_groups
else:
    sys.path.append(str(Path(__file__).resolve().parents[1]))      # after the standard library
    from system import ENDING_SIGNALS, end_groups  # type: ignore[no-redef]


def main() -> None:
    """Read the driver's lines from standard input; at their end, kill the process groups that still run."""
    for number in (signal.SIGINT, *ENDING_SIGNALS):
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
