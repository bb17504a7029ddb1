"""
Where items of one reference are.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.planning.affinity import Affinity
from voltha_coord.planning.deployment import Process


def on(node: str, work: str, reference: str = "") -> Process:
    """
    Give a process.
    """
    return Process(work, node, reference=reference)


class AffinityTests(SynchronousTestCase):
    """
    Six processes on three nodes, with four references.
    """

    def setUp(self) -> None:
        """
        Count them.
        """
        self.affinity = Affinity(
            [
                on("n1", "foobar1"),
                on("n1", "foobar2", "ref1"),
                on("n2", "foobar3", "ref3"),
                on("n2", "foobar3", "ref2"),
                on("n3", "foobar4", "ref1"),
                on("n3", "foobar5", "ref1"),
            ]
        )

    def counts(self, reference: str, domain: str = "") -> list[tuple[str, int]]:
        """
        Give the nodes of a reference.
        """
        return self.affinity.counts(reference, domain)

    def test_counted(self) -> None:
        """
        Those with the most come first; what has no reference does not count.
        """
        self.assertEqual(self.counts("ref1"), [("n3", 2), ("n1", 1)])
        self.assertEqual(self.counts("ref2"), [("n2", 1)])
        self.assertEqual(self.counts("ref3"), [("n2", 1)])
        self.assertEqual(self.counts(""), [])
        self.assertEqual([*self.affinity.nodes("ref1", "")], ["n3", "n1"])
        self.assertEqual([*self.affinity.nodes("", "")], [])

    def test_ties(self) -> None:
        """
        Of those with as many the one that was seen first comes first.
        """
        affinity = Affinity([on("n2", "a", "r"), on("n1", "b", "r")])

        self.assertEqual(affinity.counts("r", ""), [("n2", 1), ("n1", 1)])

    def test_domains(self) -> None:
        """
        A reference in another domain is another reference.
        """
        affinity = Affinity([on("n1", "a@x", "r"), on("n2", "b@y", "r")])

        self.assertEqual([*affinity.nodes("r", "x")], ["n1"])
        self.assertEqual([*affinity.nodes("r", "y")], ["n2"])
        self.assertEqual([*affinity.nodes("r", "")], [])

    def test_any_state(self) -> None:
        """
        Whatever the state of a process is, it counts.
        """
        affinity = Affinity([Process("a", "n1", state="failed", reference="r")])

        self.assertEqual([*affinity.nodes("r", "")], ["n1"])

    def test_added_and_moved(self) -> None:
        """
        What is added and moved is counted where it comes, at the end; a node
        that has none any more is not among them.
        """
        self.affinity.add("ref3", "", "n1")
        self.assertEqual(self.counts("ref3"), [("n2", 1), ("n1", 1)])
        self.affinity.add("ref2", "", "n2")
        self.assertEqual(self.counts("ref2"), [("n2", 2)])
        self.affinity.add("ref4", "", "n2")
        self.assertEqual(self.counts("ref4"), [("n2", 1)])
        self.affinity.move("ref2", "", "n2", "n3")
        self.assertEqual(self.counts("ref2"), [("n2", 1), ("n3", 1)])
        self.affinity.move("ref2", "", "n2", "n3")
        self.assertEqual(self.counts("ref2"), [("n3", 2)])
        self.assertEqual(self.counts("ref1"), [("n3", 2), ("n1", 1)])

    def test_moved_and_unknown(self) -> None:
        """
        A reference of which nothing was known is known where it comes; none at
        all is never.
        """
        self.affinity.move("new", "", "n1", "n2")
        self.affinity.move("", "", "n1", "n2")
        self.affinity.add("", "", "n1")

        self.assertEqual(self.counts("new"), [("n2", 1)])
        self.assertEqual(self.counts(""), [])
