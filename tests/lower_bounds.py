"""Prints the lowest versions that setup.cfg allows, as constraints for pip: ``make test-oldest`` installs these.

Where a requirement depends on the system, its marker is kept.
"""
from __future__ import annotations

import configparser
from pathlib import Path

EXTRAS = ("test", "lint")


def lower_bounds(setup: str) -> list[str]:
    """``name==version`` of every requirement of the package and of what its tests need."""
    config = configparser.ConfigParser()
    config.read_string(setup)
    lines = [config["options"]["install_requires"], *(config["options.extras_require"][extra] for extra in EXTRAS)]
    return sorted({line.strip().replace(">=", "==") for text in lines for line in text.splitlines() if line.strip()})


if __name__ == "__main__":
    print("\n".join(lower_bounds((Path(__file__).resolve().parent.parent / "setup.cfg").read_text(encoding="utf-8"))))
