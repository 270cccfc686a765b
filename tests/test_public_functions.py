"""Every public function has somebody who uses it: the package, a page, a recipe or a benchmark; not tests alone.

That tests enter them all is what ``make coverage`` says.
"""
from __future__ import annotations

import ast
import re
from collections import Counter

import entered
from paths import ROOT, is_command, tree

FOR_OTHERS = {
    "allowed_phones", "log10_prob", "forced_launch", "disconnect_logging",
    "intervals_of",                                                                           # what tests look at
    "num_streams", "predict_proba", "predict_log_proba",                                     # scikit-learn's names
    "read_discriminative_egs", "read_supervisions", "set_learning_rate_factor",               # as their siblings
    "make_parser", "get_command", "format_commands",                                          # called by click
    "get_model_by_name", "get_model_by_lang",                                                 # vosk's names
    "extra_repr",                                                                             # called by torch
}


def words_of(*patterns: str) -> Counter[str]:
    """How often each word occurs in the files."""
    texts = (path.read_text(encoding="utf-8", errors="ignore") for pattern in patterns for path in ROOT.glob(pattern))
    return Counter(word for text in texts for word in re.findall(r"\w+", text))


def functions_of_commands() -> set[str]:
    """The functions that are decorated as commands, which users call by the command's name."""
    return {node.name for path in (ROOT / "nnet3py" / "cli").rglob("*.py")
            for node in tree(path).body if isinstance(node, ast.FunctionDef) and is_command(node)}


def test_public_functions_are_used() -> None:
    package = words_of("nnet3py/**/*.py")
    elsewhere = words_of("docs/*.md", "README.md", "benchmarks/*.py", "egs/**/*.sh", "egs/**/*.py")
    shown = {name for path in (ROOT / "nnet3py" / "components").glob("*.py")            # names in information texts
             for name in re.findall(r'"([a-z]+(?:-[a-z]+)+)"', path.read_text(encoding="utf-8"))}
    commands = functions_of_commands()
    unused = [(file, function) for file, function in entered.not_entered(set())
              for name in [function.rpartition(".")[2]] if package[name] < 2 and name not in elsewhere
              and name not in FOR_OTHERS | commands and name.replace("_", "-") not in shown]
    assert not unused, "remove these, make them private, or say in FOR_OTHERS whom they are for"
