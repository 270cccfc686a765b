"""nnet3py/egs/make.py: where utterances are cut, what examples hold, and examples of speakers."""
from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnet3py.cli.main import load
from nnet3py.egs.example import read_egs
from nnet3py.egs.make import (
    ExampleMaker,
    SpeakerRange,
    UtteranceSplitter,
    read_speaker_ranges,
    simple_example,
    split_pools,
)
from nnet3py.egs.options import SplitOptions
from nnet3py.errors import FormatError, Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.formats.posteriors import Posterior, posterior_of_alignment
from nnet3py.io.tables import write_table

# Lengths of the utterances behind Kaldi's logs in the reference material (tools/get-egs*).
LENGTHS = [202, 155, 232, 346, 277, 229, 242, 206, 236, 274, 288, 162]
HEAD = "Split 12 utts, with total length 2849 frames (0.00791389 hours assuming 100 frames per second) into "
REPORTS = {
    "8": [HEAD + "356 chunks.",
          "Average chunk length was 8 frames; overlap between adjacent chunks was 0.4212% of input length; length of "
          "output was 99.9649% of input length (minus overlap = 99.5437%)."],
    "1": [HEAD + "2856 chunks.",
          "Average chunk length was 1 frames; overlap between adjacent chunks was 0.2457% of input length; length of "
          "output was 100.246% of input length (minus overlap = 100%)."],
    "40,30,20": [HEAD + "77 chunks.",
                 "Average chunk length was 37.2727 frames; overlap between adjacent chunks was 1.0179% of input "
                 "length; length of output was 100.737% of input length (minus overlap = 99.7192%).",
                 "Output frames are distributed among chunk-sizes as follows: 20 = 5.575%, 30 = 5.226%, 40 = 89.2%"],
}


@pytest.mark.parametrize("num_frames", list(REPORTS))
def test_kaldis_own_reports(num_frames):
    splitter = UtteranceSplitter(SplitOptions.parse(num_frames))
    for length in LENGTHS:
        splitter.chunks(length)
    assert splitter.report() == REPORTS[num_frames]


def test_kaldis_chunk_sizes_and_overlaps():
    """Utterances of tools/get-egs-variable whose chunks overlap, so that nothing about their place is random."""
    splitter = UtteranceSplitter(SplitOptions.parse("40,30,20", left_context=4, right_context=3, left_context_initial=0,
                                                    right_context_final=0))
    found = [splitter.chunks(length) for length in LENGTHS]
    assert [(c.first_frame, c.num_frames) for c in found[1]] == [(0, 40), (38, 40), (76, 40), (115, 40)]
    assert [(c.first_frame, c.num_frames) for c in found[7]][:3] == [(0, 20), (19, 30), (48, 40)]
    contexts = [(c.left_context, c.right_context) for c in found[1]]
    assert contexts == [(0, 3), (4, 3), (4, 3), (4, 0)]
    assert found[1][0].output_weights.tolist() == [1.0] * 38 + [0.5] * 2
    assert found[1][1].output_weights.tolist() == [0.5] * 2 + [1.0] * 36 + [0.5] * 2


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 700), st.sampled_from(["8", "40,30,20", "150,110,90", "20,13", "1", "-1", "9,6"]),
       st.integers(0, 5), st.sampled_from([1, 3]))
