"""The commands that copy, merge, shuffle and select chain and discriminative examples."""
from __future__ import annotations

from pathlib import Path

import pytest
from sequence_samples import MERGED, SINGLE, discriminative

from nnet3py.cli.main import load
from nnet3py.egs.chain_example import CHAIN_EXAMPLE, read_chain_egs
from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE, read_discriminative_egs
from nnet3py.io.tables import write_table

EGS = f"ark:{SINGLE}"
KEYS = [key for key, _ in read_chain_egs(EGS)]


def run(name: str, *words: str) -> int:
    return load(name).execute(list(words))


def keys(path: str) -> list[str]:
    return [key for key, _ in read_chain_egs(f"ark:{path}")]


@pytest.fixture(autouse=True)
def folder(here: Path) -> Path:
    return here


@pytest.fixture
def degs() -> str:
    write_table("ark:degs", DISCRIMINATIVE_EXAMPLE, {f"d{i}": discriminative() for i in range(7)})
    return "ark:degs"


def test_chain_copies_are_exact(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("nnet3-chain-copy-egs", EGS, "ark:out") == 0
    assert (folder / "out").read_bytes() == SINGLE.read_bytes()
    assert "Read 16 neural-network training examples, wrote 16, 0 examples had errors." in capfd.readouterr().err
    assert run("nnet3-chain-copy-egs", EGS, "ark,t:text") == run("nnet3-chain-copy-egs", "ark:text", "ark,t:text2") == 0
    assert (folder / "text").read_bytes() == (folder / "text2").read_bytes()
    assert run("nnet3-chain-copy-egs", "ark:text", "ark:back") == 0 and keys("back") == KEYS


def test_chain_copies_changed(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "w").write_text("".join(f"{key} 0.5\n" for key in KEYS[1:]))
    (folder / "n").write_text("".join(f"{key} output-2\n" for key in KEYS))
    changes = ["--weights=ark:w", "--outputs=ark:n", "--frame-shift=2"]
    assert run("nnet3-chain-copy-egs", *changes, EGS, "ark:a", "ark:b") == 0
    assert "wrote 15, 1 examples had errors." in capfd.readouterr().err
    assert keys("a") == KEYS[1::2] and keys("b") == KEYS[2::2]
    _, changed = next(read_chain_egs("ark:a"))
    output = changed.outputs[0]
    assert (output.name, output.supervision.weight, int(output.indexes[0, 1])) == ("output-2", 0.5, 3)
    assert run("nnet3-chain-copy-egs", "--left-context=3", "--right-context=2", EGS, "ark:c") == 0
    assert len(next(read_chain_egs("ark:c"))[1].inputs[0].indexes) < 42
    assert run("nnet3-chain-copy-egs", "--keep-proportion=2", "--frame-shift=2", EGS, "ark:c") == 0
    twice = [example for _, example in read_chain_egs("ark:c")]
    assert {(int(one.inputs[0].indexes[0, 1]), int(one.outputs[0].indexes[0, 1])) for one in twice} == {(-4, 3)}
    assert run("nnet3-chain-copy-egs", "--keep-proportion=0", EGS, "ark:d") == 1
    assert run("nnet3-chain-copy-egs", "--left-context=3", f"ark:{MERGED}", "ark:d") == 255
    assert "example merged-0-16: merged examples cannot be cut" in capfd.readouterr().err


def test_chain_merge(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("nnet3-chain-merge-egs", "--minibatch-size=16", EGS, "ark:out") == 0
    assert (folder / "out").read_bytes() == MERGED.read_bytes()
    err = capfd.readouterr().err
    assert "42={16->1,d=0}" in err and "Processed 16 egs of avg. size 42 into 1 minibatches" in err
    assert run("nnet3-chain-merge-egs", EGS, "ark:out") == 1          # 64 are too many
    assert run("nnet3-chain-merge-egs", "--minibatch-size=1:64", "--compress=true", EGS, "ark:out") == 0
    assert keys("out") == ["merged-0-16"]


def test_chain_merge_of_several_languages(folder: Path) -> None:
    write_table("ark:in", CHAIN_EXAMPLE, {
        f"{key}?lang={'xy'[i % 2]}": example for i, (key, example) in enumerate(read_chain_egs(EGS))})
    assert run("nnet3-chain-merge-egs", "--multilingual-eg=true", "--minibatch-size=8", "ark:in", "ark:out") == 0
    found = dict(read_chain_egs("ark:out"))
    assert {key: one.outputs[0].name for key, one in found.items()} == {
        "merged-0-8?lang=x": "output-x", "merged-1-8?lang=y": "output-y"}
    assert run("nnet3-chain-merge-egs", "--multilingual-eg=true", "--minibatch-size=8", EGS, "ark:out") == 255


def test_chain_shuffle_and_subset(capfd: pytest.CaptureFixture[str]) -> None:
    orders = []
    for options in (["--srand=1"], ["--srand=1"], ["--srand=2"], ["--buffer-size=5", "--srand=1"],
                    ["--buffer-size=5", "--srand=2"]):
        assert run("nnet3-chain-shuffle-egs", *options, EGS, "ark:out") == 0
        orders.append(keys("out"))
    assert all(sorted(order) == sorted(KEYS) != order for order in orders)
    assert orders[0] == orders[1] and len({tuple(order) for order in orders}) == 4
    assert "training examples using a buffer (partial randomization)" in capfd.readouterr().err
    assert run("nnet3-chain-subset-egs", "--n=4", EGS, "ark:out") == 0
    assert len(keys("out")) == 4 and set(keys("out")) < set(KEYS)
    assert "Selected a subset of 4 out of 16 nnet3+chain training examples " in capfd.readouterr().err
    Path("empty").touch()
    for name in ("nnet3-chain-shuffle-egs", "nnet3-chain-subset-egs"):
        assert run(name, "ark:empty", "ark:out") == 1


def test_discriminative_examples(degs: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("nnet3-discriminative-copy-egs", degs, "ark:copy") == 0
    assert (folder / "copy").read_bytes() == (folder / "degs").read_bytes()
    assert capfd.readouterr().err.endswith("Read 7 neural-network training examples, wrote 7\n")
    assert run("nnet3-discriminative-copy-egs", "--frame-shift=4", degs, "ark:a", "ark:b") == 0
    shifted = dict(read_discriminative_egs("ark:b"))
    assert list(shifted) == ["d1", "d3", "d5"]
    assert shifted["d1"].inputs[0].indexes.tolist() == [[0, 3, 0]]
    assert shifted["d1"].outputs[0].indexes[:, 1].tolist() == [3, 6]
    assert run("nnet3-discriminative-merge-egs", "--minibatch-size=4,2", degs, "ark:out") == 0
    assert [key for key, _ in read_discriminative_egs("ark:out")] == ["merged-0-4", "merged-1-2"]
    assert "2={2->1,4->1,d=1}" in capfd.readouterr().err
    assert run("nnet3-discriminative-shuffle-egs", "--srand=4", degs, "ark:out") == 0
    order = [key for key, _ in read_discriminative_egs("ark:out")]
    assert sorted(order) == [f"d{i}" for i in range(7)] != order
    assert run("nnet3-discriminative-subset-egs", "--n=3", degs, "ark:out") == 0
    assert len(list(read_discriminative_egs("ark:out"))) == 3
    assert "3 out of 7 neural-network discriminative training examples " in capfd.readouterr().err


@pytest.mark.parametrize("what", ["copy", "merge", "shuffle", "subset"])
def test_a_truncated_archive_is_an_error(what: str, degs: str, folder: Path) -> None:
    for family, data in (("chain", SINGLE.read_bytes()), ("discriminative", (folder / "degs").read_bytes())):
        (folder / "bad").write_bytes(data[:-9])
        assert run(f"nnet3-{family}-{what}-egs", "ark:bad", "ark:out") == 255
        assert not (folder / "out").exists()
