"""Where the launchers with Kaldi's program names lie, for the PATH of jobs."""
from __future__ import annotations

from pathlib import Path

from nnet3py.errors import Nnet3Error

PACKAGE = Path(__file__).resolve().parent.parent.parent
CHECKOUT_FOLDER = PACKAGE.parent / "bin"
INSTALLED_FOLDER = PACKAGE / "launchers"


def launcher_folder() -> Path:
    """The folder to put on PATH: of the installed package, or ``bin/`` of the checkout."""
    for folder in (INSTALLED_FOLDER, CHECKOUT_FOLDER):
        if (folder / "nnet3-info").is_file():
            return folder
    raise Nnet3Error(f"No launchers lie in {INSTALLED_FOLDER} or {CHECKOUT_FOLDER}",
                     "install the package again")
