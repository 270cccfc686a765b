"""The report of a training: what the page and its plots hold, and which folders are refused."""
from __future__ import annotations

import csv
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib", reason="plots are made with matplotlib")

from matplotlib.figure import Figure
from paths import ROOT

from nnet3py.cli.main import load
from nnet3py.drivers.staged import FolderLock
from nnet3py.errors import UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.report import training_page
from nnet3py.report.training_logs import Iteration, TrainLog, read_iterations
from nnet3py.report.training_page import follow, training_table, write_report
from nnet3py.report.training_plots import (
    choose_axes,
    component_values,
    effective_rates,
    split_name,
    training_plots,
)

OVERALL = "LOG (nnet3-x) Overall"
PERCENTILES = "percentiles(0,1,2,5 10,20,50,80,90 95,98,99,100)"
CONFIG = """\
input-node name=input dim=4
component name=a type=AffineComponent input-dim=4 output-dim=12
component-node name=a component=a input=input
component name=r type=SigmoidComponent dim=12
component-node name=r component=r input=a
output-node name=output input=r
"""


def summary(mean: float) -> str:
    return f"[{PERCENTILES}=({mean},{mean},{mean},{mean} {mean},{mean},{mean},{mean},{mean} {mean},{mean},{mean},1)," \
           f" mean={mean}, stddev=0.1]"


def write_training(folder: Path, iterations: int, derivative: float = 0.2) -> Path:
    """The logs of a training with two jobs an iteration."""
    log = folder / "log"
    log.mkdir(parents=True)
    for i in range(iterations):
        for job in (1, 2):
            (log / f"train.{i}.{job}.log").write_text(
                f"# nnet3-train 'nnet3-copy --learning-rate={0.002 / (i + 1)} exp/{i}.raw - |' x\n"
                f"{OVERALL} average objective function for 'output' is {-3 / (i + 1)} over 500 frames.\n"
                f"LOG (nnet3-train) For a, per-component max-change was enforced {10 * job} % of the time.\n"
                "# Accounting: time=30 threads=2\n", encoding="utf-8")
        for data, gap in (("train", 0.0), ("valid", 0.2)):
            (log / f"compute_prob_{data}.{i}.log").write_text(
                f"{OVERALL} log-likelihood for 'output' is {-3 / (i + 1) - gap} per frame, over 9\n"
                f"{OVERALL} accuracy for 'output' is {0.5 + 0.01 * i} per frame, over 9 frames.\n",
                encoding="utf-8")
        if i:
            (log / f"progress.{i}.log").write_text(
                "num-parameters: 60\n"
                "component name=a type=AffineComponent, input-dim=4, linear-params-rms=0.5\n"
                "component name=r type=SigmoidComponent, dim=12, self-repaired-proportion=0.25, "
                f"value-avg={summary(0.5)}, deriv-avg={summary(derivative)}, oderiv-rms={summary(0.01)}\n"
                "LOG (nnet3-show-progress) Relative parameter differences per layer are [ a:0.1 ]\n"
                "LOG (nnet3-show-progress) Norms of parameter matrices from <new-nnet-in> are [ a:3 ]\n",
                encoding="utf-8")
    return folder


