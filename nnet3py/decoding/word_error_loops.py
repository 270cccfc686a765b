"""Loops of ``word_errors.py``: edit distances, alignments, random samples of utterances."""
from __future__ import annotations

MATCH, DELETE, INSERT = 0, 1, 2


def count(reference, hypothesis, totals, edits):
    """Count insertions, deletions and substitutions of the cheapest alignment; return their sum.

    ``totals`` int32 (places,) and ``edits`` int32 (places, 3) are scratch memory, a row for each prefix of the
    reference; the last row of ``edits`` has the counts. Of equal steps, an insertion is preferred to a deletion, and
    both to a match or substitution, as in Kaldi.
    """
    size = len(reference)
    for i in range(size + 1):
        totals[i] = i
        edits[i, 0], edits[i, 1], edits[i, 2] = 0, i, 0
    for word in hypothesis:
        before, insertions, deletions, substitutions = totals[0], edits[0, 0], edits[0, 1], edits[0, 2]
        totals[0] += 1
        edits[0, 0] += 1
        for i in range(1, size + 1):
            differs = 1 if reference[i - 1] != word else 0
            cost = before + differs
            old_total, old_0, old_1, old_2 = totals[i], edits[i, 0], edits[i, 1], edits[i, 2]
            if cost < totals[i] + 1 and cost < totals[i - 1] + 1:
                totals[i] = cost
                edits[i, 0], edits[i, 1], edits[i, 2] = insertions, deletions, substitutions + differs
            elif totals[i - 1] < totals[i]:
                totals[i] = totals[i - 1] + 1
                edits[i, 0], edits[i, 1], edits[i, 2] = edits[i - 1, 0], edits[i - 1, 1] + 1, edits[i - 1, 2]
            else:
                totals[i] += 1
                edits[i, 0] += 1
            before, insertions, deletions, substitutions = old_total, old_0, old_1, old_2
    return totals[size]


def steps(first, second, totals, table):
    """Write to ``table`` uint8 (len(first) + 1, len(second) + 1) the last step of the best alignment of prefixes.

    Of equal steps, a match or substitution is preferred to a deletion (from ``first``), and a deletion to an insertion.
    ``totals`` int32 (columns,) is scratch memory.
    """
    for j in range(len(second) + 1):
        totals[j] = j
        table[0, j] = INSERT
    for i in range(1, len(first) + 1):
        before = totals[0]
        totals[0] = i
        table[i, 0] = DELETE
        for j in range(1, len(second) + 1):
            match = before + (1 if first[i - 1] != second[j - 1] else 0)
            delete, insert = totals[j] + 1, totals[j - 1] + 1
            before = totals[j]
            if match <= delete and match <= insert:
                totals[j], table[i, j] = match, MATCH
            elif delete <= insert:
                totals[j], table[i, j] = delete, DELETE
            else:
                totals[j], table[i, j] = insert, INSERT
    return totals[len(second)]


def resample(state, place, errors, words, replications, results):
    """Draw random samples, each of as many utterances as there are; ``results`` gets the errors and words of each.

    ``state`` uint32 (31,) and ``place`` are the state of the C library's random number generator; return its next
    place.
    """
    size = len(errors)
    for replication in range(replications):
        total, count_of_words = 0, 0
        for _ in range(size):
            chosen = 0
            if size > 1:
                value = (state[(place + 28) % 31] + state[place]) & 0xFFFFFFFF
                state[place] = value
                place = (place + 1) % 31
                chosen = (value >> 1) % size
            total += errors[chosen]
            count_of_words += words[chosen]
        results[replication, 0], results[replication, 1] = total, count_of_words
    return place
