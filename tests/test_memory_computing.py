"""Computing very many utterances takes no more memory than computing some (benchmarks/memory_computing.py)."""
from __future__ import annotations

from pathlib import Path

import memory_computing
import numpy as np
import pytest
from digits_cases import CONFIG

from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import SequentialReader
from nnet3py.network.nnet import Nnet

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is not shown on this system")

MOST_GROWTH_MB = 4.0        # of the allocator's, over 3,000 utterances of few lengths: 1.3 KB each would be noticed
MOST_GROWTH_LONG_MB = 8.0   # over 10,000 of 260 frames: their outputs would be 290 MB


@pytest.fixture
def net(tmp_path: Path) -> Path:
    Nnet.from_config(CONFIG).write(str(tmp_path / "nnet.raw"))
    return tmp_path / "nnet.raw"


@pytest.mark.parametrize("command", memory_computing.COMMANDS)
def test_many_short_utterances(net: Path, command: str) -> None:
    assert memory_computing.growth(memory_computing.measure(command, net, 6000, 10)) < MOST_GROWTH_MB


@pytest.mark.slow
@pytest.mark.parametrize("command", memory_computing.COMMANDS)
def test_very_many_utterances(net: Path, command: str) -> None:
    assert memory_computing.growth(memory_computing.measure(command, net, 20_000, 2000)) < MOST_GROWTH_LONG_MB


def test_the_utterances_are_what_they_should_be(tmp_path: Path) -> None:
    matrices = [np.full((n, memory_computing.DIM), n, np.float32) for n in (1, 7)]
    (tmp_path / "ark").write_bytes(b"".join(memory_computing.entry(f"u{i}", m) for i, m in enumerate(matrices)))
    with SequentialReader(f"ark:{tmp_path / 'ark'}", FLOAT_MATRIX) as reader:
        assert [(key, value.shape) for key, value in reader] == [("u0", (1, 40)), ("u1", (7, 40))]
    found = memory_computing.lengths(5000, 2000)
    assert found.min() == 1 and 1990 < found.max() <= 2000 and np.median(found) < 60
