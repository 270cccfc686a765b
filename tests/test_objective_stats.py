"""nnet3py/training/objective_stats.py: the lines that recipes parse, letter by letter."""
from __future__ import annotations

import logging

import pytest

from nnet3py.training.objective_stats import ObjectiveStats


def test_whole_phases(caplog):
    caplog.set_level(logging.INFO)
    stats = ObjectiveStats("output", 3)
    for minibatch in range(7):
        stats.add(minibatch, 8.0, -8.0 * (minibatch + 1))
        assert len(caplog.messages) == minibatch // 3
    assert caplog.messages == [
        "Average objective function for 'output' for minibatches 0-2 is -2 over 24 frames.",
        "Average objective function for 'output' for minibatches 3-5 is -5 over 24 frames."]
    assert [record.kaldi_place[2] for record in caplog.records] == [278, 278]       # lines of nnet-training.cc


def test_a_phase_with_gaps_lacks_the_closing_quote(caplog):
    caplog.set_level(logging.INFO)
    stats = ObjectiveStats("out-2", 10)
    stats.add(0, 2.0, -1.0)
    stats.add(7, 2.0, -1.0)
    stats.add(31, 2.0, -3.0)      # the next minibatch with this output: three phases later
    stats.add(32, 2.0, -3.0)
    stats.add(45, 1.0, 0.0)
    assert caplog.messages == [
        "Average objective function for 'out-2 using 2 minibatches in minibatch range 0-29 is -0.5 over 4 frames.",
        "Average objective function for 'out-2 using 2 minibatches in minibatch range 30-39 is -1.5 over 4 frames."]


def test_first_seen_in_a_later_phase(caplog):
    """Kaldi reports the empty phase 0 then."""
    caplog.set_level(logging.INFO)
    stats = ObjectiveStats("output", 5)
    stats.add(12, 1.0, -1.0)
    assert caplog.messages == [
        "Average objective function for 'output using 0 minibatches in minibatch range 0-9 is nan over 0 frames."]


def test_totals_and_their_form(caplog):
    caplog.set_level(logging.INFO)
    stats = ObjectiveStats("output", 100)
    stats.add(0, 1000000.0, -1234567.0)
    stats.add(1, 500000.0, -765433.0)
    stats.log_total()
    assert caplog.messages == [
        "Overall average objective function for 'output' is -1.33333 over 1.5e+06 frames.",
        "[this line is to be parsed by a script:] log-prob-per-frame=-1.33333"]
    assert [record.kaldi_place[2] for record in caplog.records] == [317, 324]       # lines of nnet-training.cc
    assert stats.average() == pytest.approx(-4 / 3)


def test_no_weight_is_nan(caplog):
    caplog.set_level(logging.INFO)
    stats = ObjectiveStats("output", 100)
    stats.add(0, 0.0, 0.0)
    stats.log_total()
    assert caplog.messages == ["Overall average objective function for 'output' is nan over 0 frames.",
                               "[this line is to be parsed by a script:] log-prob-per-frame=nan"]


def test_lines_name_kaldi_s_functions(caplog):
    caplog.set_level(logging.INFO)
    stats = ObjectiveStats("output", 1)
    for minibatch in range(2):
        stats.add(minibatch, 1.0, -1.0)
    stats.log_total()
    places = [vars(record) for record in caplog.records]
    text = [" ".join(str(value) for value in place.values()) for place in places]
    assert "PrintStatsForThisPhase" in text[0] and "PrintTotalStats" in text[1] and "nnet-training.cc" in text[1]
