"""Loops that look words up in a const-ARPA model; imported only to be compiled. ``const_arpa.py`` has the layout.

``unigrams``, ``pool``, ``scores`` and ``overflow`` are the arrays of a ``ConstArpa``. A history is the part from
``begin`` to ``end`` - 1 of an array of words, the oldest first. An address is the index of a record in ``pool``, -1
for none.
"""
from __future__ import annotations

import numpy as np

from nnet3py.engine.inline import inline

NOTHING = np.float32(-np.inf)


@inline
def find_child(pool, address, word):
    """Return the index in ``pool`` of the pair (word, info) in the record at ``address``; -1 if no child has the word.
    """
    low, high = np.int64(0), np.int64(pool[address + 2]) - 1
    while low <= high:
        middle = (low + high) >> 1
        child = pool[address + 3 + 2 * middle]
        if child == word:
            return address + 3 + 2 * middle
        if child < word:
            low = middle + 1
        else:
            high = middle - 1
    return np.int64(-1)


@inline
def child_address(pool, overflow, address, child):
    """Return the address of the record of the pair at ``child``, in the record at ``address``; -1 if it has none."""
    info = np.int64(pool[child + 1])
    if info & 1 == 0:
        return np.int64(-1)
    return address + (info >> 1) if info > 0 else overflow[(-info) >> 1] - 1


@inline
def known_word(unigrams, unk, word):
    """Return ``word`` if the model has it, else ``unk``, the number for unknown words (-1 if there is none)."""
    missing = word < 0 or word >= len(unigrams) or unigrams[word] == 0
    return unk if missing and unk != -1 else word


@inline
def record_of(unigrams, pool, overflow, unk, history, begin, end):
    """Return the address of the record of a nonempty history; -1 if it has none."""
    word = known_word(unigrams, unk, history[begin])
    if word < 0 or word >= len(unigrams):
        return np.int64(-1)
    address = unigrams[word] - 1
    for place in range(begin + 1, end):
        if address < 0:
            break
        child = find_child(pool, address, known_word(unigrams, unk, history[place]))
        address = child_address(pool, overflow, address, child) if child >= 0 else np.int64(-1)
    return address


@inline
def log_prob_after(unigrams, pool, scores, overflow, unk, history, end, word):
    """Return log P(word | history), float32, for a history shorter than the model's order; -inf for a word it lacks."""
    word = known_word(unigrams, unk, word)
    log_prob, first = NOTHING, 0
    while first < end:
        address = record_of(unigrams, pool, overflow, unk, history, first, end)
        if address >= 0:
            child = find_child(pool, address, word)
            if child >= 0:
                below = child_address(pool, overflow, address, child)
                log_prob = scores[below] if below >= 0 else scores[child + 1]
                break
        first += 1
    if first == end and 0 <= word < len(unigrams) and unigrams[word] > 0:
        log_prob = scores[unigrams[word] - 1]
    while first > 0:
        first -= 1
        address = record_of(unigrams, pool, overflow, unk, history, first, end)
        if address >= 0:
            log_prob = scores[address + 1] + log_prob
    return log_prob


@inline
def first_word_of_state(unigrams, pool, overflow, unk, history, end):
    """Return the index in ``history`` where its longest suffix that begins an n-gram starts; ``end`` if it is empty."""
    begin = 0
    while begin < end:
        address = record_of(unigrams, pool, overflow, unk, history, begin, end)
        if address >= 0 and pool[address + 2] > 0:
            break
        begin += 1
    return begin


@inline
def next_state(unigrams, pool, scores, overflow, unk, order, histories, lengths, state, word, target):
    """Write the state that a word leads to into row ``target`` of ``histories``; return the word's log-probability.

    States are rows of ``histories`` (words, the oldest first) with their ``lengths``, at most ``order`` - 1. For a word
    that the model lacks, return -inf and write nothing. ``target`` must not be ``state``.
    """
    length = lengths[state]
    score = log_prob_after(unigrams, pool, scores, overflow, unk, histories[state], length, word)
    if score == NOTHING:
        return score
    kept = min(length, order - 2) if order > 1 else 0        # words of the old history that may stay
    drop = length - kept
    for place in range(kept):
        histories[target, place] = histories[state, drop + place]
    total = kept
    if order > 1:
        histories[target, kept] = word
        total = kept + 1
    begin = first_word_of_state(unigrams, pool, overflow, unk, histories[target], total)
    for place in range(begin, total):
        histories[target, place - begin] = histories[target, place]
    lengths[target] = total - begin
    return score


# -- called from Python ------------------------------------------------------------------------------------------------


def log_prob(unigrams, pool, scores, overflow, unk, history, word):
    """Return the log-probability of a word after a history that is shorter than the model's order."""
    return log_prob_after(unigrams, pool, scores, overflow, unk, history, len(history), word)


def longest_state(unigrams, pool, overflow, unk, history):
    """Return the index in ``history`` where its longest suffix that is a state of the model begins."""
    return first_word_of_state(unigrams, pool, overflow, unk, history, len(history))


def first_damage(unigrams, pool, overflow):
    """Check all records; return -1, or the index in ``pool`` of the first invalid one, or -2 for an invalid address.

    Records must follow each other without gaps; addresses of words and children must be in ``pool``.
    """
    size = np.int64(len(pool))
    at = np.int64(0)
    while at < size:
        if at + 3 > size or pool[at + 2] < 0 or at + 3 + 2 * np.int64(pool[at + 2]) > size:
            return at
        for child in range(at + 3, at + 3 + 2 * np.int64(pool[at + 2]), 2):
            if pool[child] < 0 or child > at + 3 and pool[child - 2] >= pool[child]:
                return at
            info = np.int64(pool[child + 1])
            if info & 1:
                place = np.int64(-1)
                if info > 0:
                    place = at + (info >> 1)
                elif (-info) >> 1 < len(overflow):
                    place = overflow[(-info) >> 1] - 1
                if place < 0 or place + 3 > size or pool[place + 2] < 0 \
                        or place + 3 + 2 * np.int64(pool[place + 2]) > size:
                    return at
        at += 3 + 2 * np.int64(pool[at + 2])
    for word in range(len(unigrams)):
        place = unigrams[word] - 1
        if place < -1 or place >= 0 and (place + 3 > size or pool[place + 2] < 0
                                         or place + 3 + 2 * np.int64(pool[place + 2]) > size):
            return np.int64(-2)
    return np.int64(-1)
