"""The models of a server: which folders they are, and what happens when the folders change."""
from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from recognition_cases import PACKAGE

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.recognition.model_folder import files_of_model
from nnet3py.recognition.server.models import ModelLoader, ServedModels, model_places


def make_model(folder: Path, content: str = "sound") -> Path:
    """A folder that looks like a model, which :func:`read` reads."""
    (folder / "am").mkdir(parents=True)
    (folder / "am" / "final.mdl").write_text(content)
    return folder


def read(path: str) -> str:
    content = (Path(path) / "am" / "final.mdl").read_text()
    if content == "broken":
        raise Nnet3Error(f"{path}/am/final.mdl: this is no model")
    if content == "worse":
        raise MemoryError("so much")
    return content


def files(path: str) -> list[str]:
    return [str(file) for file in Path(path).rglob("*") if file.is_file()]


def loaded(*paths: Path, default: str = "") -> ModelLoader:
    loader = ModelLoader([str(path) for path in paths], read, files, default)
    loader.load()
    return loader


def contents(models: ServedModels) -> dict[str, str]:
    return {name: model.recognizer for name, model in models.by_name.items()}


def test_where_models_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, models = make_model(tmp_path / "one"), tmp_path / "models"
    ko, en = make_model(models / "ko"), make_model(models / "en")
    make_model(models / ".hidden")
    (models / "notes").mkdir()
    assert model_places([str(one)]) == {"one": str(one)}
    assert model_places([str(models)]) == {"en": str(en), "ko": str(ko)}
    assert list(model_places([str(one), str(models)])) == ["one", "en", "ko"]
    assert model_places([str(models)], ["notes"])["notes"] == str(models / "notes")
    assert model_places([str(one / "am" / "final.mdl")]) == {"am": str(one / "am" / "final.mdl")}
    assert model_places([str(tmp_path / "none")]) == {"none": str(tmp_path / "none")}
    monkeypatch.chdir(one)
    assert model_places(["."]) == {"one": "."}
    (tmp_path / "current").symlink_to(one)
    assert list(model_places([str(tmp_path / "current")])) == ["current"]
    with pytest.raises(UsageError, match="two models have the name ko"):
        model_places([str(ko), str(models)])


def test_the_default(tmp_path: Path) -> None:
    make_model(tmp_path / "ko", "Korean")
    make_model(tmp_path / "en", "English")
    first = loaded(tmp_path).models
    assert contents(first) == {"en": "English", "ko": "Korean"} and first.default is first.by_name["en"]
    chosen = loaded(tmp_path, default="ko").models
    assert chosen.default is chosen.by_name["ko"] and list(chosen.by_name) == ["ko", "en"]
    with pytest.raises(UsageError, match="--default-model=fr: expected one of en, ko"):
        loaded(tmp_path, default="fr")
    assert ServedModels().default is None and ServedModels().named("ko") is None


def test_what_changed_is_read_again_and_nothing_else(tmp_path: Path) -> None:
    make_model(tmp_path / "ko", "Korean")
    make_model(tmp_path / "en", "English")
    models = loaded(tmp_path)
    first = models.models
    assert models.reload() == (first, [], [])
    make_model(tmp_path / "new", "newer Korean")
    (tmp_path / "ko").rename(tmp_path / ".old")
    (tmp_path / "new").rename(tmp_path / "ko")
    make_model(tmp_path / "de", "German")
    second, changes, problems = models.reload()
    assert contents(second) == {"de": "German", "en": "English", "ko": "newer Korean"} and problems == []
    assert changes == ["model de is new", "model ko is read again"]
    assert second.by_name["en"] is first.by_name["en"] and contents(first)["ko"] == "Korean"
    shutil.rmtree(tmp_path / "de")
    third, changes, problems = models.reload()
    assert (contents(third), changes, problems) == (
        {"en": "English", "ko": "newer Korean"}, ["model de is no longer there"], [])


@pytest.mark.parametrize("content, reason", [
    ("broken", "this is no model"), ("worse", "MemoryError: so much"), (None, "No such file")])
def test_what_cannot_be_read_is_served_as_before(tmp_path: Path, content: str | None, reason: str) -> None:
    make_model(tmp_path / "ko", "Korean")
    make_model(tmp_path / "en", "English")
    models = loaded(tmp_path)
    first = models.models
    if content is None:
        (tmp_path / "ko" / "am" / "final.mdl").unlink()        # also what does not look like a model any more
    else:
        (tmp_path / "ko" / "am" / "final.mdl").write_text(content)
    (tmp_path / "en" / "am" / "final.mdl").write_text("British English")
    second, changes, problems = models.reload()
    assert contents(second) == {"en": "British English", "ko": "Korean"}
    assert second.by_name["ko"] is first.by_name["ko"] and changes == ["model en is read again"]
    assert len(problems) == 1 and problems[0].startswith("model ko: ") and reason in problems[0]
    (tmp_path / "ko" / "am" / "final.mdl").write_text("better Korean")
    assert contents(models.reload().models) == {"en": "British English", "ko": "better Korean"}


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    one = loaded(make_model(tmp_path / "one"))
    first = one.models
    shutil.rmtree(tmp_path / "one")
    models, changes, problems = one.reload()
    assert contents(models) == contents(first) == {"one": "sound"} and changes == [] and len(problems) == 1

    make_model(tmp_path / "several" / "ko", "Korean")
    make_model(tmp_path / "several" / "en", "English")
    several = loaded(tmp_path / "several", default="ko")
    shutil.rmtree(tmp_path / "several" / "ko")
    models, changes, problems = several.reload()
    assert contents(models) == {"ko": "Korean", "en": "English"} and changes == []
    assert problems == [f"model ko, the default, is gone from {tmp_path / 'several'}"]


def test_two_of_one_name_at_a_reload(tmp_path: Path) -> None:
    make_model(tmp_path / "more" / "en")
    models = loaded(make_model(tmp_path / "ko"), tmp_path / "more")
    first = models.models
    make_model(tmp_path / "more" / "ko")
    reloaded = models.reload()
    assert reloaded.models is first and "two models have the name ko" in reloaded.problems[0]


def test_files_of_a_model(tmp_path: Path) -> None:
    """Also a graph that is elsewhere counts."""
    folder, graph = tmp_path / "package", tmp_path / "graph"
    shutil.copytree(PACKAGE, folder)
    (folder / "graph").rename(graph)
    (folder / "graph").symlink_to(graph)
    names = {os.path.relpath(file, folder) for file in files_of_model(folder)}
    assert {"am/final.mdl", "conf/model.conf", "graph/HCLG.fst", "graph/words.txt"} <= names
    assert all(os.path.isfile(file) for file in files_of_model(folder, graph))
