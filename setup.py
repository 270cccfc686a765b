"""Everything is in setup.cfg; this adds the launchers with Kaldi's names to what is built."""
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).resolve().parent))
from nnet3py.cli.bin_files import write_launchers  # noqa: E402


class BuildWithLaunchers(build_py):
    """Writes ``nnet3py/launchers`` into the build folder."""

    def run(self):
        super().run()
        if not self.editable_mode:
            self.launchers = write_launchers(Path(self.build_lib, "nnet3py", "launchers"), installed=True)

    def get_outputs(self, include_bytecode=True):
        return [*super().get_outputs(include_bytecode), *map(str, getattr(self, "launchers", []))]


setup(cmdclass={"build_py": BuildWithLaunchers})
