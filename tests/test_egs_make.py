"""Examples made of utterances."""
from __future__ import annotations

import numpy as np
import pytest

from nnet3py.egs.make import ExampleMaker, simple_example
from nnet3py.egs.options import SplitOptions
from nnet3py.egs.splitter import UtteranceSplitter
from nnet3py.errors import ShapeError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.posteriors import Posterior, posterior_of_alignment

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
    for given in (compressed, FEATURES):
        for _, example in maker(compress=True, left_context=2).from_posteriors("utt", given, posterior):
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
