"""
Tests for the commands that show processes, and what is wrong with them.
"""

from __future__ import annotations

import time
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.model import Entry
from voltha_coord.ctl.showing import age, memory, percent
from voltha_coord.ownership import error_mark
from voltha_coord.records import StatusReport, WorkStatus, encode_status

from .support.commands import CommandTestCase
from .support.keyspace import (
    KEYS,
    assigned,
    leads,
    member,
    owned,
    work,
)

#: Sessions as Consul names them.
SESSION = "0ff1c1a1-1111-4222-8333-444455556666"
OTHER = "1ff1c1a1-1111-4222-8333-444455556666"


def report(name: str, **items: WorkStatus) -> list[Entry]:
    """
    Give the status report of a member.
    """
    chunks = encode_status(StatusReport(items))
    return [Entry(KEYS.status(name, n), chunk) for n, chunk in enumerate(chunks)]


class ProcessesTests(CommandTestCase):
    """
    ``processes``.
    """

    def setUp(self) -> None:
        """
        Have one that runs, one that failed, one on its way, and one without a
        place.
        """
        super().setUp()
        well = WorkStatus(
            usage={"cpu": 12.34, "memory": 30 << 20},
            since=time.time() - 7300,
            details={"pid": 17, "restarts": 2, "log": ["first", "last\x1b[31m"]},
        )
        ill = WorkStatus(state="failed", error="exit 3: " + "no such camera " * 20)
        self.put(
            member("m1"), member("m2"), *leads("m1"),
            work("cam_1@lab", b'{"limits":{"cpu":50,"memory":104857600}}'),
            work("cam_2"), work("cam_3"), work("lone"),
            assigned("m1", "cam_1@lab"), owned("m1", "cam_1@lab"),
            assigned("m2", "cam_2"), owned("m2", "cam_2"),
            assigned("m2", "cam_3"), owned("m2", "cam_3"),
            assigned("m1", "cam_3", b'{"phase":"prepare"}'),
            *report("m1", **{"cam_1@lab": well}),
            *report("m2", cam_2=ill, cam_3=WorkStatus()),
        )  # fmt: skip

    def rows(self, *args: str) -> list[dict[str, Any]]:
        """
        Give the rows of the document.
        """
        rows: list[dict[str, Any]] = self.document("processes", *args)["processes"]
        return rows

    def places(self, *args: str) -> list[tuple[str, str]]:
        """
        Give what is where.
        """
        return [(row["id"], row["node"]) for row in self.rows(*args)]

    def test_all(self) -> None:
        """
        Each item is shown on each member that has it, and where nobody has it.
        """
        self.assertEqual(
            [(r["id"], r["node"], r["state"], r["restarts"]) for r in self.rows()],
            [
                ("cam_1@lab", "m1", "running", 2),
                ("cam_2", "m2", "failed", None),
                ("cam_3", "m1", "preparing", None),
                ("cam_3", "m2", "running", None),
                ("lone", None, None, None),
            ],
        )
        self.assertEqual(self.rows("lone")[0]["error"], "not assigned")
        self.assertIn("no such camera", self.rows("cam_2")[0]["error"])

    def test_filters(self) -> None:
        """
        Ranges, patterns, a member, and what is wrong narrow it down.
        """
        self.assertEqual(
            self.places("cam_{2..3}", "--member", "m2"),
            [("cam_2", "m2"), ("cam_3", "m2")],
        )
        self.assertEqual(self.places("l*", "none*"), [("lone", None)])
        self.assertEqual(self.places("lone@"), [("lone", None)])
        self.assertEqual(self.places("--wrong"), [("cam_2", "m2"), ("lone", None)])
        self.assertEqual(
            self.refused("processes", "cam_4"),
            "nothing is known of cam_4 (there are cam_2, cam_3)",
        )
        self.assertEqual(self.done("processes", "zzz*"), "nothing to show\n")

    def test_unknown_member(self) -> None:
        """
        A member that is not there, and has nothing, is named with those that
        are.
        """
        text = self.refused("processes", "--member", "zz")

        self.assertIn("no member zz (there are ", text)
        self.assertIn("m1", text)

    def test_table(self) -> None:
        """
        Numbers are for people, an error is cut to the terminal's width, and what
        there is no room for is left out, never the item or its error.
        """
        shown = self.done("processes", COLUMNS="160")
        self.assertRegex(
            shown,
            r"cam_1@lab +m1 +start +running +12.3% +30M +2 h 1 min +2 *\n",
        )
        self.assertIn("…\n", shown)
        self.assertIn("5 processes, 2 not as they are to be\n", shown)
        for columns, heads in (
            (160, "id node order state cpu memory since restarts error"),
            (80, "id node state cpu memory since error"),
            (50, "id node state error"),
        ):
            lines = self.done("processes", COLUMNS=str(columns)).splitlines()
            self.assertEqual(lines[0].split(), heads.split())
            self.assertLessEqual(max(map(len, lines)), max(columns, 60))
        self.assertEqual(self.done("processes").count("no such camera"), 20)

    def test_single(self) -> None:
        """
        Of a single one everything is shown, and the last lines of its log.
        """
        shown = self.done("processes", "cam_1@lab")

        for text in ("pid       17", "12.3% of 50%", "30M of 100M", "2 h 1 min ago"):
            self.assertIn(text, shown)
        self.assertTrue(shown.endswith("log\n  first\n  last [31m\n"), shown)
        self.assertEqual(self.done("processes", "cam_2").count("no such camera"), 20)
        both = self.done("processes", "cam_3")
        self.assertIn("node   m1", both)
        self.assertIn("node   m2", both)

    def test_unreadable(self) -> None:
        """
        A report that cannot be read is named, and what others report is shown.
        """
        self.put(Entry(KEYS.status("m2", 0), b'{"v":9}'))

        shown = self.done("processes")
        self.assertIn("the report of m2 cannot be read: ", shown)
        self.assertIn("running", shown)
        document = self.document("processes")
        self.assertEqual(list(document["unreadable"]), ["m2"])
        self.assertEqual(document["processes"][1]["error"], "not reported")
        self.assertEqual(self.document("processes", "--member", "m1")["unreadable"], {})

    def test_gone(self) -> None:
        """
        What is owned by who is gone is shown there, and as wrong.
        """
        self.remove(KEYS.member("m2"), KEYS.status("m2", 0))

        self.assertIn(("cam_2", "m2"), self.places("--wrong"))

    def test_stopped(self) -> None:
        """
        An item that is to be stopped is as it is to be once it is.
        """
        self.put(work("cam_3", b'{"order":"stop"}'))
        self.remove(KEYS.assignment("m1", "cam_3"))
        (row,) = self.rows("cam_3", "--wrong")
        self.assertEqual(row["error"], "is running, not stopped yet")
        self.put(*report("m2", cam_3=WorkStatus(order="stop", state="stopped")))

        self.assertEqual(self.rows("cam_3", "--wrong"), [])


