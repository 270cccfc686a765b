"""Everything is in setup.cfg; this adds the launchers with Kaldi's names to what is built, and compiled kernels.

``NNET3PY_WHEEL`` names the machine, such as x86_64, whose kernels ``make dist`` has left in ``build/kernels``.
"""
import os
import re
import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).resolve().parent))
from nnet3py.cli.machine.bin_files import write_launchers  # noqa: E402

KERNELS = Path(__file__).resolve().parent / "build" / "kernels"
SITE = Path(__file__).resolve().parent / "build" / "site"       # make docs


def package_page():
    """README.md for a package page, where links into the repository lead nowhere: they become plain text."""
    text = (Path(__file__).resolve().parent / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\[([^\]]+)\]\((?![a-z]+://|#)[^)]+\)", r"\1", text)


class BuildWithLaunchers(build_py):
    """Writes ``launchers``, ``site`` (the documentation that was built) and ``kernels`` into the built package."""

    def run(self):
        super().run()
        self.written = []
        if not self.editable_mode:
            package, machine = Path(self.build_lib, "nnet3py"), os.environ.get("NNET3PY_WHEEL", "")
            self.written += write_launchers(package / "launchers", installed=True)
            if (SITE / "index.html").is_file():
                self.copy_all(SITE, package / "site")
            shutil.rmtree(package / "kernels", ignore_errors=True)      # of another machine's wheel
            if machine:
                self.copy_all(KERNELS / machine, package / "kernels")

    def copy_all(self, source, target):
        files = [path for path in sorted(source.rglob("*")) if path.is_file()]
        if not files:
            raise SystemExit(f"setup.py: there is nothing in {source}")
        for path in files:
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            self.written.append(copy)

    def get_outputs(self, include_bytecode=True):
        return [*super().get_outputs(include_bytecode), *map(str, getattr(self, "written", []))]


setup(cmdclass={"build_py": BuildWithLaunchers}, long_description=package_page(),
      long_description_content_type="text/markdown")
