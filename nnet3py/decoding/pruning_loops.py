"""The loops of the lattice decoder: pruning tokens and links, backwards in time. Arrays: ``search_layout.py``."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nnet3py.decoding.search_layout import (
    ACOUSTIC,
    BACK,
    CHAIN,
    EXTRA,
    FINAL,
    FIRST_LINK,
    FIRST_TOKEN,
    FRAME,
    GRAPH,
    LATTICE_BEAM,
    LINK_WORDS,
    LINKS,
    NUM_LINKS,
    NUM_TOKENS,
    OLDER,
    PRUNE_DELTA,
    PRUNE_LINKS,
    PRUNE_TOKENS,
    STATE,
    STATE_WORDS,
    TO,
    TOKEN_WORDS,
    TOTAL,
)
from nnet3py.engine.inline import inline

_INFINITY = np.float32(np.inf)
_NEAR = np.float32(1e-5)            # relative difference of costs that count as equal at the end


class Tokens(NamedTuple):
    """All tokens and links, what is kept for each time, counts and limits; ``remap`` (int32) is scratch."""

    tokens: np.ndarray
    token_costs: np.ndarray
    links: np.ndarray
    link_costs: np.ndarray
    frames: np.ndarray
    offsets: np.ndarray
    remap: np.ndarray
    counts: np.ndarray
    limits: np.ndarray


@inline
def _end(search: Tokens, frame: int) -> int:
    """The number after a time's last token."""
    return search.counts[NUM_TOKENS] if frame == search.counts[FRAME] else search.frames[frame + 1, FIRST_TOKEN]


@inline
def prune_active(search: Tokens, delta: float) -> int:
    """Prune where something may have changed; returns the first time that has lost something, or the newest.

    Tokens of the newest time keep an extra cost of 0, so that nothing is lost that may still turn out well.
    """
    frames, newest = search.frames, search.counts[FRAME]
    first = newest
    for frame in range(newest - 1, -1, -1):
        if frames[frame, PRUNE_LINKS]:
            costs_changed, lost = _prune_links(search, frame, delta)
            if costs_changed and frame > 0:
                frames[frame - 1, PRUNE_LINKS] = 1
            if lost:
                frames[frame, PRUNE_TOKENS] = 1
                first = frame
            frames[frame, PRUNE_LINKS] = 0
        if frame + 1 < newest and frames[frame + 1, PRUNE_TOKENS]:
            _prune_tokens(search, frame + 1)
            frames[frame + 1, PRUNE_TOKENS] = 0
            first = min(first, frame + 1)
    return first


@inline
def _least_extra(search: Tokens, token: int) -> tuple[float, bool]:
    """Drop a token's links that are too bad; returns the others' least extra cost, and whether any were dropped."""
    links, costs = search.links, search.token_costs
    total, beam = costs[token, TOTAL], search.limits[LATTICE_BEAM]
    least, lost, newer = _INFINITY, False, np.int32(-1)
    link = search.tokens[token, LINKS]
    while link >= 0:
        to, older = links[link, TO], links[link, OLDER]
        through = (total + search.link_costs[link, ACOUSTIC]) + search.link_costs[link, GRAPH]
        extra = costs[to, EXTRA] + (through - costs[to, TOTAL])
        if extra > beam:
            lost = True
            links[link, TO] = -1
            if newer >= 0:
                links[newer, OLDER] = older
            else:
                search.tokens[token, LINKS] = older
        else:
            least = min(least, max(extra, np.float32(0.0)))
            newer = link
        link = older
    return least, lost


@inline
def _prune_links(search: Tokens, frame: int, delta: float) -> tuple[bool, bool]:
    """Whether extra costs of a time's tokens have changed by more than ``delta``, and whether links were dropped."""
    first, end, costs = search.frames[frame, FIRST_TOKEN], _end(search, frame), search.token_costs
    costs_changed, lost, again = False, False, True
    while again:
        again = False
        for token in range(end - 1, first - 1, -1):
            least, some_lost = _least_extra(search, token)
            lost |= some_lost
            again |= abs(least - costs[token, EXTRA]) > delta
            costs[token, EXTRA] = least
        costs_changed |= again
    return costs_changed, lost


@inline
def _prune_tokens(search: Tokens, frame: int) -> None:
    for token in range(search.frames[frame, FIRST_TOKEN], _end(search, frame)):
        if search.token_costs[token, EXTRA] == _INFINITY:
            search.tokens[token, STATE] = -1


@inline
def _prune_last_links(search: Tokens, state_costs: Any, any_final: bool, reference: float) -> None:
    """Prune the links of the newest time, whose tokens end paths."""
    frame, costs = search.counts[FRAME], search.token_costs
    again = True
    while again:
        again = False
        for token in range(_end(search, frame) - 1, search.frames[frame, FIRST_TOKEN] - 1, -1):
            final = np.float32(0.0)
            if any_final:
                final = state_costs[np.int64(search.tokens[token, STATE]) * STATE_WORDS + FINAL]
            least, _ = _least_extra(search, token)
            least = min(least, (costs[token, TOTAL] + final) - reference)
            if least > search.limits[LATTICE_BEAM]:
                least = _INFINITY
            old = costs[token, EXTRA]
            near = abs(old - least) < _INFINITY and abs(old - least) <= _NEAR * (abs(old) + abs(least))
            again |= not (old == least or near)
            costs[token, EXTRA] = least