class Page(HTMLParser):
    """The ids, texts and unclosed elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in ("meta", "!doctype", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_the_page_has_figures_facts_and_the_network(tmp_path: Path) -> None:
    folder = write_training(tmp_path / "tdnn", 4)
    Nnet.from_config(CONFIG).write(str(folder / "final.raw"))
    path = write_report([folder], tmp_path / "report")
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert not page.open and len(set(page.ids)) == len(page.ids)
    for name in ("objective-output", "accuracy-output", "learning-rate", "relative-change", "norm", "max-change",
                 "self-repair", "output-derivative", "values", "derivatives"):
        assert name in page.ids, name
        assert (path.parent / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        ElementTree.parse(path.parent / f"{name}.svg")
    assert "clipping" not in page.ids                                   # nothing in this network clips
    ElementTree.parse(path.parent / "network.svg")
    for words in ("Training of tdnn", "4,000", "0:02:00", "-0.9500 (best -0.9500)", "0.5300 (best 0.5300)", "None.",
                  "Finished."):
        assert words in page.texts, words
    assert all(f'id="{name}"' in text for name in re.findall(r'(?:url\(#|href="#)([^")]+)', text))


def test_gates_of_recurrent_cells_have_plots(tmp_path: Path) -> None:
    folder = write_training(tmp_path / "lstm", 2)
    with (folder / "log" / "progress.1.log").open("a", encoding="utf-8") as log:
        log.write("component name=l type=LstmNonlinearityComponent, input-dim=20, i_t_sigmoid={ "
                  f"self-repair-scale=1e-05, value-avg={summary(0.5)}, deriv-avg={summary(0.2)} }}\n"
                  f"component name=n type=NoOpComponent, dim=12, value-avg={summary(0.5)}\n")
    figures = training_plots({"lstm": read_iterations(folder)})
    for name in ("values", "derivatives"):
        figure = figures[name]
        assert figure is not None
        assert [axes.get_title() for axes in figure.axes if axes.get_title()] == ["r", "l i_t_sigmoid"]


@pytest.fixture
def one_plot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of a report."""
    monkeypatch.setattr(training_page, "training_plots", lambda trainings, epochs: {"norm": Figure()})


@pytest.mark.usefixtures("one_plot")
def test_warnings_of_the_monitor_stand_on_the_page(tmp_path: Path) -> None:
    path = write_report([write_training(tmp_path / "a<b", 3, derivative=0.001)], tmp_path / "report")
    page = Page(path.read_text(encoding="utf-8"))
    assert any("r is saturated" in text for text in page.texts) and "Training of a<b" in page.texts
    assert any("There is no model" in text for text in page.texts)


def test_trainings_are_compared(tmp_path: Path) -> None:
    folders = [write_training(tmp_path / name, 3) for name in ("tdnn", "lstm")]
    figures = training_plots(dict(zip(("tdnn", "lstm"), map(read_iterations, folders), strict=True)))
    [axes] = figures["objective-output"].axes
    assert [line.get_label() for line in axes.lines] == ["tdnn, training", "tdnn, held out", "lstm, training",
                                                         "lstm, held out"]
    assert list(axes.lines[0].get_ydata()) == [-3.0, -1.5, -1.0]
    assert list(figures["learning-rate"].axes[0].lines[0].get_ydata()) == [0.001, 0.0005, pytest.approx(0.001 / 3)]


def test_trainings_are_compared_over_epochs_iterations_and_time(tmp_path: Path) -> None:
    """Iterations of trainings with other schedules have little to do with each other."""
    folders = [write_training(tmp_path / name, count) for name, count in (("tdnn", 3), ("lstm", 5))]
    trainings = dict(zip(("tdnn", "lstm"), map(read_iterations, folders), strict=True))
    epochs = {"tdnn": {0: 0.0, 1: 0.5, 2: 1.0}, "lstm": {number: 0.25 * number for number in range(5)}}
    figures = training_plots(trainings, epochs)
    places = {name: [list(line.get_xdata()) for line in figures[name].axes[0].lines[::2]] for name in figures
              if name.startswith("objective")}
    assert places == {"objective-output": [[0.0, 0.5, 1.0], [0.0, 0.25, 0.5, 0.75, 1.0]],
                      "objective-output-by-iteration": [[0, 1, 2], [0, 1, 2, 3, 4]],
                      "objective-output-by-minutes": [[0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.5, 2.0]]}
    assert [figures[f"objective-output{by}"].axes[0].get_xlabel() for by in ("", "-by-iteration", "-by-minutes")] == [
        "epochs", "iteration", "minutes in training jobs"]
    text = write_report(folders, tmp_path / "report").read_text(encoding="utf-8")      # epochs are not known there
    page = Page(text)
    assert not page.open and {"axis-iteration", "axis-minutes"} <= set(page.ids) and "axis-epoch" not in page.ids
    assert re.findall(r'id="(objective[^"]*)" data-axis="(\w+)"', text) == [
        ("objective-output", "iteration"), ("objective-output-by-minutes", "minutes")]
    assert re.findall(r'id="axis-(\w+)" checked', text) == ["iteration"] and '<figure id="norm">' in text
    assert "Trainings tdnn, lstm" in page.texts
    assert "data-axis=\"" not in write_report(folders[:1], tmp_path / "one").read_text(encoding="utf-8")


