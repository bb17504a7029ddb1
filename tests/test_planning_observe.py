"""
A cluster's state, as planning by resources sees it.
"""

from __future__ import annotations

import json
import math

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.planning.deployment import Process
from voltha_coord.planning.observe import AT_A_TIME, MOST_BYTES, observe, read_ahead
from voltha_coord.planning.shares import Share
from voltha_coord.planning.state import LEAVE, MAINTENANCE, ClusterState
from voltha_coord.records import (
    PREPARE,
    Assignment,
    Member,
    OwnerRecord,
    StatusReport,
)

from .support.resourceful import assigned, gone, item, reporting, resourceful


class NodesTests(SynchronousTestCase):
    """
    Members, as nodes.
    """

    def setUp(self) -> None:
        """
        Two members, of which one has an item.
        """
        self.state = assigned(
            resourceful({"m1": (7, 35), "m2": (1, 1)}, [item()]), "m1", item()
        )

    def states(self, state: ClusterState) -> dict[str, str]:
        """
        Give the states of the nodes.
        """
        return {name: node.state for name, node in observe(state).nodes.items()}

    def test_online(self) -> None:
        """
        Who is there and tells what it uses is online.
        """
        self.assertEqual(self.states(self.state), {"m1": "online", "m2": "online"})

    def test_wanted_otherwise(self) -> None:
        """
        What operators want of members, what these want themselves, and a weight
        of 0 are states of the node.
        """
        for what, want in ((MAINTENANCE, MAINTENANCE), (LEAVE, LEAVE)):
            state = evolve(self.state, node_intents={"m2": what})
            self.assertEqual(self.states(state)["m2"], want)
        for change in ({"leaving": True}, {"weight": 0}):
            member = evolve(self.state.members["m2"], **change)
            state = evolve(self.state, members={**self.state.members, "m2": member})
            self.assertEqual(self.states(state)["m2"], LEAVE)

    def test_degraded(self) -> None:
        """
        Who does not tell what it has and uses is degraded: an original, one that
        has not reported yet.
        """
        foreign = Member("m2", session="s", foreign=True)
        silent = evolve(self.state, statuses={"m1": self.state.statuses["m1"]})
        original = evolve(self.state, members={**self.state.members, "m2": foreign})

        self.assertEqual(self.states(silent)["m2"], "degraded")
        self.assertEqual(self.states(original)["m2"], "degraded")

    def test_gone(self) -> None:
        """
        Who is gone is offline: for no time while it is awaited, then for ever.
        """
        awaited = observe(gone(self.state, "m1")).nodes["m1"]
        lost = observe(gone(self.state, "m1", awaited=False)).nodes["m1"]

        self.assertEqual((awaited.state, awaited.missing_for), ("offline", 0.0))
        self.assertEqual((lost.state, lost.missing_for), ("offline", math.inf))

    def test_leaving(self) -> None:
        """
        All that is on a node which is to be left is wanted elsewhere, unless an
        operator has said where.
        """
        state = evolve(self.state, node_intents={"m1": LEAVE})
        wish = evolve(state, relocations={"w1": "m2"})

        self.assertEqual(observe(state).relocations, {"w1": ""})
        self.assertEqual(observe(wish).relocations, {"w1": "m2"})
        self.assertEqual(observe(self.state).relocations, {})


