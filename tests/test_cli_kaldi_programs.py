"""Programs of Kaldi that are not here: a person is told so by name, and what to use instead."""
from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from nnet3py.cli.process.group import nnet3py
from nnet3py.cli.process.kaldi_programs import missing_programs, what_instead
from nnet3py.cli.registry import COMMANDS, PERSON_NAMES


def test_what_is_here_is_not_missing() -> None:
    assert not set(missing_programs()) & {*COMMANDS, *PERSON_NAMES}


def test_no_hint_names_a_program_that_is_missing() -> None:
    """A word of a hint that looks like a command is one, or a part of a command line beside one."""
    words = {word for hint in missing_programs().values() for word in re.findall(r"(?<![\w-])[a-z]\w*(?:-\w+)+", hint)}
    assert words - set(COMMANDS) <= set()


@pytest.mark.parametrize("name, message, hint", [
    ("process-pitch-feats", "Kaldi's program process-pitch-feats is not part of nnet3py", "use process-kaldi-pitch-"),
    ("gmm-align-compiledx", "There is no command 'gmm-align-compiledx'", "Kaldi has gmm-align-compiled, which is not"),
    ("gmm-align-compiled", "Kaldi's program gmm-align-compiled", "models other than nnet3 networks"),
    ("trian", "There is no command 'trian'", "did you mean 'train'?"),
    ("nnet3-trian", "There is no command 'nnet3-trian'", "did you mean 'nnet3-train'?"),
    ("zzz", "There is no command 'zzz'", "see nnet3py --help"),
])
def test_what_is_said(name: str, message: str, hint: str) -> None:
    assert what_instead(name)[0].startswith(message) and hint in what_instead(name)[1]
    done = CliRunner().invoke(nnet3py, [name, "--some=option", "x"])
    assert done.exit_code == 1 and done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("ERROR (nnet3py[5.5]:") and message in lines[0] and hint in lines[0]


def test_the_table_is_not_read_for_a_command_that_is_there() -> None:
    import subprocess
    import sys

    program = ("import sys; from nnet3py.cli.process.group import nnet3py; nnet3py.main(['info', '--help'], "
               "standalone_mode=False); print('nnet3py.cli.process.kaldi_programs' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