@pytest.mark.parametrize("name, parts", [("objective-output", ("objective-output", "")), (
    "objective-a-by-b", ("objective-a-by-b", "")), ("learning-rate-by-hours", ("learning-rate", "hours"))])
def test_names_of_plots_say_their_axis(name: str, parts: tuple[str, str]) -> None:
    assert split_name(name) == parts


def test_without_matplotlib_all_but_the_plots_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                         capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorboardX", reason="files for TensorBoard are written with tensorboardX")
    folder = write_training(tmp_path / "tdnn", 3)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert load("nnet3-report").execute(["--tensorboard=true", str(folder)]) == 0
    page = Page((folder / "report" / "report.html").read_text(encoding="utf-8"))
    assert any("plots need the package matplotlib" in text for text in page.texts)
    assert "objective of 'output', held-out data" in page.texts and not page.open
    assert len(list((folder / "report" / "tensorboard").rglob("events.out.*"))) == 2
    assert (folder / "report" / "report.csv").exists() and not list((folder / "report").glob("*.png"))
    assert "the report is written without plots" in capfd.readouterr().err


def test_the_numbers_are_written_as_a_table(tmp_path: Path) -> None:
    folder = write_training(tmp_path / "tdnn", 2)
    with open(folder / "log" / "compute_prob_valid.0.log", "r+", encoding="utf-8") as log:
        text = log.read()
        log.seek(0)
        log.write(f"{OVERALL} log-likelihood for 'output-xent' is -9 per frame, over 9\n{text}")
    [head, first, second] = csv.reader(training_table({"tdnn": read_iterations(folder)}).splitlines())
    assert head == ["training", "iteration", "jobs", "learning_rate", "seconds", "train_objective_output",
                    "valid_objective_output", "train_objective_output-xent", "valid_objective_output-xent",
                    "train_accuracy_output", "valid_accuracy_output"]
    assert first == ["tdnn", "0", "2", "0.001", "30", "-3", "-3.2", "", "-9", "0.5", "0.5"]
    assert second == ["tdnn", "1", "2", "0.0005", "30", "-1.5", "-1.7", "", "", "0.51", "0.51"]


def test_the_first_models_do_not_flatten_the_curves(tmp_path: Path) -> None:
    trainings = (read_iterations(write_training(tmp_path / str(count), count)) for count in (4, 40))
    few, many = (training_plots({"x": iterations})["objective-output"] for iterations in trainings)
    assert -3.2 < few.axes[0].get_ylim()[0] < -1.7      # all but the untrained model
    low, high = many.axes[0].get_ylim()
    lowest_later = -3 / 5 - 0.2                         # after a tenth of the iterations
    assert 2 * lowest_later < low < lowest_later and high > -3 / 40
    assert [note.get_text() for note in many.axes[0].texts] == ["begins at -3.2, below", "iteration\nminutes"]
    assert all(tick == round(tick) for tick in [*few.axes[0].get_xticks(), *many.axes[0].get_xticks()])