class ProcessesTests(SynchronousTestCase):
    """
    Note [What counts as a process].
    """

    def setUp(self) -> None:
        """
        Two members and an item.
        """
        self.state = resourceful({"m1": (7, 35), "m2": (1, 1)}, [item()])

    def processes(self, state: ClusterState) -> list[Process]:
        """
        Give the processes.
        """
        return [*observe(state).processes]

    def test_reported(self) -> None:
        """
        An item is where it is assigned; how it fares is from the report there.
        """
        state = reporting(
            assigned(self.state, "m1", item()),
            "m1",
            "w1",
            usage={"cpu": 12, "memory": 5, "throttling": True},
            since=1000.0,
        )

        (process,) = self.processes(state)

        self.assertEqual((process.id, process.node), ("w1", "m1"))
        self.assertEqual((process.state, process.usage), ("running", Share(12, 5)))
        self.assertEqual(process.limits, Share(10, 20))
        self.assertTrue(process.throttling)
        self.assertEqual(process.description, observe(state).work[0].description)

    def test_runtimes(self) -> None:
        """
        Of two processes of a member the one that began later has run for the
        shorter time.
        """
        state = self.state
        for work, since in (("w1", 1000.0), ("w2", 2000.0)):
            state = assigned(state, "m1", item(work))
            state = reporting(state, "m1", work, since=since)

        runtimes = {p.id: p.runtime for p in self.processes(state)}

        self.assertLess(runtimes["w2"], runtimes["w1"])

    def test_not_measured(self) -> None:
        """
        What an item uses is not told: it counts with its limits, in what is
        taken from it as in what its node uses.
        """
        state = assigned(self.state, "m1", item())

        (process,) = self.processes(state)
        used = observe(state).nodes["m1"].resources

        self.assertEqual((process.state, process.usage), ("", Share(10, 20)))
        self.assertEqual((used.cpu, used.memory), (17, 55))

    def test_measured(self) -> None:
        """
        What is told is in what the node uses already.
        """
        state = assigned(self.state, "m1", item())
        state = reporting(state, "m1", "w1", usage={"cpu": 1, "memory": 2})

        used = observe(state).nodes["m1"].resources

        self.assertEqual((used.cpu, used.memory), (7, 35))

    def test_stopped(self) -> None:
        """
        What is not to run takes no room.
        """
        state = assigned(self.state, "m1", item(order="stop"))

        (process,) = self.processes(state)
        used = observe(state).nodes["m1"].resources

        self.assertEqual((process.order, process.usage), ("stop", Share()))
        self.assertEqual((used.cpu, used.memory), (7, 35))

    def test_bare_assignment(self) -> None:
        """
        An assignment that says nothing, a simple leader's, is a process that is
        to be told what it is.
        """
        state = evolve(self.state, assignments={"m1": {"w1": b""}})

        (process,) = self.processes(state)

        self.assertIsNone(process.description)
        self.assertEqual((process.order, process.limits), ("start", Share(10, 20)))

    def test_owned_only(self) -> None:
        """
        What a living member owns and nobody is assigned is a process there; what
        is no work any more is not.
        """
        owners = {"w1": OwnerRecord("m2", "s"), "old": OwnerRecord("m2", "s")}
        state = evolve(self.state, owners=owners)

        (process,) = self.processes(state)

        self.assertEqual((process.id, process.node), ("w1", "m2"))

    def test_unknown_phase(self) -> None:
        """
        An assignment of a phase that is not known is one to be run, as it is for
        its member.
        """
        value = b'{"item":{"limits":{"cpu":10,"memory":20}},"phase":"later"}'
        state = evolve(self.state, assignments={"m1": {"w1": value}})

        (process,) = self.processes(state)

        self.assertEqual((process.node, process.limits), ("m1", Share(10, 20)))

    def test_prepared(self) -> None:
        """
        What is only made ready is no process.
        """
        state = assigned(self.state, "m1", item(), PREPARE)

        self.assertEqual(self.processes(state), [])

    def test_lost(self) -> None:
        """
        What was lost with its member is placed there still; what the member gave
        back, or another one owns, is not.
        """
        state = self.state
        for work in ("w1", "w2", "w3"):
            state = assigned(state, "m1", item(work), owned=work != "w2")
        state = evolve(
            state,
            work={work: item(work).encode() for work in ("w1", "w2", "w3")},
            owners={**state.owners, "w3": OwnerRecord("m9", "s")},
        )

        seen = observe(gone(state, "m1"))

        self.assertEqual(seen.processes, [])
        self.assertEqual(seen.placements, {"w1": "m1"})

    def test_unreadable_owner(self) -> None:
        """
        An owner record that cannot be read stands for the member all the same.
        """
        state = evolve(assigned(self.state, "m1", item()), owners={})

        self.assertEqual(observe(gone(state, "m1")).placements, {"w1": "m1"})


