"""Options that do nothing: their help says so, and who would get another result by them is warned, once."""
from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from paths import ROOT
from runtime_cases import TDNN, class_example

from nnet3py.cli.egs.options import MERGE
from nnet3py.cli.process.command import kaldi_command, load
from nnet3py.cli.process.option_groups import OPTIM, unprefixed
from nnet3py.cli.process.options import option
from nnet3py.cli.registry import COMMANDS
from nnet3py.egs.example import EXAMPLE
from nnet3py.io.tables import write_table
from nnet3py.network.nnet import Nnet

CLI = ROOT / "nnet3py" / "cli"
OPTIMIZER = (*(ROOT / "nnet3py/compiler/optimize").glob("*.py"), ROOT / "nnet3py/compiler/optimize_options.py")


@cache
def text_of(path: Path) -> str:
    """Code without the names of options, and of a dataclass's fields, where it declares them."""
    text = re.sub(r'\bopt(ion)?\(\s*f?"[^"]+"', "option(", path.read_text(encoding="utf-8"))
    return re.sub(r"^    \w+: [^=\n]+ = ", "    ", text, flags=re.MULTILINE)


@cache
def shared_files() -> tuple[Path, ...]:
    """Of what commands share, and the drivers, whose options are fields of dataclasses."""
    modules = {entry.module for entry in COMMANDS.values()}
    files = [path for path in CLI.rglob("*.py") if f"{path.parent.name}.{path.stem}" not in modules]
    rooms = ("drivers", "fine_tuning", "recognition", "decoding", "lattices", "export", "discriminative", "training",
             "runtime", "egs", "chain", "gaussians", "ivectors", "trees", "feat")
    files += [path for room in rooms for path in (ROOT / "nnet3py" / room).rglob("*.py")]
    files += [ROOT / "nnet3py/__init__.py", ROOT / "nnet3py/compiler/cache.py"]
    files.remove(ROOT / "nnet3py/recognition/options.py")
    return tuple(files)                  # options of features are given by their names


@cache
def declared_fields() -> dict[str, set[str]]:
    """Option -> the fields of dataclasses that declare it."""
    fields = defaultdict(set)
    for path in (ROOT / "nnet3py").rglob("*options.py"):
        for field, name in re.findall(r'^    (\w+): [^=\n]+ = opt\(\s*"([^"]+)"', path.read_text(encoding="utf-8"),
                                      re.MULTILINE):
            fields[name].add(field)
    return fields


@cache
def words_of(*paths: Path) -> frozenset[str]:
    """The words of some code, and what stands alone in quotation marks or brackets there."""
    text = "\n".join(map(text_of, paths))
    alone = re.findall(r"(?<=[\"'(])[\w.-]+(?=[\"')])", text)
    return frozenset(re.findall(r"\w+", text)) | {f"({word})" for word in alone}


def is_read(name: str, module: str) -> bool:
    """Whether some code that the command may run names the option."""
    whole = name.replace("-", "_")
    last = whole.rpartition(".")[2]
    by_optimizer = name.startswith("optimization.") or any(one.name == name for one in unprefixed(OPTIM))
    if re.fullmatch(r"(clear|save)-[io]symbols", name) and module == "fst.openfst":   # read as f"clear_{side}symbols"
        return True
    if re.fullmatch(r"(mfcc|plp|fbank)-config", name):                               # read as f"{kind}-config"
        return True
    if (name, module) == ("work-dir", "recognition.fine_tune"):                         # the field `dir` of the drivers
        return True
    own = CLI / f"{module.replace('.', '/')}.py"
    places = [words_of(*OPTIMIZER)] if by_optimizer else [words_of(own), words_of(*shared_files())]
    wanted = {last, whole.replace(".", "_"), f"({name.rpartition('.')[2]})", *declared_fields().get(name, ())}
    return not all(wanted.isdisjoint(words) for words in places)


