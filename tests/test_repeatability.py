"""The same seed gives the same bytes, whatever the number of threads: the training commands on digits.

``test_processor.py`` runs this file for every kind of processor.
"""
from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from digits_cases import DATA as DIGITS
from digits_cases import RECIPE
from driver_chain_cases import CHAIN, FEAT_DIM, NUM_PDFS

from nnet3py.cli.alignments.posteriors import ali_to_post
from nnet3py.cli.chain.train import train as chain_train
from nnet3py.cli.egs.get import get_egs
from nnet3py.cli.egs.rearrange import chain_merge_egs, merge_egs
from nnet3py.cli.training.train import train
from nnet3py.formats.holders import FLOAT_MATRIX, read_matrices
from nnet3py.io.tables import write_table
from nnet3py.network.nnet import Nnet
from nnet3py.xconfig.expand import expand

THREADS = (1, 2, 3)                  # of the trainings that must give the same
MORE_THREADS = (1, 1, 2, 2, 3)       # of the slow tests, which train longer
UTTERANCES, ALL = 15, 10 ** 6        # of the digits
USED = ("relu", "tdnnf", "linear", "prefinal", "output")      # layers of the recipe's TDNN-F
CHAIN_LAYERS = """
relu-batchnorm-layer name=tdnn1 dim=256 input=Append(-2,-1,0,1,2)
tdnnf-layer name=tdnnf2 dim=256 bottleneck-dim=64 time-stride=1
prefinal-layer name=prefinal big-dim=256 small-dim=64
"""

pytestmark = pytest.mark.usefixtures("threads_as_before")


def as_xconfig(layers: str) -> str:
    """The config of a network of these layers between features and pdfs of the digits."""
    return expand(f"input dim={FEAT_DIM} name=input\n{layers}\n").final


def frame_networks() -> dict[str, str]:
    """The recipe's TDNN, TDNN-F and LSTM, without transforms that need files or masks that are drawn."""
    lines = (RECIPE / "conf" / "tdnnf.xconfig").read_text(encoding="utf-8").splitlines()
    layers = [line for line in lines if line.split(maxsplit=1)[0].startswith(USED)]
    return {"tdnn": (RECIPE / "conf" / "tdnn.config").read_text(encoding="utf-8"),
            "tdnnf": as_xconfig("\n".join(layers)),
            "lstm": (RECIPE / "conf" / "lstm.config").read_text(encoding="utf-8")}


def write_frame_egs(folder: Path, count: int) -> None:
    """egs.ark: minibatches of 64 times 8 frames of the first utterances."""
    write_table(f"ark:{folder / 'feats.ark'}", FLOAT_MATRIX,
                islice(read_matrices(f"ark:{DIGITS / 'feats.ark'}"), count))
    assert ali_to_post.execute([f"ark,t:{DIGITS / 'ali.txt'}", f"ark:{folder / 'post.ark'}"]) == 0
    assert get_egs.execute(["--num-pdfs=28", "--left-context=28", "--right-context=28", "--num-frames=8",
                            f"ark:{folder / 'feats.ark'}", f"ark:{folder / 'post.ark'}",
                            f"ark:{folder / 'single.ark'}"]) == 0
    assert merge_egs.execute(["--minibatch-size=64", f"ark:{folder / 'single.ark'}", f"ark:{folder / 'egs.ark'}"]) == 0


def models(folder: Path, command, config: str, *files: str, counts: tuple[int, ...] = THREADS) -> list[bytes]:
    """What trainings with so many threads make of a network."""
    Nnet.from_config(config, seed=1).write(str(folder / "0.raw"))
    found = []
    for count in counts:
        assert command.execute(["--srand=3", f"--num-threads={count}", "--max-param-change=2.0",
                                str(folder / "0.raw"), *files, str(folder / "1.raw")]) == 0
        found.append((folder / "1.raw").read_bytes())
    assert found[0] != (folder / "0.raw").read_bytes()
    return found


@pytest.mark.parametrize("utterances", [UTTERANCES, pytest.param(ALL, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["tdnn", "tdnnf", "lstm"])
def test_frames(name: str, utterances: int, tmp_path: Path) -> None:
    write_frame_egs(tmp_path, utterances)
    first, *others = models(tmp_path, train, frame_networks()[name], f"ark:{tmp_path / 'egs.ark'}",
                            counts=MORE_THREADS if utterances == ALL else THREADS)
    assert [other == first for other in others] == [True] * len(others)


def test_chains(tmp_path: Path) -> None:
    merged = f"ark:{tmp_path / 'merged.cegs'}"
    assert chain_merge_egs.execute(["--minibatch-size=4", f"ark:{CHAIN / 'cegs.ark'}", merged]) == 0
    config = as_xconfig(f"{CHAIN_LAYERS}\noutput-layer name=output include-log-softmax=false dim={NUM_PDFS}\n"
                        f"output-layer name=output-xent input=prefinal dim={NUM_PDFS}")
    first, *others = models(tmp_path, chain_train, config, str(CHAIN / "den.fst"), merged)
    assert [other == first for other in others] == [True] * len(others)
