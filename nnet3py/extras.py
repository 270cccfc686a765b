"""Optional packages: whether they are installed, and the command that installs them. Light."""
from __future__ import annotations

import os
import re
import sys
from typing import Any

# Purpose of each extra. Those for developers (test, lint, dist) are installed by make.
EXTRAS = {
    "decode": "graphs for decoding and alignment",
    "chain": "chain examples that are not constrained to an alignment",
    "serve": "recognition as a service, for other programs and browsers",
    "listen": "recognition from a microphone",
    "sound": "files of sound other than WAVE: FLAC, Ogg, MP3",
    "media": "sound of telephones, browsers and videos: m4a, webm, mp4, amr, wma",
    "plot": "plots of a training",
    "tensorboard": "a training as TensorBoard shows it",
    "dask": "training jobs on other machines",
    "cuda": "a GPU, where no CUDA toolkit is installed",
    "onnx": "models as ONNX files, and their runtime",
    "torch": "models as torch modules, archives as torch data sets, LF-MMI as a loss of torch",
    "sklearn": "networks as estimators of scikit-learn",
    "safetensors": "weights as safetensors files",
    "bench": "benchmarks beside PyTorch and kaldi-decoder",
}
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def is_checkout() -> bool:
    """Return whether nnet3py is imported from a checkout of its repository, not from an installed wheel."""
    return os.path.isfile(os.path.join(_ROOT, "setup.cfg"))


def install_command(extra: str) -> str:
    """Return the shell command that installs an extra of nnet3py, from the checkout or the package index."""
    from shlex import quote

    pip = f"{quote(sys.executable)} -m pip install"
    if not is_checkout():
        return f"{pip} 'nnet3py[{extra}]'"
    if os.path.realpath(sys.prefix) == os.path.realpath(os.path.join(_ROOT, ".venv")):
        return f"cd {quote(_ROOT)} && .venv/bin/python -m pip install -e '.[{extra}]'"
    return f"{pip} -e {quote(f'{_ROOT}[{extra}]')}"


def load(module: str, purpose: str, extra: str, package: str = "") -> Any:
    """Import a module of an optional package.

    Parameters
    ----------
    purpose : beginning of the message, such as ``a microphone needs``
    extra : extra that installs the package
    package : name of the package in the message; empty for the module's name

    Raises
    ------
    Nnet3Error : the package is not installed; the hint is the command that installs it
    """
    from importlib import import_module

    from nnet3py.errors import Nnet3Error

    try:
        return import_module(module)
    except ImportError as error:
        raise Nnet3Error(f"{purpose} the package {package or module} ({error})", install_command(extra)) from None


def missing_packages(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed, with their required versions."""
    from importlib.metadata import PackageNotFoundError, distribution

    missing = []
    for requirement in _requirements(extra):
        try:
            distribution(re.match(r"[\w.-]+", requirement)[0])        # type: ignore[index]
        except PackageNotFoundError:
            missing.append(requirement)
    return missing


def _requirements(extra: str) -> list[str]:
    """Return the requirements of an extra on this platform, such as ``kaldifst>=1.7``."""
    if is_checkout():          # setup.cfg is up to date, the metadata of the installation may be older
        from configparser import ConfigParser

        parser = ConfigParser(interpolation=None)
        parser.read(os.path.join(_ROOT, "setup.cfg"), encoding="utf-8")
        lines = parser["options.extras_require"][extra].split("\n")
    else:
        from importlib.metadata import requires

        lines = [line for line in requires("nnet3py") or [] if re.search(rf"""extra == ["']{extra}["']""", line)]
    requirements = [line.partition(";")[::2] for line in lines if line.strip()]
    return [name.strip() for name, marker in requirements
            if sys.platform == "linux" or 'sys_platform == "linux"' not in marker]