class WordsTests(SynchronousTestCase):
    """
    Numbers as people read them.
    """

    def test_ages(self) -> None:
        """
        A time has its two largest units.
        """
        for seconds, words in (
            (-5, "0 s"), (0.9, "0 s"), (59, "59 s"), (60, "1 min"), (3661, "1 h 1 min"),
            (86400 + 30, "1 d 30 s"), (90061, "1 d 1 h"),
        ):  # fmt: skip
            self.assertEqual(age(seconds), words)

    def test_amounts(self) -> None:
        """
        Bytes are in binary units, percentages are rounded; what is no number is
        not shown.
        """
        for size, words in (
            (0, "0"), (1000, "1000"), (1023, "1023"), (1024, "1K"), (1536, "1.5K"),
            (200 << 20, "200M"), (1010 << 20, "1010M"), (3 << 40, "3T"),
            (5000 << 40, "5000T"), ("x", "-"), (None, "-"), (True, "-"),
        ):  # fmt: skip
            self.assertEqual(memory(size), words)
        for value, words in (
            (0, "0%"), (0.123456, "0.123%"), (99.96, "100%"), (1234.5, "1234%"),
            ([], "-"), (True, "-"),
        ):  # fmt: skip
            self.assertEqual(percent(value), words)


class ErrorsTests(CommandTestCase):
    """
    ``errors``.
    """

    def setUp(self) -> None:
        """
        Have errors of the leader, of an owner, and of one that is gone.
        """
        super().setUp()
        self.put(
            member("m1", session=SESSION), work("a"), work("b"), work("c"), work("d")
        )
        for id, mark, text in (
            ("a", 0, "no room:\x1b cpu 85"),
            ("b", error_mark(SESSION), "exit 3"),
            ("c", error_mark(OTHER), "exit 4"),
        ):
            self.put(Entry(KEYS.error(id), text.encode(), flags=mark))

    def test_who(self) -> None:
        """
        It is said whether the leader said it, or which owner.
        """
        self.assertEqual(
            [
                (row["id"], row["said_by"], row["member"])
                for row in self.document("errors")["errors"]
            ],
            [("a", "leader", None), ("b", "owner", "m1"), ("c", "owner", None)],
        )
        shown = self.done("errors")
        self.assertRegex(shown, r"a +leader +no room:  cpu 85\n")
        self.assertRegex(shown, r"b +m1 +exit 3\n")
        self.assertRegex(shown, r"c +an owner that is gone +exit 4\n")

    def test_some(self) -> None:
        """
        Those that are asked for are shown; one that is not known is named.
        """
        self.assertEqual(
            [row["id"] for row in self.document("errors", "b", "d")["errors"]], ["b"]
        )
        self.assertEqual(self.done("errors", "d"), "no errors\n")
        self.assertIn("nothing is known of e", self.refused("errors", "e"))