def test_iterations_are_told_in_epochs_and_time(tmp_path: Path) -> None:
    iterations = read_iterations(write_training(tmp_path / "x", 5))
    epochs = {number: 0.5 * number for number in range(5)}
    [axes] = training_plots({"x": iterations}, {"x": epochs})["objective-output"].axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [
        "0\n0\n0", "1\n0.5\n0.5", "2\n1\n1", "3\n1.5\n1.5", "4\n2\n2"]
    assert axes.texts[-1].get_text() == "iteration\nepoch\nminutes"
    for job in (job for iteration in iterations for job in iteration.jobs.values()):
        job.seconds *= 240
    [axes] = training_plots({"x": iterations})["learning-rate"].axes
    assert axes.get_xticklabels()[3].get_text() == "3\n6" and axes.texts[-1].get_text() == "iteration\nhours"


@pytest.mark.usefixtures("one_plot")
def test_what_was_reached_comes_first_with_the_command(tmp_path: Path) -> None:
    folder = write_training(tmp_path / "tdnn", 3)
    (folder / "driver_options.json").write_text(
        '{"command": "train-dnn --dir=a<b", "trainer.srand": 7, "plan": {"archives": 6, "epochs": 1.5, '
        '"iterations": 4}}', encoding="utf-8")
    (folder / "log" / "compute_prob_valid.final.log").write_text(
        f"{OVERALL} log-likelihood for 'output' is -0.75 per frame, over 9\n", encoding="utf-8")
    (folder / "decode").mkdir()
    (folder / "decode" / "wer.txt").write_text("%WER 5.00 [ 50 / 1000, 1 ins, 9 del, 40 sub ]\n", encoding="utf-8")
    text = write_report([folder], tmp_path / "report").read_text(encoding="utf-8")
    texts = [words for words in Page(text).texts if words]
    order = [texts.index(words) for words in (
        "Not finished: epoch 1.50 of 1.5, iteration 2 of 3.", "word error rate, decode", "5.00 % (50 of 1,000)",
        "objective of 'output', held-out data", "-0.7500 (best -0.7500)", "objective of 'output', training data",
        "time in training jobs", "train-dnn \\\n  '--dir=a<b'", "trainer.srand")]
    assert order == sorted(order) and "http-equiv" not in text
    assert '<figure id="norm">' in text and "<figcaption>2-norm of the parameters." in text


@pytest.mark.usefixtures("one_plot")
def test_the_page_of_a_training_that_runs_is_followed(tmp_path: Path) -> None:
    folder, output = tmp_path / "tdnn", tmp_path / "report"
    folder.mkdir()
    pages, lock = [], FolderLock(folder)

    def sleep(seconds: float) -> None:
        assert seconds >= 1
        pages.append((output / "report.html").read_text(encoding="utf-8") if output.exists() else "")
        if len(pages) == 1:
            write_training(folder, 2)
        else:
            lock.__exit__(None, None, None)

    lock.__enter__()
    page = follow([folder], output, sleep=sleep)
    assert pages[0] == "" and '<meta http-equiv="refresh"' in pages[1] and "Training now" in pages[1]
    assert "http-equiv" not in page.read_text(encoding="utf-8") and len(pages) == 2
    with pytest.raises(UsageError, match="no logs"):
        follow([tmp_path], output, sleep=sleep)


def test_a_training_of_one_iteration_is_reported(tmp_path: Path) -> None:
    text = write_report([write_training(tmp_path / "new", 1)], tmp_path / "report").read_text(encoding="utf-8")
    assert "max-change" in Page(text).ids and "norm" not in Page(text).ids


@pytest.mark.usefixtures("one_plot")
def test_a_damaged_model_is_told_on_the_page(tmp_path: Path) -> None:
    folder = write_training(tmp_path / "tdnn", 2)
    (folder / "final.raw").write_bytes(b"\0B<Nnet3> nonsense")
    text = write_report([folder], tmp_path / "report").read_text(encoding="utf-8")
    assert any("final.raw cannot be drawn" in part for part in Page(text).texts)


