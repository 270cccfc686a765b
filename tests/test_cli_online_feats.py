"""online2-wav-dump-features and compute-online-feats: Kaldi's features and i-vectors."""
from __future__ import annotations

import numpy as np
import pytest
from command_lines import read_table
from online_cases import KEYS, ONLINE, base_features
from test_cli_online_decode import options

from nnet3py.cli.feat.online_feats import compute_online_feats, dump_features
from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR

__all__ = ["options"]      # the fixture
SAME = 1e-4                # of the largest value
ARGUMENTS = ["ark:spk2utt", "scp:wav.scp", "ark:feats"]


def read(specifier, holder):
    return read_table(specifier, holder)


def test_as_kaldi(options, capfd):
    assert dump_features.execute([*options[:2], *ARGUMENTS]) == 0
    assert "Processed 3 utterances, 0 with errors; 503 frames in total." in capfd.readouterr().err
    found, expected = read("ark:feats", FLOAT_MATRIX), read(f"ark:{ONLINE / 'features.ark'}", FLOAT_MATRIX)
    assert list(found) == list(expected) == list(KEYS)
    for key, matrix in expected.items():
        np.testing.assert_allclose(found[key], matrix, atol=SAME * np.abs(matrix).max())
        np.testing.assert_allclose(found[key][:, 40:], matrix[:, 40:], atol=SAME * np.abs(matrix[:, 40:]).max())


def test_all_at_once(options, capfd):
    assert compute_online_feats.execute([*options[:2], "scp:wav.scp", "ark:ivectors", "ark:feats"]) == 0
    text = capfd.readouterr().err
    assert "Processing Utterance utt2" in text and "Processed 3 utterances with 0 failures." in text
    features, ivectors = read("ark:feats", FLOAT_MATRIX), read("ark:ivectors", FLOAT_VECTOR)
    for key in KEYS:
        np.testing.assert_array_equal(features[key], base_features(key))
        assert ivectors[key].shape == (12,)
    # Of the first utterance, for which nothing is carried over: the estimate at its end, by way of other steps.
    expected = read(f"ark:{ONLINE / 'features.ark'}", FLOAT_MATRIX)["utt1"][-1, 40:]
    np.testing.assert_allclose(ivectors["utt1"], expected, atol=SAME * np.abs(expected).max())


def test_without_ivectors(options, tmp_path):
    assert dump_features.execute([options[0], *ARGUMENTS]) == 0
    np.testing.assert_array_equal(read("ark:feats", FLOAT_MATRIX)["utt1"], base_features("utt1"))
    assert compute_online_feats.execute([options[0], "scp:wav.scp", "ark:ivectors", "ark:feats"]) == 0
    assert (tmp_path / "ivectors").read_bytes() == b""


@pytest.mark.parametrize(("config", "expected"), [(2, "12\n"), (1, "0\n")])
def test_dimension_of_ivectors(options, capfd, config, expected):
    assert dump_features.execute([*options[:config], "--print-ivector-dim=true"]) == 0
    assert capfd.readouterr().out == expected


@pytest.mark.parametrize("words", [[], ARGUMENTS[:2], ["--print-ivector-dim=true", *ARGUMENTS]])
def test_usage(capfd, words):
    assert dump_features.execute(words) == 1
    assert "Usage: online2-wav-dump-features" in capfd.readouterr().err


def test_missing_and_short_sound(options, tmp_path, capfd):
    (tmp_path / "spk2utt").write_text("spk1 utt1 nobody\n")
    assert dump_features.execute([options[0], *ARGUMENTS]) == 0
    assert "Processed 1 utterances, 1 with errors; " in capfd.readouterr().err
    from test_cli_online_decode import write_wave

    write_wave(tmp_path / "short.wav", 100)
    (tmp_path / "wav.scp").write_text("short short.wav\n")
    assert compute_online_feats.execute([*options[:2], "scp:wav.scp", "ark:ivectors", "ark:feats"]) == 1
    text = capfd.readouterr().err
    assert "Failed to compute features for utterance short" in text and "with 1 failures" in text
