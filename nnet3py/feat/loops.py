"""Compiled loops of the features: normalization, filters, linear prediction, the search for pitch.

The result of a frame does not depend on how many frames are computed together.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np


def add_frames(frames: Any, totals: Any, begin: int) -> None:
    """Write running sums of frames, float32 (frames, dim), and of their squares, to ``totals``, from row ``begin`` on.

    ``totals`` is float64 (rows, 2 dim); the sums so far are in the row before.
    """
    dim = frames.shape[1]
    for t in range(frames.shape[0]):
        for d in range(dim):
            value = np.float64(frames[t, d])
            totals[begin + t, d] = totals[begin + t - 1, d] + value
            totals[begin + t, dim + d] = totals[begin + t - 1, dim + d] + value * value


def normalize_frames(frames: Any, totals: Any, end: int, num_frames: int, window: int, speaker: Any,
                     most_speaker: float, assumed: Any, most_assumed: float, norm_vars: bool, floor: float,
                     result: Any) -> None:
    """Normalize the last ``frames`` of an utterance, each by the window that ends with it: float32 (frames, dim).

    ``totals``, float64 (rows, 2 dim), are running sums of :func:`add_frames`; ``end`` is 1 + the row of the last
    frame's sums, ``num_frames`` the number of frames so far. To a window of too few frames, the speaker's and then
    global statistics, float64 (2, dim + 1), are added, scaled to at most ``most_speaker`` and ``most_assumed`` frames.
    """
    count, dim = frames.shape
    for t in range(count):
        row = end - count + t
        own = min(num_frames - count + t + 1, window)
        counts = np.float64(own)
        taken = min(max(window - counts, 0.0), most_speaker)
        by_speaker = taken / speaker[0, dim] if speaker[0, dim] > 0.0 else 0.0
        if speaker[0, dim] > 0.0:
            counts += taken
        taken = min(max(window - counts, 0.0), most_assumed)
        by_assumed = taken / assumed[0, dim]
        counts += taken
        for d in range(dim):
            total = totals[row, d] - totals[row - own, d]
            mean = (total + by_speaker * speaker[0, d] + by_assumed * assumed[0, d]) / counts
            if norm_vars:
                total = totals[row, dim + d] - totals[row - own, dim + d]
                square = (total + by_speaker * speaker[1, d] + by_assumed * assumed[1, d]) / counts
                result[t, d] = (frames[t, d] - mean) * (1.0 / math.sqrt(max(square - mean * mean, floor)))
            else:
                result[t, d] = frames[t, d] - mean


def apply_filters(spectrum: Any, starts: Any, sizes: Any, weights: Any, result: Any) -> None:
    """Multiply a spectrum, float32 (frames, frequencies), by filters; ``result`` is float32 (frames, filters).

    ``starts`` and ``sizes``, int32 (filters,), are the first frequency and the number of frequencies of each filter,
    ``weights`` the float32 weights of all filters, one filter after the other.
    """
    for frame in range(spectrum.shape[0]):
        at = np.int64(0)
        for number in range(starts.shape[0]):
            total, first = np.float32(0.0), np.int64(starts[number])
            for place in range(np.int64(sizes[number])):
                total += spectrum[frame, first + place] * weights[at + place]
            at += np.int64(sizes[number])
            result[frame, number] = total


def multiply_rows(rows: Any, columns: Any, result: Any) -> None:
    """Multiply rows, float32 (frames, size), by a matrix, float32 (size, columns)."""
    for frame in range(rows.shape[0]):
        for column in range(columns.shape[1]):
            result[frame, column] = np.float32(0.0)
        for place in range(rows.shape[1]):
            value = rows[frame, place]
            for column in range(columns.shape[1]):
                result[frame, column] += value * columns[place, column]


def predict_linearly(correlations: Any, least_error: float, coefficients: Any, other: Any, errors: Any) -> None:
    """Find linear predictors by Durbin's recursion from autocorrelations, float64 (frames, order + 1).

    Results are ``coefficients``, float64 (frames, order), the negatives of predictors, and prediction ``errors``,
    float64 (frames,), of which ``least_error`` is the smallest factor from one order to the next; ``other`` (order,)
    is scratch.
    """
    order = coefficients.shape[1]
    for frame in range(correlations.shape[0]):
        error = correlations[frame, 0]
        for i in range(order):
            reflection = correlations[frame, i + 1]
            for j in range(i):
                reflection += coefficients[frame, j] * correlations[frame, i - j]
            reflection = reflection / error if error > 0.0 else 0.0
            error *= max(1.0 - reflection * reflection, least_error)
            for j in range(i):
                other[j] = coefficients[frame, j] - reflection * coefficients[frame, i - j - 1]
            for j in range(i):
                coefficients[frame, j] = other[j]
            coefficients[frame, i] = -reflection
        errors[frame] = error


def cepstra_of_predictors(coefficients: Any, cepstra: Any) -> None:
    """Compute cepstra without C0, float64 (frames, order), from the coefficients of :func:`predict_linearly`."""
    for frame in range(coefficients.shape[0]):
        for i in range(coefficients.shape[1]):
            total = 0.0
            for j in range(i):
                total += (i - j) * coefficients[frame, j] * cepstra[frame, i - j - 1]
            cepstra[frame, i] = -coefficients[frame, i] - total / (i + 1)


def cosines_and_sines(angles: Any, cosines: Any, sines: Any) -> None:
    """Compute cosines and sines in single precision, rounded as in the C library."""
    for place in range(angles.shape[0]):
        cosines[place], sines[place] = math.cos(angles[place]), math.sin(angles[place])


NEAR = 2          # distance from the envelope's state up to which states are compared: rounding decides among them


def correlate_frames(signal: Any, first: int, starts: Any, ends: Any, window: int, first_lag: int, preemphasis: float,
              frame: Any, correlations: Any, energies: Any) -> None:
    """Correlate frames of a signal with the signal at many lags, and compute the products of both energies.

    ``signal`` is float32 (samples,) from sample ``first`` on; samples outside are 0. ``starts`` and ``ends``, int64
    (frames,), are the first sample of each frame, and the end of the signal for each frame. Results are float32
    (frames, lags), from ``first_lag`` on; ``frame`` (window + largest lag,) is scratch.
    """
    num_lags = correlations.shape[1]
    size = frame.shape[0]
    for row in range(starts.shape[0]):
        begin = starts[row] - first
        low, high = max(-begin, np.int64(0)), min(ends[row] - first - begin, np.int64(size))
        for i in range(size):
            frame[i] = signal[begin + i] if low <= i < high else np.float32(0.0)
        if preemphasis != 0.0:
            for i in range(high - 1, low, -1):
                frame[i] -= np.float32(preemphasis) * frame[i - 1]
            frame[low] *= np.float32(1.0 - preemphasis)
        total = 0.0
        for i in range(window):
            total += frame[i]
        mean = np.float32(total / window)
        for i in range(size):
            frame[i] -= mean
        own, other = 0.0, 0.0
        for i in range(window):
            own += np.float64(frame[i]) * np.float64(frame[i])
            shifted = np.float64(frame[first_lag + i])
            other += shifted * shifted
        for lag in range(num_lags):
            correlations[row, lag] = np.float32(0.0)
        for i in range(window):
            value, at = frame[i], first_lag + i
            for lag in range(num_lags):
                correlations[row, lag] += value * frame[at + lag]
        for lag in range(num_lags):
            energies[row, lag] = np.float32(own * max(other, 0.0))
            if lag + 1 < num_lags:
                gone, come = np.float64(frame[first_lag + lag]), np.float64(frame[first_lag + lag + window])
                other += come * come - gone * gone


def normalize_correlations(correlations: Any, energies: Any, ballasts: Any, nccf: Any) -> None:
    """Compute the normalized cross-correlation (NCCF), correlation / sqrt(energies + ballast), float32 (frames, lags).

    ``ballasts`` are float64 (frames,). Where the denominator is 0, so is the NCCF.
    """
    for row in range(correlations.shape[0]):
        for lag in range(correlations.shape[1]):
            below = math.sqrt(energies[row, lag] + ballasts[row])
            nccf[row, lag] = np.float32(correlations[row, lag] / below) if below > 0.0 else np.float32(0.0)


def interpolate_correlations(nccf: Any, starts: Any, sizes: Any, weights: Any, at_states: Any) -> None:
    """Interpolate the NCCF, float32 (frames, lags), at the lags of all states of the pitch search: (frames, states).

    ``starts``, ``sizes`` and ``weights``, int32 (states,), int32 (states,) and float32 (states, largest size), are the
    first lag, the number of lags, and the weights of the lags from which each state is interpolated.
    """
    for row in range(nccf.shape[0]):
        for state in range(starts.shape[0]):
            total, first = np.float32(0.0), np.int64(starts[state])
            for place in range(np.int64(sizes[state])):
                total += nccf[row, first + place] * weights[state, place]
            at_states[row, state] = total


def interpolate_along_path(nccf: Any, places: Any, states: Any, starts: Any, sizes: Any, weights: Any,
                           values: Any) -> None:
    """Interpolate the NCCF at one state of each frame, with the weights of :func:`interpolate_correlations`.

    Frame t has row ``places[t]`` of ``nccf``, float32 (rows, lags), and state ``states[t]``; ``values`` is float32
    (frames,).
    """
    for frame in range(states.shape[0]):
        row, state = places[frame], states[frame]
        total, first = np.float32(0.0), np.int64(starts[state])
        for place in range(np.int64(sizes[state])):
            total += nccf[row, first + place] * weights[state, place]
        values[frame] = total


def search_pitch(nccf: Any, lags: Any, soft_min_f0: float, change_cost: float, costs: Any, back: Any, envelope: Any,
           bounds: Any, before: Any) -> None:
    """Continue the Viterbi search for the cheapest path of pitch, frame by frame.

    A step from state j to state i costs ``change_cost`` times (i - j)². The minimum over j of these parabolas is their
    lower envelope, found in linear time (Felzenszwalb and Huttenlocher 2012). Costs are in single precision, and near
    a change of the envelope their rounding decides, as in Kaldi.

    Parameters
    ----------
    nccf : float32 (frames, states)
    lags : float32 (states,), in seconds
    costs : float32 (states,), costs of the best paths to the states, changed in place; the smallest is 0
    back : int16 (frames, states), result: the state before on the best path
    envelope, bounds, before : int64 (states,), float64 (states + 1,) and float32 (states,), scratch
    """
    num_states = nccf.shape[1]
    for row in range(nccf.shape[0]):
        top = np.int64(0)
        envelope[0], bounds[0], bounds[1] = 0, -1e30, 1e30
        for state in range(1, num_states):
            crossing = 0.0
            while True:
                other = envelope[top]
                crossing = 0.5 * ((np.float64(costs[state]) - np.float64(costs[other]))
                                  / (np.float64(change_cost) * (state - other)) + state + other)
                if crossing > bounds[top]:
                    break
                top -= 1
            top += 1
            envelope[top], bounds[top], bounds[top + 1] = state, crossing, 1e30
        for state in range(num_states):
            before[state] = costs[state]
        place, least = np.int64(0), np.float32(np.inf)
        for state in range(num_states):
            while bounds[place + 1] < state:
                place += 1
            source, cost = envelope[place], np.float32(np.inf)
            for other in range(max(envelope[place] - NEAR, 0), min(envelope[place] + NEAR + 1, num_states)):
                distance = np.float32((other - state) * (other - state))
                way = np.float32(np.float32(distance * change_cost) + before[other])
                if way < cost:
                    cost, source = way, other
            back[row, state] = source
            phi = nccf[row, state]
            softened = np.float32(np.float32(soft_min_f0 * lags[state]) * phi)
            costs[state] = np.float32(cost + np.float32(np.float32(np.float32(1.0) - phi) + softened))
            least = min(least, costs[state])
        for state in range(num_states):
            costs[state] -= least


def follow_ancestors(back: Any, ancestors: Any, before: Any) -> None:
    """Update, after further frames, in which state of an earlier frame the best path to each state began.

    ``back`` is int16 (frames, states), back pointers of the further frames; ``ancestors``, int16 (states,), is changed
    in place, and ``before`` scratch of the same size.
    """
    num_states = back.shape[1]
    for row in range(back.shape[0]):
        for state in range(num_states):
            before[state] = ancestors[state]
        for state in range(num_states):
            ancestors[state] = before[back[row, state]]


def trace_path(back: Any, places: Any, state: int, states: Any) -> None:
    """Trace back the best path that ends in ``state``: int64 (frames,), the state in each frame.

    Frame t has row ``places[t]`` of the back pointers ``back``, int16 (rows, states).
    """
    here = np.int64(state)
    for frame in range(places.shape[0] - 1, -1, -1):
        states[frame] = here
        here = np.int64(back[places[frame], here])


def paths_meeting(back: Any, places: Any, most: int) -> int:
    """Return how many of the last frames, at most ``most``, are after the last frame on which all best paths agree.

    Arguments as of :func:`trace_path`.
    """
    low, high, latency = np.int64(0), np.int64(back.shape[1] - 1), np.int64(0)
    for frame in range(places.shape[0] - 1, -1, -1):
        if latency >= most:
            break
        low, high = np.int64(back[places[frame], low]), np.int64(back[places[frame], high])
        if low == high:
            break
        if frame > 0:
            latency += 1
    return latency
