"""The loops that find pitch: correlations of each frame at many lags, the cheapest path through them."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

NEAR = 2          # states beside the one of the envelope, among which rounding decides


def correlate(signal: Any, first: int, starts: Any, ends: Any, window: int, first_lag: int, preemphasis: float,
              frame: Any, correlations: Any, energies: Any) -> None:
    """Correlations of frames of a signal with itself, and the products of the energies they are of.

    Parameters
    ----------
    signal, first : float32 (samples,), the number of the first one; what is outside is 0
    starts, ends : int64 (frames,), where frames begin, and the signal's end for each of them
    window, first_lag : samples that are compared; the least lag. The largest is given by the number of columns
    frame : float32 (window + largest lag,), room
    correlations, energies : float32 (frames, lags), results
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


def normalize(correlations: Any, energies: Any, ballasts: Any, nccf: Any) -> None:
    """Normalized correlations at the measured lags: float32 (frames, lags).

    Parameters
    ----------
    correlations, energies : as of :func:`correlate`
    ballasts : float64 (frames,), what is added to energies; a correlation is 0 where nothing is in the denominator
    """
    for row in range(correlations.shape[0]):
        for lag in range(correlations.shape[1]):
            below = math.sqrt(energies[row, lag] + ballasts[row])
            nccf[row, lag] = np.float32(correlations[row, lag] / below) if below > 0.0 else np.float32(0.0)


def interpolate(nccf: Any, starts: Any, sizes: Any, weights: Any, at_states: Any) -> None:
    """Normalized correlations at all states, which are between the measured lags: float32 (frames, states).

    Parameters
    ----------
    nccf : float32 (frames, lags)
    starts, sizes, weights : int32 (states,), int32 (states,), float32 (states, largest size): the measured lags that
        a state's is made of
    """
    for row in range(nccf.shape[0]):
        for state in range(starts.shape[0]):
            total, first = np.float32(0.0), np.int64(starts[state])
            for place in range(np.int64(sizes[state])):
                total += nccf[row, first + place] * weights[state, place]
            at_states[row, state] = total


def interpolate_along(nccf: Any, places: Any, states: Any, starts: Any, sizes: Any, weights: Any, values: Any) -> None:
    """As :func:`interpolate`, at one state of each frame: float32 (frames,).

    Parameters
    ----------
    nccf, places : float32 (rows, lags); int64 (frames,), which row is a frame's
    states : int64 (frames,)
    """
    for frame in range(states.shape[0]):
        row, state = places[frame], states[frame]
        total, first = np.float32(0.0), np.int64(starts[state])
        for place in range(np.int64(sizes[state])):
            total += nccf[row, first + place] * weights[state, place]
        values[frame] = total


def search(nccf: Any, lags: Any, soft_min_f0: float, change_cost: float, costs: Any, back: Any, envelope: Any,
           bounds: Any, before: Any) -> None:
    """Go on with the search for the cheapest path, frame by frame.

    From state j to state i a path costs ``change_cost`` times the square of their distance. The least over j of such
    equal parabolas is their lower envelope, found in linear time (Felzenszwalb and Huttenlocher 2012). Costs are
    single numbers, and near a change of the envelope their rounding decides, as it does in Kaldi.

    Parameters
    ----------
    nccf : float32 (frames, states)
    lags : float32 (states,), in seconds
    costs : float32 (states,), of the best paths to the states, changed in place; the least is 0
    back : int16 (frames, states), results: where the best path comes from
    envelope, bounds, before : int64 (states,), float64 (states + 1,) and float32 (states,), room
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


def follow(back: Any, ancestors: Any, before: Any) -> None:
    """Go on with where the best paths to the states were in an earlier frame.

    Parameters
    ----------
    back : int16 (frames, states), where the best paths come from, of further frames
    ancestors : int16 (states,), the states that they were in then, changed in place
    before : int16 (states,), room
    """
    num_states = back.shape[1]
    for row in range(back.shape[0]):
        for state in range(num_states):
            before[state] = ancestors[state]
        for state in range(num_states):
            ancestors[state] = before[back[row, state]]


def trace(back: Any, places: Any, state: int, states: Any) -> None:
    """The path that ends in a state: int64 (frames,).

    ``back`` is int16 (rows, states); ``places``, int64 (frames,), which row is a frame's.
    """
    here = np.int64(state)
    for frame in range(places.shape[0] - 1, -1, -1):
        states[frame] = here
        here = np.int64(back[places[frame], here])


def meeting(back: Any, places: Any, most: int) -> int:
    """How many of the last frames, at most ``most``, must go by before all paths have met. Arguments as of `trace`."""
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