class RelocateTests(CommandTestCase):
    """
    ``relocate``.
    """

    def setUp(self) -> None:
        """
        Have an item on one of two members.
        """
        super().setUp()
        self.put(
            member("m1"), member("m2"), *leads("m1"),
            work("cam_1"), assigned("m1", "cam_1"), owned("m1", "cam_1"),
        )  # fmt: skip

    def wishes(self) -> dict[str, bytes]:
        """
        Give what stands in Consul.
        """
        return self.values(KEYS.relocation(""))

    def follows(self, *args: str) -> str:
        """
        Relocate, and give what follows.
        """
        return "; ".join(self.document("relocate", *args)["follows"])

    def test_to(self) -> None:
        """
        Where an item is wanted is written, once, and taken back.
        """
        shown = self.done("relocate", "cam_1@", "m2")
        self.assertTrue(shown.startswith("cam_1: to m2\n"), shown)
        self.assertIn("resource leader", shown)
        self.assertEqual(self.wishes(), {"cam_1": b"m2"})
        before = self.writes()
        self.assertIn("to m2, already", self.done("relocate", "cam_1", "m2"))
        self.assertEqual(self.writes(), before)
        self.assertIn("to any other member\n", self.done("relocate", "cam_1"))
        self.assertEqual(self.wishes(), {"cam_1": b""})
        self.assertIn("stays where it is", self.done("relocate", "cam_1", "--cancel"))
        self.assertEqual(self.wishes(), {})
        self.assertIn("no move", self.done("relocate", "cam_1", "--cancel"))

    def test_list(self) -> None:
        """
        What is wanted is listed, also of items that are gone.
        """
        self.assertIn("nothing is to be", self.done("relocate", "--list"))
        self.put(
            Entry(KEYS.relocation("cam_1"), b""), Entry(KEYS.relocation("x"), b"m9")
        )

        self.assertEqual(
            self.document("relocate", "--list")["relocations"],
            [
                {"id": "cam_1", "node": "m1", "to": None, "known": True},
                {"id": "x", "node": None, "to": "m9", "known": False},
            ],
        )
        shown = self.done("relocate", "--list")
        self.assertRegex(shown, r"cam_1 +m1 +any other\n")
        self.assertRegex(shown, r"x +no such item +m9\n")
        self.done("relocate", "x", "--cancel")
        self.assertEqual(self.wishes(), {"cam_1": b""})

    def test_unknown(self) -> None:
        """
        An item or a member that is not there is refused, and those that are there
        are named, ten members at most.
        """
        said = self.refused("relocate", "cam_2", "m2")
        self.assertEqual(said, "no work item cam_2 (there is cam_1)")
        self.assertIn("cam_2", self.refused("relocate", "cam_2", "--cancel"))
        said = self.refused("relocate", "cam_1", "m3")
        self.assertEqual(said, "no member m3 (there are m1, m2)")
        self.put(*(member(f"n{n}") for n in range(10)))
        said = self.refused("relocate", "cam_1", "m3")
        self.assertTrue(said.endswith("n6, n7 and 2 more)"), said)
        self.assertEqual(self.wishes(), {})

    def test_follows(self) -> None:
        """
        What keeps it from being moved is said.
        """
        self.put(Entry(KEYS.node_intent("m2"), b"maintenance"), work("new"))
        self.assertIn("m2 is in maintenance", self.follows("cam_1", "m2"))
        self.assertIn("on m1 already", self.follows("cam_1", "m1"))
        self.assertIn("no place yet", self.follows("new", "m1"))
        self.put(Entry(KEYS.freeze, b"why"))
        self.assertIn("planning is frozen (why)", self.follows("cam_1", "m1"))
        self.remove(KEYS.member("m2"))
        self.assertIn("no other member", self.follows("cam_1"))

    def test_usage(self) -> None:
        """
        What makes no sense together is wrong usage.
        """
        for args, told in (
            ([], "--list"), (["a", "--list"], "--list"), (["a b"], "' '"),
            (["a", "m1", "--cancel"], "--cancel"), (["--cancel"], "name the item"),
        ):  # fmt: skip
            self.assertIn(told, self.refused("relocate", *args, status=2))


class NodeWordsTests(CommandTestCase):
    """
    ``node`` with its wish in front.
    """

    def test_either_order(self) -> None:
        """
        The wish stands before the id or after it; list is what none is.
        """
        self.put(member("m1"), *leads("m1"), member("leave"))
        self.assertTrue(self.document("node", "maintenance", "m1")["written"])
        self.assertFalse(self.document("node", "m1", "maintenance")["written"])
        self.assertEqual(self.document("node", "list"), self.document("node"))
        self.assertTrue(self.document("node", "online", "m1", "--force")["written"])
        self.assertEqual(self.document("node", "leave", "leave")["id"], "leave")
        self.assertEqual(self.document("node", "leave", "online")["intent"], None)
