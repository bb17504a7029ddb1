"""
Where items of one reference are: they like to run together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .deployment import Process, domain_of


class Affinity:
    """
    Counts, for each reference in each domain, how many of its items a node has.

    Whatever an item's state is, it counts; one without a reference does not.
    The nodes of a reference are in order of their counts, the highest first, as
    it was at the beginning; among equal ones, and among those that come later,
    the one that was seen first.

    :param processes: what the nodes have, in an order that settles the rest.
    """

    def __init__(self, processes: Iterable[Process] = ()) -> None:
        self._counts: dict[tuple[str, str], dict[str, int]] = {}
        for process in processes:
            self.add(process.reference, domain_of(process.id), process.node)
        for key, counts in self._counts.items():
            ordered = sorted(counts.items(), key=lambda item: -item[1])
            self._counts[key] = dict(ordered)

    def nodes(self, reference: str, domain: str) -> Iterator[str]:
        """
        Give the nodes that have items of a reference, in order.
        """
        return iter(tuple(self._counts.get((reference, domain), ())))

    def counts(self, reference: str, domain: str) -> list[tuple[str, int]]:
        """
        Give these nodes, each with how many it has.
        """
        return [*self._counts.get((reference, domain), {}).items()]

    def add(self, reference: str, domain: str, node: str) -> None:
        """
        Count one more item on a node.
        """
        if reference:
            counts = self._counts.setdefault((reference, domain), {})
            counts[node] = counts.get(node, 0) + 1

    def move(self, reference: str, domain: str, source: str, target: str) -> None:
        """
        Count an item on one node instead of on another.
        """
        self.add(reference, domain, target)
        counts = self._counts.get((reference, domain), {})
        if source in counts:
            counts[source] -= 1
            if counts[source] <= 0:
                del counts[source]