def test_chunks_lie_within_the_utterance(length, num_frames, overlap, factor):
    options = SplitOptions.parse(num_frames, num_frames_overlap=overlap if num_frames not in ("1",) else 0,
                                 frame_subsampling_factor=factor)
    splitter = UtteranceSplitter(options)
    chunks = splitter.chunks(length)
    if num_frames == "-1":
        assert [(c.first_frame, c.num_frames) for c in chunks] == [(0, length)]
        return
    if not chunks:
        assert length < min(options.num_frames)
        return
    assert chunks[0].first_frame >= 0
    assert chunks[-1].first_frame + chunks[-1].num_frames < length + factor
    for before, after in itertools.pairwise(chunks):
        assert before.first_frame < after.first_frame or before.num_frames == 1
    assert {c.num_frames for c in chunks} <= set(options.num_frames)
    total = sum(float(c.output_weights.sum()) for c in chunks)
    covered = np.zeros(-(-length // factor), dtype=bool)
    for c in chunks:
        assert c.first_frame % factor == 0
        covered[c.first_frame // factor:(c.first_frame + c.num_frames) // factor] = True
    assert total == pytest.approx(covered.sum())      # every covered frame counts once


def test_pools_hold_the_cheapest_splits():
    pools = split_pools(SplitOptions(num_frames=(40, 30, 20)))
    assert pools[40] == [(20, 20), (40,)] and pools[19] == [] and (20,) in pools[20]
    assert pools[60] == [(20, 40), (30, 30)]
    assert len(pools) == 2 * 40 + 40 + 1


def test_rounding_and_bad_options(caplog):
    caplog.set_level("INFO", logger="nnet3py")
    assert SplitOptions.parse("20,8", frame_subsampling_factor=3).num_frames == (21, 9)
    assert "Rounding up --num-frames=20,8 to multiples of --frame-subsampling-factor=3, to: 21,9" in caplog.text
    for bad in ("", "0", "a", "8,", "8,-1", "-2"):
        with pytest.raises(Nnet3Error, match="num-frames"):
            SplitOptions.parse(bad)
    with pytest.raises(Nnet3Error, match="overlap"):
        SplitOptions.parse("8", num_frames_overlap=8)
    with pytest.raises(UsageError, match="--frame-subsampling-factor=0: expected 1 or more"):
        SplitOptions.parse("8", frame_subsampling_factor=0)


def test_length_checks(caplog):
    splitter = UtteranceSplitter(SplitOptions.parse("8"))
    assert splitter.lengths_match("utt", 100, 98, tolerance=2) and not caplog.records
    assert not splitter.lengths_match("utt", 100, 97, tolerance=2)
    assert "utterance utt: expected length = 100, got 97" in caplog.text
    assert not UtteranceSplitter(SplitOptions.parse("9", frame_subsampling_factor=3)).lengths_match("utt", 100, 99)
    assert "expected length = (100 + 3 - 1) / 3 = 34, got: 99 (note: --frame-subsampling-factor=3)" in caplog.text


LENGTH = 22
FEATURES = np.random.default_rng(2).standard_normal((LENGTH, 3)).astype(np.float32)
PDFS = np.arange(LENGTH, dtype=np.int32) % 7


def maker(num_frames="8", compress=False, period=1, **options):
    return ExampleMaker(UtteranceSplitter(SplitOptions.parse(num_frames, **options)), compress, num_pdfs=7,
                        online_ivector_period=period)


def test_inputs_outputs_and_keys():
    made = list(maker(left_context=2, right_context=1).from_posteriors("utt", FEATURES, posterior_of_alignment(PDFS)))
    assert [key for key, _ in made] == ["utt-0", "utt-7", "utt-14"]       # 24 frames in chunks, 2 overlap
    for key, example in made:
        first = int(key.split("-")[1])
        assert [io.name for io in example.io] == ["input", "output"]
        source, target = example.io
        assert source.indexes[:, 1].tolist() == list(range(-2, 9)) and target.indexes[:, 1].tolist() == list(range(8))
        rows = np.clip(np.arange(first - 2, first + 9), 0, LENGTH - 1)
        assert np.array_equal(source.features, FEATURES[rows])
        assert np.array_equal(target.features.columns, PDFS[first:first + 8]) and target.features.num_cols == 7
    assert made[0][1].io[1].features.values.tolist() == [1.0] * 7 + [0.5]
    assert made[1][1].io[1].features.values.tolist() == [0.5] + [1.0] * 6 + [0.5]


def test_soft_labels_and_missing_frames():
    posterior = Posterior.from_lists([[(3, 0.25), (1, 0.75)], [], [(2, 0.5)]] + [[(0, 1.0)]] * (LENGTH - 5))
    (_, example), *_ = maker("-1").from_posteriors("utt", FEATURES, posterior)
    labels = example.find("output").features
    assert labels.shape == (LENGTH, 7) and labels.columns[:3].tolist() == [1, 3, 2]
    assert labels.values[:3].tolist() == [0.75, 0.25, 0.5]
    assert np.diff(labels.row_starts)[-2:].tolist() == [0, 0]
    with pytest.raises(ShapeError):
        list(maker().from_posteriors("utt", FEATURES, posterior_of_alignment(PDFS + 1)))


def test_compression_keeps_the_codes():
    compressed = CompressedMatrix.compress(FEATURES)
    posterior = posterior_of_alignment(PDFS)
    for features in (compressed, FEATURES):
        for _, example in maker(compress=True, left_context=2).from_posteriors("utt", features, posterior):
            assert isinstance(example.io[0].features, CompressedMatrix)
    (_, first), *_ = maker(left_context=2).from_posteriors("utt", compressed, posterior)
    kept = first.io[0].features
    assert kept.token == "CM" and np.array_equal(kept.codes, compressed.codes[:, [0, 0, *range(8)]])


def test_ivectors(caplog):
    ivectors = np.arange(8, dtype=np.float32).reshape(4, 2)
    one = maker(period=10, left_context=1)
    for _, example in one.from_posteriors("utt", FEATURES, posterior_of_alignment(PDFS), ivectors):
        assert [io.name for io in example.io] == ["input", "ivector", "output"]
        io = example.find("ivector")
        assert io.indexes.tolist() == [[0, 0, 0]] and io.features[0].tolist() in ivectors.tolist()
    assert one.ivectors_fit("utt", 22, 4, tolerance=20) and not caplog.records
    assert not one.ivectors_fit("utt", 22, 4, tolerance=10) and not one.ivectors_fit("utt", 22, 0, tolerance=100)
    assert "Length difference between feats 22 and iVectors 4 exceeds tolerance 10" in caplog.text


def test_dense_targets_are_not_weighted():
    targets = np.random.default_rng(3).standard_normal((LENGTH, 2)).astype(np.float32)
    for key, example in maker().from_targets("utt", FEATURES, targets):
        first = int(key.split("-")[1])
        assert np.array_equal(example.find("output").features, targets[first:first + 8])


def test_subsampled_outputs():
    labels = posterior_of_alignment(PDFS[:8])
    made = dict(maker("9", frame_subsampling_factor=3).from_posteriors("utt", FEATURES, labels))
    assert made
    for key, example in made.items():
        first = int(key.split("-")[1]) // 3
        output = example.find("output")
        assert output.indexes[:, 1].tolist() == [0, 3, 6]
        assert output.features.columns.tolist() == PDFS[:8][first:first + 3].tolist()


def test_too_short(caplog):
    assert list(maker("40").from_posteriors("utt", FEATURES, posterior_of_alignment(PDFS))) == []
    assert "Not producing egs for utterance utt because it is too short: 22 frames." in caplog.text


def test_simple_examples():
    example = simple_example([("input", FEATURES), ("output", FEATURES[:2])])
    assert [io.indexes[:, 1].tolist() for io in example.io] == [list(range(LENGTH)), [0, 1]]


LINES = "u0 1 7 2 5 3\nu0 0 6 18 5 3\nu1  0\t6  0 20 1\n"


def frames(count: int) -> np.ndarray:
    return np.arange(2 * count, dtype=np.float32).reshape(count, 2)


@pytest.fixture
def folder(here: Path) -> Path:
    (here / "ranges").write_text(LINES)
    write_table("ark:feats", FLOAT_MATRIX, ((key, frames(count)) for key, count in (("u0", 20), ("u1", 12), ("u2", 5))))
    return here


def test_the_file(folder: Path) -> None:
    found = read_speaker_ranges("ranges", 2)
    assert found == {"u0": [SpeakerRange("u0-2-5-3", 1, 2, 5, 3), SpeakerRange("u0-18-5-3", 0, 18, 5, 3)],
                     "u1": [SpeakerRange("u1-0-20-1", 0, 0, 20, 1)]}


@pytest.mark.parametrize("line, message", [
    ("u0 1 7 2 5", "Expected 6 fields .* line 4"), ("", "found 0"), ("u0 2 7 2 5 3", "exceeds number of specified"),
    ("u0 0 7 2 99999999999 3", "number of frames"),
    ("u0 x 7 2 5 3", "relative archive index"), ("u0 0 7 -2 5 3", "first frame of 0 or more"),
    ("u0 0 7 2 0 3", "number of frames of 1"), ("u0 0 7 2 5 3.0", "label"),
])
def test_damaged_lines(folder: Path, line: str, message: str) -> None:
    (folder / "ranges").write_text(LINES + line + "\n")
    with pytest.raises(FormatError, match=message):
        read_speaker_ranges("ranges", 2)


def test_a_command_that_fails(folder: Path) -> None:
    with pytest.raises(Exception, match="status 3"):
        read_speaker_ranges("cat ranges; exit 3 |", 2)


def test_examples() -> None:
    one = SpeakerRange("k", 0, 18, 5, 3).example(frames(20), 4, compress=False)
    assert one is not None
    assert [io.name for io in one.io] == ["input", "output"]
    assert np.array_equal(one.io[0].features, frames(20)[15:])          # taken earlier: the utterance ends
    assert one.io[0].indexes.tolist() == [[0, t, 0] for t in range(5)]
    assert one.io[1].indexes.tolist() == [[0, 0, 0]]
    assert one.io[1].features.to_dense().tolist() == [[0, 0, 0, 1]]
    compressed = SpeakerRange("k", 0, 2, 5, 3).example(frames(20), 4)
    assert compressed is not None and isinstance(compressed.io[0].features, CompressedMatrix)
    assert SpeakerRange("k", 0, 0, 21, 3).example(frames(20), 4) is None
    with pytest.raises(ShapeError, match="label 3, but --num-pdfs=3, so labels are 0 to 2"):
        SpeakerRange("k", 0, 0, 5, 3).example(frames(20), 3)
    with pytest.raises(NumericError, match="feature matrix"):
        SpeakerRange("k", 0, 0, 5, 3).example(np.full((5, 2), np.nan, np.float32), 4)


def test_the_command(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = load("nnet3-xvector-get-egs")
    assert command.execute(["--num-pdfs=4", "ranges", "ark:feats", "ark:0.egs", "ark:1.egs"]) == 0
    assert [key for key, _ in read_egs("ark:0.egs")] == ["u0-18-5-3"]
    assert [key for key, _ in read_egs("ark:1.egs")] == ["u0-2-5-3"]
    err = capfd.readouterr().err
    assert ("Unable to create examples for utterance u1. Requested chunk size of 20 but utterance has only 12 frames."
            in err)
    assert "Could not create examples from utterance u2 because it has no entry" in err
    assert ("Finished generating examples, successfully processed 2 feature files, wrote 2 examples; "
            "1 files had errors." in err)


def test_when_the_command_fails(folder: Path) -> None:
    command = load("nnet3-xvector-get-egs")
    assert command.execute(["ranges", "ark:feats", "ark:0.egs", "ark:1.egs"]) == 255               # no --num-pdfs
    assert command.execute(["--num-pdfs=4", "ranges", "ark:feats", "ark:0.egs"]) == 255            # archive 1
    assert command.execute(["--num-pdfs=4", "ranges", "ark:feats"]) == 1                           # no output
    (folder / "ranges").write_text("u1 0 0 0 20 1\n")
    assert command.execute(["--num-pdfs=4", "ranges", "ark:feats", "ark:0.egs"]) == 1              # no example
    (folder / "ranges").write_text("u0 0 0 0 5 1\n")
    assert command.execute(["--num-pdfs=4", "ranges", "ark:feats", "ark:0.egs"]) == 1              # mostly errors
