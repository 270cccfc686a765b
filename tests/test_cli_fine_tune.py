"""nnet3py fine-tune as a command: what --check says, and what it refuses."""
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT
from recognition_cases import SOUNDS
from test_fine_tuning_data import folder_with

from nnet3py.cli.main import load
from nnet3py.cli.recognition.fine_tune import fine_tune
from nnet3py.cli.registry import PERSON_NAMES
from nnet3py.recognition.model_folder import demo_folder

PAGE = (ROOT / "docs" / "fine-tuning.md").read_text(encoding="utf-8")


def test_check_says_what_can_be_done(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = folder_with(tmp_path / "data", 10)
    assert fine_tune.execute(["--demo", "--check", str(folder)]) == 0
    said = capfd.readouterr().out
    assert "The model can be fine-tuned; words can be added" in said and "10 utterances can be used" in said
    (folder / "good0.txt").unlink()
    assert fine_tune.execute(["--check", demo_folder(), str(folder)]) == 1
    said = capfd.readouterr().out
    assert "no text: 1, 1 of them set aside" in said and "cannot be used for training: only 9 of 10 utterances" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]         # nothing is written


def test_check_tries_what_comes_later(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = folder_with(tmp_path / "data", 12)
    (folder / "good0.txt").write_text("zorp")
    lexicon = tmp_path / "lexicon.txt"
    for phones, can, code in (("s t 0 p", "can be fine-tuned; words", 0), ("QQ", "cannot be fine-tuned: --lexicon", 1)):
        lexicon.write_text(f"zorp {phones}\n")
        assert fine_tune.execute(["--demo", "--check", f"--lexicon={lexicon}", str(folder)]) == code
        said = capfd.readouterr().out
        assert said.startswith(f"The model {can}"), said
        assert code or "the lexicon was recovered from the graph: 574 words" in said


@pytest.mark.parametrize("args, message", [
    (["--demo", "data"], "no out was given"), (["--demo", "--out=new", "model", "data"], "but model was given, too"),
    (["--demo", "data", "--out=new", "--layers=first"], "expected one of last, upper, lower, all"),
    (["--demo", "data", "--out=new", "--lm-order=0"], "--lm-order=0: expected 1 or more"),
    (["--demo", "nothing", "--out=new"], "there is no nothing"), (["nothing", "data", "--check"], "no model folder")])
def test_what_it_refuses(args: list[str], message: str, here: Path,
                         capfd: pytest.CaptureFixture[str]) -> None:
    (here / "data").mkdir()
    assert fine_tune.execute(args) != 0
    assert message in capfd.readouterr().err


@pytest.mark.slow
def test_what_the_page_shows(here: Path,
                             capfd: pytest.CaptureFixture[str]) -> None:
    if shutil.which("espeak-ng") is None:
        pytest.skip("there is no espeak-ng")
    recipe = ROOT / "egs" / "english_digits_and_commands" / "local" / "make_new_voice.py"
    counts = "--num-train", "40", "--num-test", "1", "--num-old", "1"
    subprocess.run([sys.executable, str(recipe), "--out", "voice", *counts], check=True)
    texts = dict(line.split(" ", 1) for line in (here / "voice/train/text").read_text().splitlines())
    sounds = dict(line.split(" ", 1) for line in (here / "voice/train/wav.scp").read_text().splitlines())
    rows = [f"{here / place},{texts[key]},child\n" for key, place in sounds.items()]
    (here / "recordings.csv").write_text("file,text,speaker\n" + "".join(rows))
    (here / "vosk-model-small-ko-0.22").symlink_to(demo_folder())
    shutil.copy(SOUNDS[0], "a.wav")
    for line in re.findall(r"^nnet3py (.*)$", PAGE, re.MULTILINE):
        name, *args = line.split()
        assert load(PERSON_NAMES[name]).execute(args) == 0, capfd.readouterr().err
    said = capfd.readouterr().out
    assert "words that the model lacks" in said and "it is in my-model" in said
    names: dict = {}
    code = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
    exec(compile(code, "docs/fine-tuning.md", "exec"), names)
    scores = names["made"].scores
    assert names["made"].is_new and scores["new"]["held_out"]["errors"] < scores["old"]["held_out"]["errors"]
    assert "vacuum" in names["recognizer"].words


def test_the_page_names_options_that_there_are() -> None:
    options = set(re.findall(r"`--([a-z0-9-]+)", PAGE)) | set(re.findall(r"fine-tune .*--([a-z-]+)", PAGE))
    assert len(options) > 15 and options <= {option.name for option in fine_tune.declared}