class WantedTests(SynchronousTestCase):
    """
    Work items, as what is wanted.
    """

    def problem(self, **fields: object) -> str:
        """
        Give what is wrong with an item.
        """
        values = {"limits": {"cpu": 10, "memory": 20}, **fields}
        raw = json.dumps(values).encode()
        state = evolve(resourceful({"m1": (1, 1)}), work={"w1": raw})
        return observe(state).work[0].problem

    def test_nothing_wrong(self) -> None:
        """
        Nothing is wrong with a good one.
        """
        self.assertEqual(self.problem(), "")

    def test_bad_items(self) -> None:
        """
        What cannot be read of an item is what is wrong with it.
        """
        for fields, words in (
            ({"order": "run"}, "order 'run'"),
            ({"order": 3}, "order is a number"),
            ({"metadata": [1]}, "metadata is a list"),
            ({"limits": 3}, "limits is a number"),
            ({"limits": {"cpu": "x", "memory": 1}}, "limits.cpu: 'x'"),
        ):
            self.assertIn(words, self.problem(**fields))

    def test_too_large(self) -> None:
        """
        An item whose assignment would not go into a transaction is not written
        into one, so that it holds up nobody else's.
        """
        self.assertEqual(self.problem(config="x" * (MOST_BYTES - 100)), "")
        self.assertIn("may have 262144", self.problem(config="x" * MOST_BYTES))
        # A character that takes more room when it is written.
        values = {"limits": {"cpu": 1, "memory": 1}, "config": "ä" * (MOST_BYTES // 4)}
        raw = json.dumps(values, ensure_ascii=False).encode()
        state = evolve(resourceful({"m1": (1, 1)}), work={"w1": raw})

        self.assertIn("may have", observe(state).work[0].problem)

    def test_plain_value(self) -> None:
        """
        A value that is no object is an item without limits.
        """
        state = evolve(resourceful({"m1": (1, 1)}), work={"w1": b"\xff"})

        (wanted,) = observe(state).work

        self.assertEqual((wanted.limits, wanted.problem), (Share(), ""))

    def test_broken_object(self) -> None:
        """
        One that begins like an object and is none is a slip, and not an item of
        another kind: what is wrong is told.
        """
        for raw, words in (
            (b'{"limits":{"cpu":NaN,"memory":1}}', "NaN is not JSON"),
            (b' {"limits":{"cpu":Infinity}}', "Infinity is not JSON"),
            (b'{"limits":{"cpu":1e999}}', "1e999 is out of range"),
            (b'{"limits":', "the value is not JSON"),
            (b'{"a":"\xff"}', "binary"),
        ):
            state = evolve(resourceful({"m1": (1, 1)}), work={"w1": raw})
            self.assertIn(words, observe(state).work[0].problem)


class UnreadableTests(SynchronousTestCase):
    """
    Reports as anybody may have written them.
    """

    def test_odd_report(self) -> None:
        """
        A report of a later version serves as far as it goes; one that says
        nothing sensible of the node makes this one degraded, and others are
        served.
        """
        state = resourceful({"m1": (1, 1), "m2": (1, 1)})
        odd = StatusReport({}, {"cpu": "much", "memory": 1})
        state = evolve(state, statuses={**state.statuses, "m2": odd})

        nodes = observe(state).nodes

        self.assertEqual(nodes["m1"].state, "online")
        self.assertEqual(nodes["m2"].state, "degraded")
        self.assertIn("node.cpu", nodes["m2"].resources.error)


class ReadingTests(SynchronousTestCase):
    """
    What takes time in a large cluster.
    """

    def test_ahead(self) -> None:
        """
        Values of work and of assignments are read so many at a time.
        """
        works = [item(f"w{n:04}") for n in range(2 * AT_A_TIME + 1)]
        state = resourceful({"m1": (1, 1), "m2": (1, 1)}, works)
        self.assertEqual(len(list(read_ahead(state))), 2)
        value = Assignment("m1", "w", item=item()).encode()
        half = AT_A_TIME // 2 + 1
        spread = {
            "m1": {one.id: value for one in works[:half]},
            "m2": {one.id: value for one in works[half : 2 * half]},
        }

        self.assertEqual(len(list(read_ahead(evolve(state, assignments=spread)))), 3)

    def test_as_wanted(self) -> None:
        """
        What an item was given as it is wanted is the same object, so that it is
        quickly compared; what only looks alike is not.
        """
        one = item(config={"a": [1]}, metadata={"b": [1]})
        alike = evolve(one, metadata={"b": [True]})
        state = resourceful({"m1": (1, 1)}, [one])

        for given, same in ((one, True), (alike, False)):
            found = observe(assigned(state, "m1", given))
            (wanted,), (process,) = found.work, found.processes
            self.assertIs(process.description, wanted.description)
            self.assertEqual(process.metadata is wanted.metadata, same)
            self.assertEqual(process.metadata, given.metadata)