def test_the_picture_of_the_documentation_is_made_of_its_training(tmp_path: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import make_training_picture

    svg = make_training_picture.draw(write_training(tmp_path / "x", 3))
    assert svg == make_training_picture.draw(tmp_path / "x") and "Objective per frame of 'output'" in svg
    assert re.search(r"^train-dnn (.*\\\n)*.*\Z", make_training_picture.commands().strip(), re.MULTILINE)
    picture = make_training_picture.PICTURE.read_text(encoding="utf-8")
    assert "iteration" in svg and all(f">{row}</" in picture for row in ("iteration", "epoch", "minutes"))


@pytest.mark.parametrize("seconds, unit, places", [
    (119.0, "seconds", [0.0, 119.0]), (120.0, "minutes", [0.0, 2.0]), (7199.0, "minutes", [0.0, 7199 / 60]),
    (7200.0, "hours", [0.0, 2.0])])
def test_the_unit_of_time_fits_the_longest_training(seconds: float, unit: str, places: list[float]) -> None:
    trainings = {name: [Iteration(number, {1: TrainLog(seconds=time)}) for number in (0, 1)]
                 for name, time in (("a", seconds), ("b", 1.0))}
    epochs = {"a": {0: 0.0, 1: 0.5}, "b": {0: 0.0}}
    axes = choose_axes(trainings, epochs)
    assert [axis.name for axis in axes] == ["epoch", "iteration", unit]
    assert axes[2].points("a", [(0, -2.0), (1, -1.0)]) == [(places[0], -2.0), (places[1], -1.0)]
    assert axes[0].points("b", [(0, -2.0), (1, -1.0)]) == [(0.0, -2.0)], "its second iteration is at an unknown place"
    assert axes[1].points("b", [(0, -2.0), (1, -1.0)]) == [(0.0, -2.0), (1.0, -1.0)]
    assert [axis.name for axis in choose_axes(trainings, {"a": epochs["a"]})] == ["iteration", unit]
    [alone] = choose_axes({"a": trainings["a"]}, epochs)
    assert alone.name == "iteration" and alone.rows == {"epoch": {0: 0.0, 1: 0.5}, unit: dict(enumerate(places))}


def test_values_of_components_are_means_over_jobs_and_per_cent(tmp_path: Path) -> None:
    values = component_values(read_iterations(write_training(tmp_path / "x", 3)))
    assert {name: rows for name, (_, rows, _) in values.items()} == {
        "relative-change": {"a": {1: 0.1, 2: 0.1}}, "norm": {"a": {1: 3.0, 2: 3.0}},
        "max-change": {"a": {0: 15.0, 1: 15.0, 2: 15.0}}, "self-repair": {"r": {1: 25.0, 2: 25.0}},
        "output-derivative": {"r": {1: 0.01, 2: 0.01}}, "clipping": {}}
    assert effective_rates([Iteration(4, {1: TrainLog(learning_rate=0.003), 2: TrainLog(), 3: TrainLog()}),
                            Iteration(5, {1: TrainLog(learning_rate=0.0)}), Iteration(6)]) == [(4, 0.001)]


def test_folders_that_are_no_trainings(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no logs of a training"):
        write_report([tmp_path], tmp_path / "report")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        write_report([write_training(tmp_path / "tdnn", 1)], tmp_path / "file" / "report")


@pytest.mark.usefixtures("one_plot")
def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_training(tmp_path / "tdnn", 3)
    assert load("nnet3-report").execute([str(folder)]) == 0
    assert capsys.readouterr().out.strip() == str(folder / "report" / "report.html")
    assert (folder / "report" / "report.csv").read_text(encoding="utf-8").count("\n") == 1 + 3
    assert load("nnet3-monitor").execute([str(folder)]) == 0
    assert capsys.readouterr().out == "no problems in 3 iterations\n"
    assert load("nnet3-monitor").execute([str(tmp_path)]) != 0
