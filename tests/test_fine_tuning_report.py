"""Fine-tuning as a whole: stages that resume, the report, and which model stays."""
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.fine_tuning import fine_tuning, report
from nnet3py.fine_tuning.fine_tuning import STAGES, fine_tune
from nnet3py.fine_tuning.plan import FineTuneOptions, WorkFolder
from nnet3py.fine_tuning.requirements import Requirements, requirements
from nnet3py.recognition.model_folder import demo_folder

REFERENCES = {"a-1": "call jupiter now", "a-2": "set a timer"}
OLD_TESTS = {"o-1": "good morning", "o-2": "good night"}


def write_work(work: WorkFolder, held_out: tuple[str, str], old_test: tuple[str, str] | None = None) -> None:
    """What stages before the report leave; ``held_out`` and ``old_test`` are what is recognized in the end."""
    parts = {"train": (REFERENCES, None), "held_out": (REFERENCES, held_out), "old_test": (OLD_TESTS, old_test)}
    work.recognized.mkdir(parents=True)
    work.lang.mkdir()
    for part, (texts, new) in parts.items():
        if part != "train" and new is None:
            continue
        work.data(part).mkdir(parents=True)
        for name, of_key in (("text", texts.get), ("utt2spk", lambda key: key[0]), ("utt2dur", lambda key: "30")):
            (work.data(part) / name).write_text("".join(f"{key} {of_key(key)}\n" for key in texts))
        if new is not None:
            old = dict(texts) if part == "old_test" else {"a-1": "call you now", "a-2": "set a time"}
            for model, its in (("old", old.values()), ("new", new)):
                (work.recognized / f"{part}.{model}.json").write_text(json.dumps(
                    dict(zip(texts, map(str.split, its), strict=True))))
    work.problems_json.write_text('[{"key": "b", "kind": "silence", "message": "nothing", "is_fatal": true}]')
    (work.lang / "new_words.txt").write_text("jupiter learned dZ u: p I t 3\n")
    work.new_model.mkdir()
    (work.new_model / "is_new").touch()


def options_for(tmp_path: Path) -> FineTuneOptions:
    """Options with a folder to work in."""
    (tmp_path / "data").mkdir(exist_ok=True)
    options = FineTuneOptions(model=demo_folder(), data=str(tmp_path / "data"), out=str(tmp_path / "new"))
    options.check()
    return options


def test_a_better_model_is_put_where_it_was_asked_for(tmp_path: Path) -> None:
    options = options_for(tmp_path)
    work = WorkFolder(options.dir)
    write_work(work, ("call jupiter now", "set a time"), tuple(OLD_TESTS.values()))
    work.align.mkdir()
    work.set_aside.write_text("a-3 too quiet: 0.1\na-4 too quiet: 0.2\n")
    work.times.write_text('{"align": 2.5, "egs": 1.0}')
    work.train.mkdir()
    work.choice.write_text('{"epochs": 2.0, "rounds": [1]}')
    report.run(work, options)
    assert (tmp_path / "new" / "is_new").is_file()
    scores = json.loads(work.scores.read_text())
    assert scores["is_accepted"]
    assert [scores[model]["held_out"]["errors"] for model in ("old", "new")] == [2, 1]
    for text in (work.report_text.read_text(), work.report_page.read_text()):
        assert "33.33 % before, 16.67 % after" in text and "dZ u: p I t 3" in text and "silence" in text
    text = work.report_text.read_text()
    tables, rest = text[text.index("Word error rates\n"):].split("Time and memory")
    assert [re.split("  +", line.strip()) for line in tables.splitlines() if line] == [
        ["Word error rates"], ["words", "before", "after", "change"],
        ["held-out part of the new data", "6", "33.33 %", "16.67 %", "-50 % of the errors"],
        ["test set of the old domain", "4", "0.00 %", "0.00 %", "as before"],
        ["Speakers"], ["speaker", "learned from", "minutes", "held out", "before", "after"],
        ["a", "2", "1.0", "2", "33.33 %", "16.67 %"],
        ["New words (in held-out data)"], ["word", "source", "phones", "said", "before", "after"],
        ["jupiter", "learned", "dZ u: p I t 3", "1", "0", "1"],
        ["Utterances that were not used"], ["set aside", "utterances"], ["too quiet", "2"], ["silence", "1"]]
    assert re.search(r"align +2.5 s\negs +1.0 s\ntogether, without this report +3.5 s\n", rest)
    assert "\nchosen: epochs " in rest and "chosen: rounds" not in rest and "\nsrand " in rest
    examples = rest[rest.index("Held-out utterances with errors"):]
    assert "a-2" in examples and "a-1" not in examples
    report.run(work, options)                    # ended before its stage was marked as done
    assert json.loads(work.scores.read_text()) == scores


@pytest.mark.parametrize("held_out, old_test, why", [
    (("you", "set a timer", ), None, "rate rose on the held-out part"),
    (("call jupiter now", "set a timer"), ("good morning", "bad night"), "rate rose on the test set of the old")])
def test_a_worse_model_leaves_the_old_one(tmp_path: Path, held_out: tuple[str, str], old_test: tuple[str, str] | None,
                                          why: str) -> None:
    options = options_for(tmp_path)
    work = WorkFolder(options.dir)
    write_work(work, held_out, old_test)
    report.run(work, options)
    assert not (tmp_path / "new").exists() and (work.new_model / "is_new").is_file()
    assert why in work.report_text.read_text()
    assert "old model stays" in work.report_page.read_text()


