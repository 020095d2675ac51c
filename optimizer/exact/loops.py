"""The compiled loops of exact placement: passes of messages, least copies, shares between slots."""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit

STILL = 1e-7  # a bound that rises by less, relatively, in `PATIENCE` passes has converged
PATIENCE = 8


@njit(_nrt=False)
def pass_until_close(problem, messages, work, labels, best, passes, close):
    """Fill `best` with the labels of least cost met in forward and backward passes; return cost, bound and passes."""
    least, bound, still = np.inf, -np.inf, 0
    for done in range(passes):
        energy = _forward(problem, messages, work, labels)
        if energy < least:
            least = energy
            for i in range(labels.shape[0]):
                best[i] = labels[i]
        found = _backward(problem, messages, work)
        still = still + 1 if found <= bound + STILL * abs(bound) else 0
        bound = max(bound, found)
        if least - bound <= close * abs(least) or still >= PATIENCE:
            return least, bound, done + 1
    return least, bound, passes


@njit(_nrt=False, inline="always")
def _share(problem, i):
    """Return the share of a node's costs that each chain through it takes."""
    later = problem.later_start[i + 1] - problem.later_start[i]
    earlier = problem.earlier_start[i + 1] - problem.earlier_start[i]
    return 1.0 / max(later, earlier, 1)


@njit(_nrt=False, inline="always")
def _belief(problem, messages, i, belief):
    """Fill the costs of a node's labels, with what all its edges say; return the number of labels."""
    start = problem.label_start[i]
    count = problem.label_start[i + 1] - start
    for x in range(count):
        belief[x] = problem.unary[start + x]
    for r in range(problem.earlier_start[i], problem.earlier_start[i + 1]):
        e = problem.earlier[r]
        states, message = problem.second_map[e], messages.forward_start[e]
        for x in range(count):
            belief[x] += messages.forward[message + problem.maps[states + x]]
    for r in range(problem.later_start[i], problem.later_start[i + 1]):
        e = problem.later[r]
        states, message = problem.first_map[e], messages.backward_start[e]
        for x in range(count):
            belief[x] += messages.backward[message + problem.maps[states + x]]
    return count


@njit(_nrt=False, inline="always")
def _by_state(problem, belief, count, share, states, state_count, reduced):
    """Fill the least share of belief of each state; infinite for states of no label."""
    for s in range(state_count):
        reduced[s] = np.inf
    for x in range(count):
        s = problem.maps[states + x]
        reduced[s] = min(reduced[s], share * belief[x])


@njit(_nrt=False)
def _forward(problem, messages, work, labels):
    """Send messages to later nodes, and label nodes one after the other; return the labels' cost."""
    belief, reduced = work[0], work[1]
    energy = 0.0
    for i in range(labels.shape[0]):
        count = _belief(problem, messages, i, belief)
        share = _share(problem, i)
        for r in range(problem.later_start[i], problem.later_start[i + 1]):
            e = problem.later[r]
            rows, columns, scale = problem.rows[e], problem.columns[e], problem.scale[e]
            _by_state(problem, belief, count, share, problem.first_map[e], rows, reduced)
            table, back, ahead = problem.table_start[e], messages.backward_start[e], messages.forward_start[e]
            for n in range(columns):
                messages.forward[ahead + n] = np.inf
            for s in range(rows):
                if reduced[s] < np.inf:
                    sent = reduced[s] - messages.backward[back + s]
                    row = table + s * columns
                    _lower_to(messages.forward, ahead, columns, sent, scale, problem.tables, row)
            least = np.inf
            for n in range(columns):
                least = min(least, messages.forward[ahead + n])
            for n in range(columns):
                messages.forward[ahead + n] -= least
        energy += _label(problem, messages, i, count, work[0], work[2], labels)
    return energy


@njit(_nrt=False)
def _lower_to(values, start, count, sent, scale, tables, row):
    """Lower values to `sent` plus a row of a table, where that is less.

    Indices are unsigned: numba looks whether signed ones are negative, which keeps it from computing several at once.
    """
    start, row = np.uint64(start), np.uint64(row)
    for n in range(np.uint64(count)):
        found, before = sent + scale * tables[row + n], values[start + n]
        values[start + n] = found if found < before else before


