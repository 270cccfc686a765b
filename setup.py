"""Everything is in setup.cfg; this adds the launchers with Kaldi's names to what is built."""
import re
import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).resolve().parent))
from nnet3py.cli.bin_files import write_launchers  # noqa: E402

SITE = Path(__file__).resolve().parent / "build" / "site"       # make docs


def package_page():
    """README.md for a package page, where links into the repository lead nowhere: they become plain text."""
    text = (Path(__file__).resolve().parent / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\[([^\]]+)\]\((?![a-z]+://|#)[^)]+\)", r"\1", text)


class BuildWithLaunchers(build_py):
    """Writes ``nnet3py/launchers`` into the build folder, and ``nnet3py/site``, the documentation that was built."""

    def run(self):
        super().run()
        if not self.editable_mode:
            self.launchers = write_launchers(Path(self.build_lib, "nnet3py", "launchers"), installed=True)
            for path in sorted(SITE.rglob("*")) if (SITE / "index.html").is_file() else []:
                if path.is_file():
                    target = Path(self.build_lib, "nnet3py", "site", path.relative_to(SITE))
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, target)
                    self.launchers.append(target)

    def get_outputs(self, include_bytecode=True):
        return [*super().get_outputs(include_bytecode), *map(str, getattr(self, "launchers", []))]


setup(cmdclass={"build_py": BuildWithLaunchers}, long_description=package_page(),
      long_description_content_type="text/markdown")
