#!/usr/bin/env python3
"""Run a command; then print a line with its time, its processor time, and the memory of its largest process.

    local/measured.py COMMAND [ARGUMENT ...]
"""
from __future__ import annotations

import resource
import subprocess
import sys
import time


def main() -> None:
    """Exits as the command does."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    begun = time.monotonic()
    status = subprocess.run(sys.argv[1:]).returncode
    wall, used = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{wall / 60:.1f} minutes, {(used.ru_utime + used.ru_stime) / 60:.1f} minutes of processor time, "
          f"{used.ru_maxrss / 1024:.0f} MB")
    sys.exit(status)


if __name__ == "__main__":
    main()
