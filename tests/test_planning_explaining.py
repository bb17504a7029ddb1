"""
Why a plan is what it is.
"""

from __future__ import annotations

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.planning.actions import Add, Move, Null, Reject, Skip
from voltha_coord.planning.deployment import Deployment, Node, Process, Wanted
from voltha_coord.planning.explaining import (
    FEWER,
    ITSELF,
    LEAST_USED,
    MORE_USED,
    NOT_WANTED_THERE,
    WANTED_THERE,
    WITH_REFERENCE,
    Explained,
    Explanations,
)
from voltha_coord.planning.rebalance import rebalance
from voltha_coord.planning.relocate import relocate
from voltha_coord.planning.shares import Resources, Share
from voltha_coord.planning.synchronize import synchronize


def node(name: str, cpu: float, memory: float = 1, state: str = "online") -> Node:
    """
    Give a node of one core.
    """
    return Node(name, state, resources=Resources(cpu, 90, memory, 90))


NODES = {"n1": node("n1", 7), "n2": node("n2", 85), "n3": node("n3", 20)}
LIMITS = Share(10, 20)


class ExplanationsTests(SynchronousTestCase):
    """
    Three nodes: one with little to do, a full one, one between.
    """

    def explain(self, phase: object, **fields: object) -> list[Explained]:
        """
        Go through a phase; give what there is to say.
        """
        deployment = Deployment(**{"nodes": NODES, **fields})  # type: ignore[arg-type]
        explanations = Explanations(deployment)
        phase(deployment, explain=explanations)  # type: ignore[operator]
        return explanations.all

    def test_added(self) -> None:
        """
        Of what is placed it is said why there, and why not on each other node.
        """
        (found,) = self.explain(synchronize, work=[Wanted("w1", limits=LIMITS)])

        self.assertEqual(
            found,
            Explained(
                Add("w1", "n1"),
                LEAST_USED,
                {"n2": "cpu 85 and 10 more is not below 90", "n3": MORE_USED},
            ),
        )

    def test_in_turn(self) -> None:
        """
        What was placed before is counted by then, and draws others of its
        reference.
        """
        work = [Wanted(f"w{n}", limits=Share(10, 40), reference="r") for n in range(3)]

        first, second, third = self.explain(synchronize, work=work)

        self.assertEqual((first.why, second.why), (LEAST_USED, WITH_REFERENCE))
        self.assertEqual(second.why_not["n3"], FEWER)
        self.assertEqual(third.action, Add("w2", "n3"))
        self.assertEqual(third.why_not["n1"], "memory 81 and 40 more is not below 90")

    def test_rejected(self) -> None:
        """
        Of what finds no room it is said why not, on each node; of what has no
        limits there is no more to say.
        """
        bare, big = self.explain(
            synchronize,
            work=[Wanted("w1"), Wanted("w2", limits=Share(84, 1))],
            nodes={**NODES, "n4": node("n4", 0, state="maintenance")},
        )

        self.assertEqual(bare, Explained(bare.action))
        self.assertIsInstance(big.action, Reject)
        self.assertEqual(set(big.why_not), {"n1", "n2", "n3", "n4"})
        self.assertEqual(big.why_not["n4"], "is maintenance")

    def test_nothing_to_say(self) -> None:
        """
        That all is well needs no reason.
        """
        process = Process("w1", "n1", limits=LIMITS)
        wanted = Wanted("w1", limits=LIMITS)

        found = self.explain(synchronize, work=[wanted], processes=[process])

        self.assertEqual(found, [Explained(Null("w1"))])

    def test_moved(self) -> None:
        """
        Of what is moved it is said that it is to go.
        """
        nodes = {**NODES, "n2": evolve(node("n2", 95))}
        process = Process("w1", "n2", usage=LIMITS, limits=LIMITS)

        (found,) = self.explain(rebalance, nodes=nodes, processes=[process])

        self.assertEqual(
            found,
            Explained(
                Move("w1", "n2", "n1"), LEAST_USED, {"n2": ITSELF, "n3": MORE_USED}
            ),
        )

    def test_wanted_there(self) -> None:
        """
        What an operator wants on a node is moved there, because of that.
        """
        process = Process("w1", "n1", usage=LIMITS, limits=LIMITS)

        (found,) = self.explain(relocate, processes=[process], relocations={"w1": "n3"})

        self.assertEqual(found.why, WANTED_THERE)
        self.assertEqual(found.why_not["n1"], ITSELF)
        self.assertIn("cpu 85", found.why_not["n2"])

    def test_skipped(self) -> None:
        """
        Of what cannot be moved it is said why not, on each node.
        """
        process = Process("w1", "n2", usage=LIMITS, limits=Share(89, 1))

        (found,) = self.explain(relocate, processes=[process], relocations={"w1": ""})

        self.assertIsInstance(found.action, Skip)
        self.assertEqual(found.why_not["n2"], ITSELF)
        self.assertIn("cpu", found.why_not["n1"])

    def test_not_wanted_there(self) -> None:
        """
        Of others that have room it is said that it is not wanted there.
        """
        nodes = {**NODES, "n4": node("n4", 1)}
        process = Process("w1", "n1", usage=LIMITS, limits=LIMITS)

        (found,) = self.explain(
            relocate, nodes=nodes, processes=[process], relocations={"w1": "n3"}
        )

        self.assertEqual(found.why_not["n4"], NOT_WANTED_THERE)
