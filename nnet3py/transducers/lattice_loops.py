"""Loops of reading and converting lattices, and over the states of FSTs; compiled, or for small FSTs in plain Python.
"""
from __future__ import annotations

MORE, DONE, DAMAGED = range(3)
_FREE, _OPEN, _FINISHED = range(3)


def walk(words, num_words, weight_words, has_strings, num_states, place):
    """Find the end of the states of a binary FST in ``words`` (int32), the beginning of the data; call again with more.

    Return DONE; MORE if the data end before; DAMAGED for an invalid count. ``place`` (int64 (6,)) is updated: next
    word, states begun, arcs of the last state still to come; and the numbers so far of arcs, of transition-ids on arcs,
    and of transition-ids on final weights. A string of transition-ids follows each weight if ``has_strings`` is 1.
    """
    at, state, left = place[0], place[1], place[2]
    num_arcs, num_ids, num_final_ids = place[3], place[4], place[5]
    arc_words = weight_words + 3 + has_strings
    status = MORE
    while True:
        if left > 0 and has_strings == 0:
            here = min(left, (num_words - at) // arc_words)
            at, left, num_arcs = at + here * arc_words, left - here, num_arcs + here
            if left > 0:
                break
        elif left > 0:
            if at + arc_words > num_words:
                break
            length = words[at + 2 + weight_words]
            if length < 0:
                status = DAMAGED
                break
            if at + arc_words + length > num_words:
                break
            at, left, num_arcs, num_ids = at + arc_words + length, left - 1, num_arcs + 1, num_ids + length
        elif state == num_states:
            status = DONE
            break
        else:
            head = weight_words + 2 + has_strings
            if at + head > num_words:
                break
            length = words[at + weight_words] if has_strings == 1 else 0
            if length < 0:
                status = DAMAGED
                break
            if at + head + length > num_words:
                break
            end = at + head + length
            high, low = words[end - 1], words[end - 2]
            if high != 0 or low < 0:                     # more arcs than any file holds
                status = DAMAGED
                break
            at, state, left, num_final_ids = end, state + 1, low, num_final_ids + length
    place[0], place[1], place[2] = at, state, left
    place[3], place[4], place[5] = num_arcs, num_ids, num_final_ids
    return status


def fill(words, weight_words, num_states, finals, final_starts, final_ids, arc_starts, labels, weights, string_starts,
         ids, next_states):
    """Parse the states of a binary compact lattice into the arrays ``finals`` to ``next_states``.

    Weights are copied as integers that have the bits of the floats. Return 1 if the two labels of some arc differ, else
    0.
    """
    at, arc, num_ids, num_final_ids, differ = 0, 0, 0, 0, 0
    for state in range(num_states):
        for i in range(weight_words):
            finals[state, i] = words[at + i]
        length = words[at + weight_words]
        at += weight_words + 1
        for i in range(length):
            final_ids[num_final_ids + i] = words[at + i]
        num_final_ids += length
        final_starts[state + 1] = num_final_ids
        count = words[at + length]
        at += length + 2
        for _ in range(count):
            labels[arc] = words[at]
            if words[at] != words[at + 1]:
                differ = 1
            for i in range(weight_words):
                weights[arc, i] = words[at + 2 + i]
            length = words[at + 2 + weight_words]
            at += 3 + weight_words
            for i in range(length):
                ids[num_ids + i] = words[at + i]
            num_ids += length
            next_states[arc] = words[at + length]
            at += length + 1
            arc += 1
            string_starts[arc] = num_ids
        arc_starts[state + 1] = arc
    return differ


def fill_plain(words, weight_words, num_states, finals, arc_starts, arcs):
    """Parse the states of a binary FST without strings; rows of ``arcs`` are the int32 words of each arc."""
    at, arc = 0, 0
    for state in range(num_states):
        for i in range(weight_words):
            finals[state, i] = words[at + i]
        count = words[at + weight_words]
        at += weight_words + 2
        for _ in range(count):
            for i in range(weight_words + 3):
                arcs[arc, i] = words[at + i]
            at += weight_words + 3
            arc += 1
        arc_starts[state + 1] = arc
    return arc


def factor(arc_starts, next_states, input_labels, output_labels, weights, is_inner, heads, new_numbers, labels,
           new_weights, string_starts, ids, targets):
    """Join each arc of ``heads`` with the arcs that follow while they lead to inner states; return the number of ids.

    ``new_numbers`` are the numbers of states that are not inner; the arguments after it are the arcs of the result.
    """
    num_ids = 0
    for i in range(len(heads)):
        arc = heads[i]
        labels[i] = output_labels[arc]
        graph, acoustic = weights[arc, 0], weights[arc, 1]
        if input_labels[arc] != 0:
            ids[num_ids] = input_labels[arc]
            num_ids += 1
        while is_inner[next_states[arc]] != 0:
            arc = arc_starts[next_states[arc]]
            graph += weights[arc, 0]
            acoustic += weights[arc, 1]
            if input_labels[arc] != 0:
                ids[num_ids] = input_labels[arc]
                num_ids += 1
        new_weights[i, 0], new_weights[i, 1] = graph, acoustic
        targets[i] = new_numbers[next_states[arc]]
        string_starts[i + 1] = num_ids
    return num_ids


def top_order(start, arc_starts, next_states, positions, marks, stack, order):
    """Sort states topologically: ``order`` is the reverse of the order in which a depth-first search finishes them.

    The search begins at ``start``, then at each state that was not reached, by number. Return the number of states, or
    -1 if there is a cycle. ``marks`` (u1) must be 0.
    """
    num_states = len(order)
    finished = 0
    for root in range(-1, num_states):
        first = start if root < 0 else root
        if first < 0 or marks[first] != _FREE:
            continue
        depth = 0
        stack[0] = first
        marks[first] = _OPEN
        positions[first] = arc_starts[first]
        while depth >= 0:
            state = stack[depth]
            if positions[state] == arc_starts[state + 1]:
                marks[state] = _FINISHED
                finished += 1
                order[num_states - finished] = state
                depth -= 1
                continue
            target = next_states[positions[state]]
            positions[state] += 1
            if marks[target] == _OPEN:
                return -1
            if marks[target] == _FREE:
                depth += 1
                stack[depth] = target
                marks[target] = _OPEN
                positions[target] = arc_starts[target]
    return finished


def mark_useful(start, arc_starts, next_states, is_final, entering_starts, entering_sources, stack, marks):
    """Set bit 0 of ``marks`` (u1, all 0) for states that the start reaches, bit 1 for states that reach a final state.

    The arcs into state s come from ``entering_sources[entering_starts[s]:entering_starts[s + 1]]``.
    """
    depth = 0
    if start >= 0:
        stack[0] = start
        marks[start] = 1
        depth = 1
    while depth > 0:
        depth -= 1
        state = stack[depth]
        for arc in range(arc_starts[state], arc_starts[state + 1]):
            target = next_states[arc]
            if marks[target] == 0:
                marks[target] = 1
                stack[depth] = target
                depth += 1
    for state in range(len(is_final)):
        if is_final[state] != 0:
            marks[state] |= 2
            stack[depth] = state
            depth += 1
    while depth > 0:
        depth -= 1
        state = stack[depth]
        for i in range(entering_starts[state], entering_starts[state + 1]):
            source = entering_sources[i]
            if marks[source] & 2 == 0:
                marks[source] |= 2
                stack[depth] = source
                depth += 1
    return 0


def strong_parts(arc_starts, next_states, positions, depth, lowest, waiting, stack, parts):
    """Write to ``parts`` a number for each state that its strongly connected component shares (Tarjan's algorithm).

    ``depth`` and ``parts`` must be -1; the others are scratch memory. Each array has an element for each state.
    """
    count, num_waiting = 0, 0
    for root in range(len(parts)):
        top = 0
        if depth[root] < 0:
            stack[0] = root
            top = 1
        while top > 0:
            state = stack[top - 1]
            if depth[state] < 0:
                depth[state] = lowest[state] = count
                positions[state] = arc_starts[state]
                waiting[num_waiting] = state
                count, num_waiting = count + 1, num_waiting + 1
            if positions[state] < arc_starts[state + 1]:
                following = next_states[positions[state]]
                positions[state] += 1
                if depth[following] < 0:
                    stack[top] = following
                    top += 1
                elif parts[following] < 0:
                    lowest[state] = min(lowest[state], depth[following])
                continue
            top -= 1
            if top > 0:
                below = stack[top - 1]
                lowest[below] = min(lowest[below], lowest[state])
            member = -1
            while lowest[state] == depth[state] and member != state:
                num_waiting -= 1
                member = waiting[num_waiting]
                parts[member] = state
    return count
