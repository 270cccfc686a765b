"""A training for TensorBoard: the curves, and the files, read back."""
from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from nnet3py.errors import UsageError
from nnet3py.report.tensorboard import Scalar, scalars, write_events
from nnet3py.report.training_logs import Iteration, ProgressLog, TrainLog

END = 1_700_000_000.0


def training() -> list[Iteration]:
    jobs = [{1: TrainLog(seconds=20.0, learning_rate=0.002), 2: TrainLog(seconds=30.0, learning_rate=0.002)},
            {1: TrainLog(seconds=10.0, learning_rate=0.001)}]
    key = ("output", "objective")
    return [Iteration(0, jobs[0], {key: -3.0}, {key: -3.5}),
            Iteration(1, jobs[1], {key: -1.0}, {key: -1.5}, ProgressLog(norms={"a": 7.0}))]


def test_curves_of_both_data_share_charts() -> None:
    assert list(scalars(training())) == [
        Scalar("train", "objective/output", 0, -3.0), Scalar("train", "objective/output", 1, -1.0),
        Scalar("valid", "objective/output", 0, -3.5), Scalar("valid", "objective/output", 1, -1.5),
        Scalar("train", "training/learning_rate", 0, 0.001), Scalar("train", "training/learning_rate", 1, 0.001),
        Scalar("train", "training/seconds", 0, 30.0), Scalar("train", "training/jobs", 0, 2.0),
        Scalar("train", "training/seconds", 1, 10.0), Scalar("train", "training/jobs", 1, 1.0),
        Scalar("train", "norm/a", 1, 7.0)]


def events(folder: Path) -> list[Any]:
    """The events of the one file in a folder: each a length, its checksum, the message, its checksum."""
    from tensorboardX.proto.event_pb2 import Event

    [path] = folder.iterdir()
    data, result = path.read_bytes(), []
    while data:
        [length] = struct.unpack("<Q", data[:8])
        result.append(Event.FromString(data[12:12 + length]))
        data = data[16 + length:]
    return result


def test_files_are_replaced(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="files for TensorBoard are written with tensorboardX")
    for end in (END - 5.0, END):
        assert write_events({"tdnn": training()}, tmp_path, end) == tmp_path
    [version, *points] = events(tmp_path / "tdnn" / "valid")
    assert version.file_version == "brain.Event:2"
    assert [(event.step, event.wall_time) for event in points] == [(0, END - 30.0), (1, END)]
    [value] = points[1].summary.value
    assert value.tag == "objective/output" and value.simple_value == -1.5
    assert len(events(tmp_path / "tdnn" / "train")) == 1 + 9
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        write_events({"tdnn": training()}, tmp_path / "file", END)
