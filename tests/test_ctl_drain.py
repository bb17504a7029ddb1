"""
Tests for emptying a member: what is wanted of it is said, and waited for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from voltha_coord.consul.model import Entry
from voltha_coord.ctl.drain import LOOK_SECONDS, QUIET_SECONDS
from voltha_coord.settings import Settings

from .support.commands import ClusterCommandTestCase, CommandTestCase
from .support.keyspace import (
    KEYS,
    assigned,
    leads,
    member,
    original,
    owned,
    reports,
    running,
)


class PreparedTests(CommandTestCase):
    """
    A cluster of keys alone, which the test changes while the command waits.
    """

    def setUp(self) -> None:
        """
        Have two members; the second runs two items.
        """
        super().setUp()
        self.put(member("m1"), member("m2"), *leads("m1"), *running("m2", "x", "y"))
        self.steps: dict[float, Callable[[], None]] = {}

    def passed(self) -> None:
        """
        Change what is due to be changed.
        """
        for due in [due for due in self.steps if due <= self.clock.seconds()]:
            self.steps.pop(due)()

    def at(self, seconds: float, change: Callable[[], None]) -> None:
        """
        Change something once so many seconds have passed.
        """
        self.steps[seconds] = change

    def moves(self, *works: str) -> Callable[[], None]:
        """
        Give what moves items from the second to the first member.
        """

        def move() -> None:
            self.put(*running("m1", *works))
            for name in works:
                self.remove(KEYS.assignment("m2", name))
            left = {"x", "y"} - {*works}
            self.put(*reports("m2", **dict.fromkeys(left, "running")))

        return move

    def wanted(self) -> bytes | None:
        """
        Give what is wanted of the second member, in Consul.
        """
        return self.values(KEYS.node_intent("m2")).get("")

    def test_done(self) -> None:
        """
        The wish is written; once nothing is with it any more it is empty, and
        what moved where is told with the time it took.
        """
        self.at(1.0, self.moves("x"))
        self.at(2.0, self.moves("x", "y"))
        result = self.call("drain", "m2")

        self.assertEqual(result.exit_code, 0)
        self.assertEqual(self.wanted(), b"leave")
        self.assertEqual(
            result.stderr, "m2: 2 of 2 items left\nm2: 1 of 2 items left\n"
        )
        lines = result.stdout.splitlines()
        self.assertRegex(lines[0], r"^m2 is empty after 2\.\d s$")
        self.assertEqual(
            [line.split() for line in lines[1:3]],
            [["moved", "to", "items"], ["m1", "2"]],
        )
        self.assertIn("node m2 online", lines[3])

    def test_document(self) -> None:
        """
        The document names each item and its member, and nothing else is told.
        """
        self.at(1.0, self.moves("x", "y"))
        result = self.call("--json", "drain", "m2")

        self.assertEqual(result.stderr, "")
        document = json.loads(result.stdout)
        self.assertAlmostEqual(document.pop("seconds"), 1.0, delta=LOOK_SECONDS + 0.1)
        self.assertEqual(
            document,
            {
                "id": "m2",
                "drained": True,
                "leads": False,
                "moved": {"x": "m1", "y": "m1"},
                "left": {},
                "hindrances": [],
                "error": None,
            },
        )

    def test_each_way(self) -> None:
        """
        It is not empty while an item is assigned to it, owned by it, or
        reported to be at work on it.
        """
        self.moves("x", "y")()
        for entries, ways in (
            ([assigned("m2", "x")], "assigned"),
            ([owned("m2", "x")], "owned"),
            (reports("m2", x="running"), "running"),
            (reports("m2", x="starting"), "starting"),
            (reports("m2", x="stopping"), "stopping"),
        ):
            self.put(*entries)
            result = self.call("--json", "drain", "m2", "--timeout", "1")
            self.assertEqual((ways, result.exit_code), (ways, 1))
            self.assertEqual(json.loads(result.stdout)["left"], {"x": ways})
            self.remove(KEYS.assignment("m2", "x"))
            self.put(owned("m1", "x"), *reports("m2", x="failed"))
        self.document("drain", "m2", "--timeout", "5")

    def test_late(self) -> None:
        """
        When the time is over what is left is told, exit 1; the wish stays, and
        that is said.
        """
        self.put(*running("m2", *(f"w{n:02}" for n in range(12))))
        self.at(1.0, self.moves("x", "y"))
        result = self.call("drain", "m2", "--timeout", "3")

        self.assertEqual(result.exit_code, 1)
        self.assertEqual(self.wanted(), b"leave")
        shown = result.stdout
        self.assertIn("m2 is not empty after 3.0 s: 12 items left\n", shown)
        self.assertIn("w09  assigned, owned\n", shown)
        self.assertNotIn("w10", shown)
        self.assertIn("… and 2 more: assignments --member m2\n", shown)
        self.assertIn("given no work until: voltha-coordctl node m2 online", shown)
        again = self.call("--json", "drain", "m2", "--timeout", "1")
        self.assertEqual(json.loads(again.stdout)["moved"], {})

    def test_quiet(self) -> None:
        """
        A member that looks empty may still be given an item by a pass that had
        begun before: it is watched for a while.
        """
        self.moves("x", "y")()
        late = QUIET_SECONDS - LOOK_SECONDS / 2
        self.at(late, lambda: self.put(*running("m2", "z")))
        self.at(3.0, lambda: self.remove(KEYS.assignment("m2", "z")))
        self.at(3.1, lambda: self.put(owned("m1", "z"), *reports("m2")))

        document = self.document("drain", "m2")
        self.assertEqual(list(document["moved"]), ["z"])
        self.assertGreater(document["seconds"], 3.0)

    def test_nothing_to_do(self) -> None:
        """
        A member that has nothing is empty at once, and wanted away all the
        same.
        """
        shown = self.done("drain", "m1")

        self.assertIn("m1 is empty after 0.0 s\n", shown)
        self.assertIn("it leads on; voltha-coordctl transfer", shown)
        self.assertEqual(self.values(KEYS.node_intent("m1")), {"": b"leave"})

    def test_again(self) -> None:
        """
        A wish that is there already is not written again.
        """
        self.put(Entry(KEYS.node_intent("m2"), b"leave"))
        before = self.writes()
        self.at(1.0, self.moves("x", "y"))
        self.document("drain", "m2")

        sent = [r for r in self.consul.requests if r.path.startswith("/v1/kv")]
        self.assertEqual([r for r in sent if r.method != "GET"], [])
        self.assertGreater(self.writes(), before)

    def test_removed(self) -> None:
        """
        An item that is wanted no more meanwhile has moved to nobody.
        """

        def remove() -> None:
            self.moves("x")()
            self.remove(
                KEYS.work_item("y"), KEYS.assignment("m2", "y"), KEYS.owner("y")
            )
            self.put(*reports("m2"))

        self.at(1.0, remove)

        self.assertEqual(self.document("drain", "m2")["moved"], {"x": "m1", "y": None})

    def test_unknown(self) -> None:
        """
        A member that nothing is known of is refused, unless it is forced; of
        one that is wanted away already that is known.
        """
        self.assertIn("no member m9", self.refused("drain", "m9"))
        self.assertEqual(self.values(KEYS.intent), {})

        self.assertTrue(self.document("drain", "m9", "--force")["drained"])
        self.assertEqual(self.values(KEYS.node_intent("m9")), {"": b"leave"})
        self.assertTrue(self.document("drain", "m9")["drained"])

    def test_cannot_end(self) -> None:
        """
        Where it cannot come to an end that is said at once, and nothing is
        written.
        """
        for change, words in (
            (lambda: self.put(Entry(KEYS.freeze, b"why")), "planning is frozen (why)"),
            (lambda: self.remove(KEYS.freeze, KEYS.leader), "nobody leads"),
            (lambda: self.put(original("m1"), *leads("m1")), "2016 original"),
            (
                lambda: self.put(member("m1", weight=0)),
                "no other member can take work: all are of weight 0",
            ),
            (lambda: self.remove(KEYS.member("m1")), "there is no other member"),
        ):
            change()
            told = self.refused("drain", "m2")
            self.assertIn("m2 cannot be emptied of 2 items: ", told)
            self.assertIn(words, told)
            self.assertIn("nothing was written", told)
            self.assertLess(self.clock.seconds(), 1.0)
            self.assertIsNone(self.wanted())

    def test_hindered_meanwhile(self) -> None:
        """
        What comes to be in the way is told, once, and told again in the end; it
        may go away again.
        """
        self.at(1.0, lambda: self.put(Entry(KEYS.freeze, b"why")))
        late = self.call("drain", "m2", "--timeout", "4")
        self.assertEqual(late.stderr.count("planning is frozen (why)"), 1)
        self.assertIn("planning is frozen (why)", late.stdout)
        self.remove(KEYS.freeze)
        self.at(5.0, lambda: self.remove(KEYS.leader))
        self.at(7.0, lambda: self.put(*leads("m1")))
        self.at(8.0, self.moves("x", "y"))

        done = self.call("drain", "m2")
        self.assertEqual(done.exit_code, 0)
        self.assertEqual(done.stderr.count("nobody leads"), 1)

    def test_consul_away(self) -> None:
        """
        While Consul does not answer it is waited for.
        """
        self.at(1.0, self.consul.state.lose_leader)
        self.at(20.0, self.consul.state.elect_leader)
        self.at(21.0, self.moves("x", "y"))
        result = self.call("drain", "m2")

        self.assertEqual(result.exit_code, 0)
        self.assertIn("m2: no answer from Consul: ", result.stderr)

    def test_denied_meanwhile(self) -> None:
        """
        When the token loses its rights meanwhile it is not waited on; what was
        seen last is told, with the reason.
        """
        deny: Any = lambda resource, *_: resource == "key"  # noqa: E731 - a lever
        self.at(1.0, lambda: setattr(self.consul.state, "deny", deny))
        result = self.call("--json", "drain", "m2")
        document = json.loads(result.stdout)

        self.assertEqual(result.exit_code, 1)
        self.assertIn("may not read", document["error"])
        self.assertEqual(list(document["left"]), ["x", "y"])
        self.assertEqual(document["moved"], {})
        self.assertLess(document["seconds"], 3.0)


class InterruptedTests(CommandTestCase):
    """
    A person does not wait for the end.
    """

    def setUp(self) -> None:
        """
        Have two members; the second runs an item that stays.
        """
        super().setUp()
        self.put(member("m1"), member("m2"), *leads("m1"), *running("m2", "x"))
        self.after = 2.0

    def run_action(self, target: Any, action: Any) -> Any:
        """
        Do an action until the signal comes, as the real command does.
        """
        results: list[Any] = []
        doing: Deferred[Any] = action(self.consul.api(), KEYS)
        doing.addBoth(results.append)
        while self.clock.seconds() < self.after and not results:
            self.clock.advance(0.01)
        doing.cancel()
        if isinstance(results[0], Failure) and results[0].check(CancelledError):
            raise KeyboardInterrupt
        return results[0]

    def test_waiting(self) -> None:
        """
        Whoever interrupts it is told what is left, and that the wish stays.
        """
        result = self.call("drain", "m2")

        self.assertEqual(result.exit_code, 1)
        self.assertIn("m2 is not empty after 2.0 s: 1 item left", result.stdout)
        self.assertIn("node m2 online", result.stdout)
        self.assertIn("Aborted!", result.stderr)
        self.assertEqual(self.values(KEYS.node_intent("m2")), {"": b"leave"})
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_before_it_is_written(self) -> None:
        """
        Before the wish is written there is nothing to be told.
        """
        self.after = -1.0
        result = self.call("drain", "m2")

        self.assertEqual((result.exit_code, result.stdout), (1, ""))
        self.assertEqual(result.stderr, "Aborted!\n")
        self.assertEqual(self.values(KEYS.intent), {})


class ClusterTests(ClusterCommandTestCase):
    """
    Members that do it.
    """

    settings = Settings(soak=0.5)

    def test_drain(self) -> None:
        """
        A member that is drained runs nothing any more, its work runs elsewhere,
        and it is given none until it is wanted online.
        """
        _, b, _ = self.add("a", "b", "c")
        self.cluster.put_work(*(f"w{n}" for n in range(9)))
        self.cluster.advance(5)
        mine = sorted(b.worker.my_workload)
        result = self.call("--json", "drain", "b")
        document = json.loads(result.stdout)

        self.assertEqual((result.exit_code, document["drained"]), (0, True))
        self.assertEqual(sorted(document["moved"]), mine)
        self.assertLess({*document["moved"].values()}, {"a", "b", "c"})
        self.assertLess(document["seconds"], 2.0)
        self.assertEqual(b.worker.my_workload, set())
        self.assertEqual(len(self.cluster.owners()), 9)
        self.cluster.put_work("new")
        self.cluster.advance(5)
        self.assertEqual(b.worker.my_workload, set())
        self.done("node", "b", "online")
        self.cluster.advance(5)
        self.assertEqual(len(b.worker.my_workload), 3)

    def test_dead(self) -> None:
        """
        A member that dies is empty once its lease is over and its items have
        moved.
        """
        _, b = self.add("a", "b")
        self.cluster.put_work("x", "y")
        self.cluster.advance(5)
        self.cluster.crash(b)
        result = self.call("--json", "drain", "b")

        self.assertEqual(result.exit_code, 0)
        self.assertEqual(set(self.cluster.owners().values()), {"a"})
