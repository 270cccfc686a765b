"""Rounds of training, and the way back to the old parameters, with stand-ins for what takes minutes."""
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from nnet3py.acoustic_model import read_model
from nnet3py.errors import UsageError
from nnet3py.fine_tuning import train
from nnet3py.fine_tuning.folder import Scored
from nnet3py.fine_tuning.plan import FineTuneOptions, WorkFolder
from nnet3py.network.model_file import read_nnet
from nnet3py.recognition.model_folder import demo_folder

BACK = "back.0.25", "back.0.5"


class Rounds(train._Rounds):
    """Rounds whose objectives are given; what was trained, and from what, is noted."""

    def __init__(self, work: WorkFolder, options: FineTuneOptions, objectives: Mapping[str, float]) -> None:
        super().__init__(work, options, None, None, 3)      # type: ignore[arg-type]
        self.objectives = objectives
        self.trained: list[tuple[int, str, float, float]] = []

    def train(self, number: int, start: Path, rate: float, num_epochs: float) -> Path:
        self.trained.append((number, start.name, pytest.approx(rate), pytest.approx(num_epochs)))
        raw = self.work.train / f"round.{number}.raw"
        raw.write_bytes(self.old.read_bytes())
        return raw

    def objective(self, raw: Path, name: str) -> float:
        assert raw.is_file()
        return self.objectives[name]


@pytest.fixture
def work(tmp_path: Path) -> WorkFolder:
    folder = WorkFolder(tmp_path)
    folder.train.mkdir()
    read_nnet(f"{demo_folder()}/am/final.mdl").write(folder.train / "old.raw")
    return folder


@pytest.mark.parametrize("options, objectives, trained, kept, best, after", [
    ({"num_epochs": 2.5}, [-0.5, -0.4, -0.3, -0.2], [(1, "old.raw", 0.001, 1), (2, "round.1.raw", 0.0006, 1),
                                                     (3, "round.2.raw", 0.00036, 0.5)],
     [1, 1, 1, 1], "round.3.raw", -0.2),
    ({"num_epochs": 2, "learning_rate": 0.01}, [-0.5, -0.4, -0.6, -0.39995, -0.1],
     [(1, "old.raw", 0.01, 1), (2, "round.1.raw", 0.006, 1), (3, "round.1.raw", 0.0018, 1)], [1, 1, 0, 0],
     "round.1.raw", -0.4),
    ({"num_epochs": 2}, [-0.5, -0.6, -0.4998, -0.49], [(1, "old.raw", 0.001, 1), (2, "old.raw", 0.0003, 1),
                                                       (3, "round.2.raw", 0.00018, 1)],
     [1, 0, 1, 1], "round.3.raw", -0.49),
    ({"num_epochs": 2}, [-0.5, -0.5 + 1e-4, -0.6], [(1, "old.raw", 0.001, 1), (2, "old.raw", 0.0003, 1)], [1, 0, 0],
     "old.raw", -0.5),
    ({"num_epochs": 0}, [-0.5], [], [1], "old.raw", -0.5)])
def test_rounds_that_do_not_gain_are_discarded(
        work: WorkFolder, options: dict[str, float], objectives: list[float],
        trained: list[tuple[int, str, float, float]], kept: list[int], best: str, after: float) -> None:
    names = ["old", *(f"round.{number}" for number in range(1, len(objectives)))]
    rounds = Rounds(work, FineTuneOptions(**options), dict(zip(names, objectives, strict=True)) | dict.fromkeys(
        BACK, -9.0))      # type: ignore[arg-type]
    path, choice = rounds.run()
    assert rounds.trained == trained and path.name == best
    rates = [0.0, *(rate for _, _, rate, _ in trained)]
    assert choice.pop("rounds") == [
        {"round": number, "learning_rate": pytest.approx(rates[number]), "objective": objectives[number],
         "kept": bool(its)} for number, its in enumerate(kept)]
    assert choice == {"is_old": best == "old.raw", "objective_before": -0.5, "objective_after": after,
                      "epochs": sum(length for (*_, length), its in zip(trained, kept[1:], strict=True) if its),
                      "way_back": 0.0, "layers": "all"}


@pytest.mark.parametrize("objectives, name, objective, back", [
    ((-0.3, -0.2), "back.0.5.raw", -0.2, 0.5), ((-0.3, -0.35), "back.0.25.raw", -0.3, 0.25),
    ((-0.4, -0.4), "back.0.5.raw", -0.4, 0.5), ((-0.41, -0.1), "round.1.raw", -0.4, 0.0)])