@njit(_nrt=False)
def _least_sum(values, count, scale, tables, row):
    """Return the least sum of a value and a table entry of a row, in four strands that do not wait for each other."""
    row, whole, last = np.uint64(row), np.uint64(count // 4 * 4), np.uint64(count)
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    a = b = c = d = np.inf
    for n in range(np.uint64(0), whole, four):
        found = values[n] + scale * tables[row + n]
        a = found if found < a else a
        found = values[n + one] + scale * tables[row + n + one]
        b = found if found < b else b
        found = values[n + two] + scale * tables[row + n + two]
        c = found if found < c else c
        found = values[n + three] + scale * tables[row + n + three]
        d = found if found < d else d
    for n in range(whole, last):
        found = values[n] + scale * tables[row + n]
        a = found if found < a else a
    return min(a, b, c, d)


@njit(_nrt=False, inline="always")
def _label(problem, messages, i, count, belief, own, labels):
    """Choose a node's label given those of earlier nodes and what later ones say; return the cost it adds."""
    start = problem.label_start[i]
    for x in range(count):
        own[x] = problem.unary[start + x]
        belief[x] = 0.0
    for r in range(problem.earlier_start[i], problem.earlier_start[i + 1]):
        e = problem.earlier[r]
        row = problem.maps[problem.first_map[e] + labels[problem.first[e]]]
        table, scale = problem.table_start[e] + row * problem.columns[e], problem.scale[e]
        for x in range(count):
            own[x] += scale * problem.tables[table + problem.maps[problem.second_map[e] + x]]
    for r in range(problem.later_start[i], problem.later_start[i + 1]):
        e = problem.later[r]
        for x in range(count):
            belief[x] += messages.backward[
                messages.backward_start[e] + problem.maps[problem.first_map[e] + x]
            ]
    chosen = 0
    for x in range(1, count):
        if own[x] + belief[x] < own[chosen] + belief[chosen]:
            chosen = x
    labels[i] = chosen
    return own[chosen]


@njit(_nrt=False)
def _backward(problem, messages, work):
    """Send messages to earlier nodes; return the lower bound that they prove."""
    belief, reduced = work[0], work[1]
    bound = 0.0
    for j in range(problem.label_start.shape[0] - 1):
        i = problem.label_start.shape[0] - 2 - j
        count = _belief(problem, messages, i, belief)
        least = np.inf
        for x in range(count):
            least = min(least, belief[x])
        for x in range(count):
            belief[x] -= least
        bound += least
        share = _share(problem, i)
        for r in range(problem.earlier_start[i], problem.earlier_start[i + 1]):
            e = problem.earlier[r]
            rows, columns, scale = problem.rows[e], problem.columns[e], problem.scale[e]
            _by_state(problem, belief, count, share, problem.second_map[e], columns, reduced)
            table, back, ahead = problem.table_start[e], messages.backward_start[e], messages.forward_start[e]
            for n in range(columns):
                reduced[n] -= messages.forward[ahead + n]
            least = np.inf
            for s in range(rows):
                found = _least_sum(reduced, columns, scale, problem.tables, table + s * columns)
                messages.backward[back + s] = found
                least = min(least, found)
            for s in range(rows):
                messages.backward[back + s] -= least
            bound += least
    return bound


@njit(_nrt=False)
def least_holding(holds, orders, ticks, moved, found):
    """Fill, where a copy is `moved`, the least ticks of one that `holds` what is needed; else zero."""
    for n in range(ticks.shape[1]):
        for m in range(ticks.shape[0]):
            found[m, n] = ticks[m, n] if moved[m, n] else 0.0
        for h in range(ticks.shape[1]):
            if holds[h // orders, n // orders]:
                for m in range(ticks.shape[0]):
                    if moved[m, n] and moved[m, h]:
                        found[m, n] = min(found[m, n], ticks[m, h])


@njit()
def largest_between(spans, shares):
    """Return the largest share between the two slots of each edge `(edges,)`, zero without any, and where; -1: none."""
    most, at = np.zeros(spans.shape[0]), np.full(spans.shape[0], -1)
    for e in range(spans.shape[0]):
        for k in range(spans[e, 0] + 1, spans[e, 1]):
            if shares[k] > most[e]:
                most[e], at[e] = shares[k], k
    return most, at