def test_an_option_that_nothing_reads_says_that_it_has_no_effect() -> None:
    unread = [f"{name} --{one.name}" for name, entry in COMMANDS.items() for one in load(name).declared
              if not is_read(one.name, entry.module) and "No effect" not in (one.help or "")
              and "rnnlm" not in name]             # whose options a dataclass of rnnlm/folder.py takes
    assert not unread
    assert not is_read("no-such-option", "nnet.networks") and is_read("scale", "nnet.networks")


def test_words_for_doing_nothing() -> None:
    """One form of words, so that a user can search for it; and what warns says so in its help, too."""
    for name in COMMANDS:
        for one in load(name).declared:
            assert not re.search(r"[Ii]gnored|[Aa]ccepted|compatib|without effect", one.help or ""), (name, one.name)
            assert one.idle is None or re.search(r"[Nn]o effect", one.help or ""), (name, one.name)


@pytest.mark.parametrize(("idle", "words", "warnings"), [
    ("it is about another program", [], []),
    ("it is about another program", ["--idle=0"], []),
    ("it is about another program", ["--idle=2"], ["--idle=2 has no effect: it is about another program"]),
    (lambda value, options: "two" if options.other else "", ["--idle=2"], []),
    (lambda value, options: "two" if options.other else "", ["--idle=2", "--other"], ["--idle=2 has no effect: two"]),
])
def test_who_gives_an_idle_option_is_warned_once(idle, words: list[str], warnings: list[str],
                                                 capfd: pytest.CaptureFixture) -> None:
    @kaldi_command("some", "Models", "Do nothing.", "Usage: some", arguments=(0, 0), options=[
        option("idle", int, 0, "No effect", idle=idle), option("other", bool, False, "More")])
    def some(args, options):
        return 0

    assert some.execute(words) == 0
    assert re.findall(r"^WARNING .*? (--idle.*)$", capfd.readouterr().err, re.MULTILINE) == warnings


@pytest.fixture
def files(here: Path) -> None:
    Nnet.from_config(TDNN).write("final.raw")
    np.savetxt("priors.vec", np.full((1, 4), 0.25), fmt="%g", header="[", footer="]", comments="")
    write_table("ark:egs.ark", EXAMPLE, ((key, class_example(1)) for key in "ab"))


MERGED = [("--measure-output-frames=true", "Kaldi ignores this option, too"),
          ("--discard-partial-minibatches=true", "Kaldi ignores this option, too")]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("name", "words", "given", "reason"), [
    *(("nnet3-merge-egs", ["ark:egs.ark", "ark:out.ark"], *one) for one in MERGED),
    ("nnet3-shuffle-egs", ["--buffer-size=2", "ark:egs.ark", "ark:out.ark"], "--srand=1", "every seed gives the same"),
    ("nnet3-compute-prob", ["final.raw", "ark:egs.ark"], "--optimization.memory-compression-level=2",
     "nothing is compressed, and derivatives are exact"),
])
def test_commands_warn(name: str, words: list[str], given: str, reason: str, capfd: pytest.CaptureFixture) -> None:
    load(name).execute(words)
    assert "has no effect" not in capfd.readouterr().err
    load(name).execute([given, *words])
    warnings = [line for line in capfd.readouterr().err.splitlines() if "has no effect" in line]
    assert len(warnings) == 1 and warnings[0].startswith("WARNING") and f"{given.partition('=')[0]}=" in warnings[0]
    assert reason in warnings[0]


@pytest.mark.usefixtures("files")
def test_compression_that_rounds_nothing_in_kaldi_is_no_reason_to_warn(capfd: pytest.CaptureFixture) -> None:
    for level in (0, 1):
        load("nnet3-compute-prob").execute([f"--optimization.memory-compression-level={level}", "final.raw",
                                               "ark:egs.ark"])
    assert "has no effect" not in capfd.readouterr().err


def test_groups_keep_what_is_idle() -> None:
    assert all(one.idle is not None for one in (*unprefixed(OPTIM), *MERGE)
               if one.name in ("memory-compression-level", "measure-output-frames"))