def test_it_goes_on_where_it_was_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fails = ["train"]

    def stage(name: str) -> Callable[..., None]:
        def run(work: WorkFolder, options: FineTuneOptions, *_: object) -> None:
            if name in fails:
                raise Nnet3Error("the power went")
            done.append(name)
            if name == "report":
                Path(options.out).mkdir()
                work.published.touch()
                work.report_text.write_text("good")
                work.scores.write_text('{"is_accepted": true}')
        return run

    for name in STAGES:
        monkeypatch.setattr(f"nnet3py.fine_tuning.{name}.run", stage(name))
    (tmp_path / "data").mkdir()
    arguments = demo_folder(), tmp_path / "data", tmp_path / "new"
    with pytest.raises(Nnet3Error, match="power"):
        fine_tune(*arguments)
    assert done == list(STAGES[:6])
    fails.clear()
    made = fine_tune(*arguments)
    assert done == list(STAGES) and made.is_new and made.path == str(tmp_path / "new") and made.report == "good"
    assert fine_tune(*arguments).is_new and done == list(STAGES)          # nothing is done again
    with pytest.raises(UsageError, match="begun with other options"):
        fine_tune(*arguments, layers="last")
    (tmp_path / "other").mkdir()
    for out, options, what in (("other", {}, "exists already"), ("third", {"old_test": "x"}, "there is no x")):
        with pytest.raises(UsageError, match=what):
            fine_tune(*arguments[:2], tmp_path / out, **options)
    with pytest.raises(UsageError, match="no field layer"):
        fine_tune(*arguments, layer="last")


def write_stages(monkeypatch: pytest.MonkeyPatch, log: Path, killed_at: str = "") -> None:
    """Stand-ins for all stages, which write what they are and note that they ran; one ends its process halfway."""
    def stage(name: str) -> Callable[..., None]:
        def run(work: WorkFolder, options: FineTuneOptions, *_: object) -> None:
            with log.open("a") as stream:
                stream.write(f"{name}\n")
            made, number = work.path / f"{name}.made", STAGES.index(name)
            made.write_text("half")
            if name == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            made.write_text((work.path / f"{STAGES[number - 1]}.made").read_text() + name if number else name)
            if name == "folder":
                work.new_model.mkdir(exist_ok=True)
                (work.new_model / "is_new").touch()
            if name == "report":
                work.report_text.write_text("good")
                work.scores.write_text('{"is_accepted": true}')
                report.publish(work, options.out)
        return run

    for name in STAGES:
        monkeypatch.setattr(f"nnet3py.fine_tuning.{name}.run", stage(name))
    monkeypatch.setattr(fine_tuning, "requirements", lambda model: Requirements())       # which takes a while


@pytest.mark.parametrize("killed_at", STAGES)
def test_killed_at_any_stage_it_goes_on_to_the_same(killed_at: str, tmp_path: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    arguments, log = (demo_folder(), tmp_path / "data", tmp_path / "new"), tmp_path / "ran"
    with monkeypatch.context() as patches:
        write_stages(patches, log, killed_at)
        child = os.fork()
        if not child:
            fine_tune(*arguments)                # never returns
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    write_stages(monkeypatch, log)
    made = fine_tune(*arguments)
    number = STAGES.index(killed_at)
    assert log.read_text().split() == [*STAGES[:number + 1], *STAGES[number:]]     # only what was cut off is repeated
    assert made.is_new and (tmp_path / "new" / "is_new").is_file()
    assert (tmp_path / "new.work" / "report.made").read_text() == "".join(STAGES)


def test_a_folder_made_anew_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    options = options_for(tmp_path)
    work = WorkFolder(options.dir)
    write_work(work, ("call jupiter now", "set a timer"))
    report.run(work, options)
    for path in (work.new_model, work.new_model / "is_newer"):          # as after --stage=7
        path.mkdir()
    work.scores.unlink()
    fine_tuning.FineTuning(options).begin()                             # killed meanwhile, it may go on
    report.run(work, options)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["is_newer"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "new", "new.work"]


@pytest.mark.parametrize("killed_in", ["write_text", "publish", "replace"])
def test_a_report_that_is_cut_off_anywhere_is_finished(killed_in: str, tmp_path: Path,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    options = options_for(tmp_path)
    work = WorkFolder(options.dir)
    write_work(work, ("call jupiter now", "set a timer"))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patches:
        if killed_in == "replace":
            patches.setattr(report, "os", SimpleNamespace(**{**vars(os), "replace": killed}))
        else:
            patches.setattr(report, killed_in, killed)
        with pytest.raises(KeyboardInterrupt):
            report.run(work, options)
    assert not (tmp_path / "new").exists()
    report.run(work, options)
    assert (tmp_path / "new" / "is_new").is_file() and json.loads(work.scores.read_text())["is_accepted"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "new", "new.work"]     # no pieces are left


def test_what_a_folder_allows(tmp_path: Path) -> None:
    needed = requirements(demo_folder())
    assert needed.can_fine_tune and needed.can_add_words
    (tmp_path / "empty").mkdir()
    needed = requirements(tmp_path / "empty")
    assert not needed.can_fine_tune and "no acoustic model" in needed.notes[0]