def test_the_way_back_is_gone_as_long_as_it_helps(work: WorkFolder, objectives: tuple[float, float], name: str,
                                                  objective: float, back: float) -> None:
    rounds = Rounds(work, FineTuneOptions(num_epochs=1.0), {"old": -0.5, "round.1": -0.4} | dict(
        zip(BACK, objectives, strict=True)))
    nnet = read_nnet(str(rounds.old))
    last = nnet.copy()
    last.scale(3.0)
    last.write(work.train / "round.1.raw")
    path, *rest = rounds.way_back(work.train / "round.1.raw", -0.4)
    assert (path.name, *rest) == (name, objective, back)
    assert read_nnet(str(path)).squares() == pytest.approx((3.0 - 2.0 * back) ** 2 * nnet.squares(), rel=1e-5)


def test_rounds_of_other_options_are_removed(work: WorkFolder) -> None:
    old = (work.train / "old.raw").read_bytes()
    nnet = read_nnet(str(work.train / "old.raw"))
    made = [work.train / name for name in ("round.1", "round.1.raw", "log", "forgetting", "den.fst")]
    for options, is_left in (({}, False), ({"nj": 7}, True), ({"layers": "upper"}, False)):
        for path in made:
            path.touch() if path.suffix else path.mkdir(exist_ok=True)
        Rounds(work, FineTuneOptions(**options), {}).prepare(nnet.copy())      # type: ignore[arg-type]
        assert [path.name for path in made if path.exists()] == [
            path.name for path in made if is_left or path.name == "den.fst"]
    learning = train._learning(read_nnet(str(work.train / "old.raw")))
    factors = train.rate_factors(nnet, "upper")
    assert {name: component.learning_rate_factor for name, component in learning.items()} == factors
    assert not any(component.l2_regularize for component in learning.values())
    assert (work.train / "old.raw").read_bytes() != old
    train._restored(restored := read_nnet(str(work.train / "old.raw")), nnet)
    for name, component in train._learning(restored).items():
        before = train._learning(nnet)[name]
        assert [getattr(component, setting) == getattr(before, setting) for setting in (
            "learning_rate_factor", "learning_rate", "l2_regularize")] == [True] * 3


def test_each_half_of_the_layers() -> None:
    nnet = read_nnet(f"{demo_folder()}/am/final.mdl")
    names = list(train._learning(nnet))
    half = len(names) // 2
    for layers, lower, upper in (("lower", 1.0, 0.0), ("upper", 0.0, 1.0), ("all", 0.5, 1.0)):
        assert list(train.rate_factors(nnet, layers).values()) == [lower] * half + [upper] * (len(names) - half)
    for name in names[half:]:
        train._learning(nnet)[name].learning_rate_factor = 0.0
    assert set(list(train.rate_factors(nnet, "all").values())[half:]) == {0.0}
    with pytest.raises(UsageError) as error:
        train.rate_factors(nnet, "upper")
    assert str(error.value).startswith(
        f"--layers=upper: nothing would be trained, since {', '.join(sorted(names[half:]))} are frozen (their ")


@pytest.mark.parametrize("enough, part, tried", [
    (0.0, 0.0, [0.8, 0.5, 0.25, 0.0]), (0.25, 0.25, [0.8, 0.5, 0.25, 0.0]), (0.6, 0.7, [0.8, 0.5, 0.7]),
    (0.8, 0.8, [0.8, 0.5, 0.7]), (0.81, 0.85, [0.8, 0.93, 0.9, 0.85]), (0.95, 0.96, [0.8, 0.93, 0.96]),
    (0.97, 1.0, [0.8, 0.93, 0.96])])
@pytest.mark.parametrize("limit", [2, 3])
def test_the_least_fraction_of_old_parameters_that_keeps_old_tests(
        enough: float, part: float, tried: list[float], limit: int, tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1000 words one was wrong before: 0.1 or 0.2 per cent more are one or two."""
    work = WorkFolder(tmp_path)
    model = read_model(Path(demo_folder()) / "am" / "final.mdl")
    model.nnet.scale(0.25)
    work.model.mkdir()
    trained = model.nnet.copy()
    trained.scale(3.0)
    scores: list[float] = []

    def score(folder: str | Path, data: Path, kept: Path) -> Scored:
        assert data == work.data("old_test")
        if folder != options.model:
            scores.append(float(kept.name.removeprefix("back.").removesuffix(".json")))
        wrong = 1 if folder == options.model else limit if scores[-1] >= enough else limit + 1
        return Scored({"u": ["a"] * 1000}, {"u": ["b"] * wrong + ["a"] * (1000 - wrong)}, {"u": "s"})

    monkeypatch.setattr(train, "score", score)
    for name in ("write_folder", "replace_model"):
        monkeypatch.setattr(train, name, lambda *_, **__: None)
    options = FineTuneOptions(model=demo_folder(), max_forgetting=0.1 * (limit - 1))
    back = train.interpolate_for_old_test(work, options, trained, model)
    assert (back.part, scores, back.words) == (part, tried, 1000)
    assert back.errors == {1.0: 1} | {each: limit if each >= enough else limit + 1 for each in tried}
    np.testing.assert_allclose(back.nnet.squares(), (3.0 - 2.0 * part) ** 2 * model.nnet.squares(), rtol=1e-4)
