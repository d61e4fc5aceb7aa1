"""6.7: an experiment: does the order of additions matter?."""

import torch

from addnorm_lib.course.exercises.define import exercise


def distinct_results(parts, orders):
    """Return how many different results, bit for bit, come out when the rows of `parts` are added up in these orders.

    An experiment: `parts` is float32 (G, D). Each of `orders` is a list of row numbers; begin with the first of them
    and add one row after another, as atomic additions would happen to arrive. Return an int.
    """
    results = set()
    for order in orders:
        total = parts[order[0]]
        for row in order[1:]:
            total = total + parts[row]
        results.add(tuple(total.tolist()))
    return len(results)


def _cases():
    three = torch.tensor([[1.0], [2.0**24], [-(2.0**24)]])
    orders = [[0, 1, 2], [1, 2, 0], [2, 1, 0], [0, 1, 2], [1, 0, 2]]
    many = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    shuffled = [
        torch.randperm(8, generator=torch.Generator().manual_seed(seed)).tolist() for seed in (*range(6), *range(2))
    ]
    whole = torch.arange(8.0).reshape(4, 2)
    cancelling = torch.cat([three, -three], 1)  # each vector of sums has total 0
    few = torch.tensor([[3.3, 1.1], [10.1, 0.9], [0.5, 0.1], [7.7, 0.7], [-0.1, 1.3]])
    ways = [[3, 2, 1, 0, 4], [2, 4, 1, 3, 0], [4, 3, 2, 1, 0], [1, 3, 0, 4, 2], [4, 1, 2, 3, 0], [3, 2, 1, 0, 4]]
    vast = torch.tensor([[1.0], [2.0**60], [-(2.0**60)]])  # too much for float64 too
    return [
        (three, orders),
        (vast, orders),
        (cancelling, orders),
        (few, ways),
        (whole, [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]]),
        (many, shuffled),
    ]


MISTAKES = """
in exact arithmetic: return distinct_results(parts.double(), orders)
    Are the sums taken in float64, as in torch.cumsum? The gradient's additions are float32.
orders counted: return len(orders)
    Are orders counted? Two orders may well give the same bits.
distinct orders: return len({tuple(order) for order in orders})
    Are distinct orders counted? Two of them may well give the same bits.
the mathematician's answer: return 1
    Is it always 1? Rounded additions do not associate: does each order count, and is each result kept?
close ones merged: tuple(total.tolist()) → tuple(round(v, 3) for v in total.tolist())
    Are results rounded before they are compared? Bit for bit means exactly equal.
feature by feature: results.add(tuple(total.tolist())) → results.update(total.tolist())
    Are single features counted? One result is the whole vector of D sums.
other than the first: len(results) → len(results) - 1
    Is the first result left out of the count? It is one of them.
total of the vector: tuple(total.tolist()) → total.sum().item()
    Are the D sums added up to one number? Vectors may differ and have the same total.
first feature: tuple(total.tolist()) → total[0].item()
    Is only the first feature compared? One result is the whole vector of D sums.
torch.sum: return len({tuple(parts[order].sum(0).tolist()) for order in orders})
    Is it torch.sum that adds? It chooses an order of its own: add one row after another.
backwards: return distinct_results(parts, [order[::-1] for order in orders])
    Are the rows added from the last to the first? Begin with the first of each order.
first row twice: order[1:] → order
    Is the first row added twice? The total begins with it, so go on from the second.
last row left out: order[1:] → order[1:-1]
    Is the last row of each order left out? All rows are added.
total never set back: total = parts[order[0]] → total = total + parts[order[0]] if results else parts[order[0]]
    Does the total go on from the order before? Each order begins anew.
unlike the first, each: results = set() → results = [];
        results.add(tuple(total.tolist())) → results.append(total.tolist()); len(results) →
        sum(result != results[0] for result in results)
    Are all orders counted that differ from the first? Equal results count once, and the first too.
changes counted: results = set() → results = []; results.add(tuple(total.tolist())) →
        results.append(total.tolist()); len(results) → 1 + sum(a != b for a, b in zip(results, results[1:]))
    Are neighbouring results compared? A result may come back later: keep all that have been seen.
"""

HINTS = """
Add the rows in a loop; torch.sum chooses an order of its own.
tuple(total.tolist()) can be put into a set; the set's length is the answer.
"""

EXERCISE = exercise(__doc__, distinct_results, _cases, MISTAKES, HINTS, claims="F6")