def best_ends(state_costs: Any, tokens: np.ndarray, token_costs: np.ndarray, frames: np.ndarray, counts: np.ndarray,
              best: np.ndarray, places: np.ndarray) -> None:
    """Write to ``best`` (float32) the least cost of the newest time's tokens, without and with final costs.

    ``places`` (int64) are those tokens' places among them, or -1. Of equal ones it is the newest, as in Kaldi.
    """
    first = frames[counts[FRAME], FIRST_TOKEN]
    best[0] = best[1] = _INFINITY
    places[0] = places[1] = -1
    for token in range(first, counts[NUM_TOKENS]):
        total = token_costs[token, TOTAL]
        with_final = total + state_costs[np.int64(tokens[token, STATE]) * STATE_WORDS + FINAL]
        if total <= best[0]:
            best[0], places[0] = total, token - first
        if with_final <= best[1]:
            best[1], places[1] = with_final, token - first


def prune(tokens: np.ndarray, token_costs: np.ndarray, links: np.ndarray, link_costs: np.ndarray, frames: np.ndarray,
          offsets: np.ndarray, remap: np.ndarray, counts: np.ndarray, limits: np.ndarray) -> None:
    """Prune now, instead of after some more frames. Kaldi: PruneActiveTokens."""
    search = Tokens(tokens, token_costs, links, link_costs, frames, offsets, remap, counts, limits)
    first = prune_active(search, limits[PRUNE_DELTA])
    compact(search, first)


def finalize(state_costs: Any, tokens: np.ndarray, token_costs: np.ndarray, links: np.ndarray, link_costs: np.ndarray,
             frames: np.ndarray, offsets: np.ndarray, remap: np.ndarray, counts: np.ndarray, limits: np.ndarray,
             any_final: int, reference: float) -> None:
    """Prune everything, given that no frame follows.

    ``reference`` is the cost of the best path, with its final cost if there is ``any_final`` state.
    """
    search = Tokens(tokens, token_costs, links, link_costs, frames, offsets, remap, counts, limits)
    _prune_last_links(search, state_costs, any_final != 0, reference)
    for frame in range(counts[FRAME] - 1, -1, -1):
        _prune_links(search, frame, np.float32(0.0))
        _prune_tokens(search, frame + 1)
    _prune_tokens(search, 0)
    compact(search, 0)


@inline
def compact(search: Tokens, first_frame: int) -> None:
    """Close the gaps that pruned tokens and links left, from ``first_frame`` on; the order is kept."""
    tokens, links, frames, counts, remap = search.tokens, search.links, search.frames, search.counts, search.remap
    newest = counts[FRAME]
    first_frame = max(first_frame - 1, 0)            # its links lead to tokens that get other numbers
    first_token, first_link = frames[first_frame, FIRST_TOKEN], frames[first_frame, FIRST_LINK]
    kept = first_token
    for token in range(first_token, counts[NUM_TOKENS]):
        tokens[token, CHAIN] = kept                  # its number from now on
        kept += tokens[token, STATE] >= 0
    for token in range(first_token, counts[NUM_TOKENS]):
        if tokens[token, BACK] >= first_token:
            tokens[token, BACK] = tokens[tokens[token, BACK], CHAIN]
    frame, kept_links = first_frame, first_link
    for link in range(first_link, counts[NUM_LINKS]):
        while frame < newest and link == frames[frame + 1, FIRST_LINK]:
            frame += 1
            frames[frame, FIRST_LINK] = kept_links
        if links[link, TO] < 0:
            continue
        remap[link - first_link] = kept_links
        to, older = links[link, TO], links[link, OLDER]
        for word in range(LINK_WORDS):
            links[kept_links, word] = links[link, word]
        links[kept_links, TO] = tokens[to, CHAIN]
        if older >= first_link:
            links[kept_links, OLDER] = remap[older - first_link]
        kept_links += 1
    while frame < newest:
        frame += 1
        frames[frame, FIRST_LINK] = kept_links
    _move_tokens(search, first_frame, first_link)
    counts[NUM_TOKENS], counts[NUM_LINKS] = kept, kept_links


@inline
def _move_tokens(search: Tokens, first_frame: int, first_link: int) -> None:
    tokens, frames, counts = search.tokens, search.frames, search.counts
    first_token, newest, frame = frames[first_frame, FIRST_TOKEN], counts[FRAME], first_frame
    kept = first_token
    for token in range(first_token, counts[NUM_TOKENS]):
        while frame < newest and token == frames[frame + 1, FIRST_TOKEN]:
            frame += 1
            frames[frame, FIRST_TOKEN] = kept
        if tokens[token, STATE] < 0:
            continue
        link = tokens[token, LINKS]
        for word in range(TOKEN_WORDS):
            tokens[kept, word] = tokens[token, word]
        if link >= first_link:
            tokens[kept, LINKS] = search.remap[link - first_link]
        kept += 1
    while frame < newest:
        frame += 1
        frames[frame, FIRST_TOKEN] = kept
