"""
Tests for the commands that say what work items are.
"""

from __future__ import annotations

import json
import os
from typing import Any

from voltha_coord.consul.model import Entry
from voltha_coord.ctl.actions import OPERATIONS_AT_ONCE
from voltha_coord.ctl.changing import ATTEMPTS
from voltha_coord.records import WorkItem

from .support.commands import CommandTestCase
from .support.keyspace import KEYS, work


class WorkCase(CommandTestCase):
    """
    Reads and writes items.
    """

    def item(self, id: str) -> Any:
        """
        Give what an item holds.
        """
        return json.loads(self.work()[id])

    def file(self, name: str, text: str | bytes) -> str:
        """
        Have a file.
        """
        folder = self.mktemp()
        os.makedirs(folder)
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path


class AddTests(WorkCase):
    """
    ``work add`` by flags.
    """

    def test_all_flags(self) -> None:
        """
        Each flag is a field of the item.
        """
        self.done(
            "work", "add", "a", "--command", "run 'this one' now", "--cpu", "50",
            "--memory", "200M", "--reference", "r", "--order", "stop",
            "--metadata", 'place="Berlin"', "--metadata", "floor=3",
            "--env", "A=1=2", "--env", "B=", "--directory", "/srv", "--force",
        )  # fmt: skip

        self.assertEqual(
            self.item("a"),
            {
                "config": {
                    "command": ["run", "this one", "now"],
                    "environment": {"A": "1=2", "B": ""},
                    "directory": "/srv",
                },
                "limits": {"cpu": 50, "memory": 200 * 1024**2},
                "reference": "r",
                "order": "stop",
                "metadata": {"place": "Berlin", "floor": 3},
                "force": True,
            },
        )
        read = WorkItem.from_value("a", self.work()["a"])
        self.assertEqual((read.raw, read.problem, read.extra), (None, None, {}))

    def test_sizes(self) -> None:
        """
        Sizes are bytes, or in binary units.
        """
        for text, size in (
            ("1048576", 1048576), ("512K", 524288), ("2G", 2 << 30), ("1.5M", 1572864),
            ("1g", 1 << 30), ("3MiB", 3 << 20), ("7B", 7), ("1T", 1 << 40),
        ):  # fmt: skip
            self.done("work", "add", "a", "--cpu", "1", "--memory", text)
            self.assertEqual(self.item("a")["limits"], {"cpu": 1, "memory": size})

    def test_after_dashes(self) -> None:
        """
        What follows -- is the command of one item, as it is; without an id before
        it ids follow.
        """
        self.done("work", "add", "--cpu", "1.5", "--memory", "1", "a", "--", "x", "--y")

        self.assertEqual(self.item("a")["config"], {"command": ["x", "--y"]})
        self.done("work", "add", "--json", "--", "-b")
        self.assertIn("-b", self.work())

    def test_usage(self) -> None:
        """
        A flag that says nothing is wrong usage, and is named.
        """
        for args, told in (
            (["--cpu", "much"], "--cpu"), (["--cpu", "-1"], "--cpu"),
            (["--cpu", "inf"], "--cpu"), (["--cpu", "nan"], "--cpu"),
            (["--memory", "2X"], "--memory"), (["--memory", "-2"], "--memory"),
            (["--order", "run"], "--order"), (["--metadata", "a"], "--metadata"),
            (["--metadata", "a=b"], "a text has quotes: 'a=\"b\"'"),
            (["--env", "=b"], "--env"), (["--command", "'x"], "No closing quotation"),
            (["--command", ""], "--command"), (["--", ], "no command after --"),
            (["b", "--", "x"], "for one ID"),
            (["--command", "x", "--", "y"], "exclude each other"),
            (["--from", os.devnull], "--from"), (["--file", "/no/where"], "--file"),
        ):  # fmt: skip
            text = self.refused("work", "add", "a", *args, status=2)
            self.assertIn(told, text, args)
        self.assertIn("--from", self.refused("work", "add", status=2))
        self.assertEqual(self.work(), {})

    def test_warnings(self) -> None:
        """
        A limit that keeps an item from being placed is warned of, and it is
        written.
        """
        result = self.call("work", "add", "a{1..3}", "--cpu", "0", "--memory", "1M")

        self.assertEqual((result.exit_code, result.stdout), (0, "3 added\n"))
        self.assertIn("Warning: a1 and 2 more: limits.cpu: is 0", result.stderr)
        document = self.document("work", "add", "b", "--cpu", "3")
        self.assertIn("b: limits.memory: is missing", document["warnings"][0])

    def test_plain_values(self) -> None:
        """
        What an application writes is its own business; what looks like a slip is
        warned of.
        """
        self.assertEqual(self.document("work", "add", "a", "--value", '{"url":1}')[
            "warnings"
        ], [])  # fmt: skip
        for value, told in (
            ('{"order":"run"}', "order: 'run' is neither"),
            ('{"limit":{}}', "is limits meant?"),
        ):
            document = self.document("work", "add", "b", "--value", value)
            self.assertIn(told, document["warnings"][0])
            self.assertEqual(self.work()["b"], value.encode())

    def test_too_large(self) -> None:
        """
        A value that is too large is refused before anything is written, and the
        item is named.
        """
        text = self.refused("work", "add", "a{1..2}", "--value", "v" * 600_000)

        self.assertTrue(text.startswith("a1: the item is 600000 bytes"), text)
        just = "v" * 500_000
        self.done("work", "add", "a", "--value", just)
        self.assertEqual(self.work(), {"a": just.encode()})


class FileTests(WorkCase):
    """
    ``--file`` and ``--from``.
    """

    def test_one_value(self) -> None:
        """
        YAML is written as JSON, JSON as it is, and anything else too.
        """
        for name, text, value in (
            ("a.yaml", "order: stop\nforce: true", b'{"order":"stop","force":true}'),
            ("a.json", '{ "order": "stop" }\n', b'{ "order": "stop" }\n'),
            ("a.bin", b"\x00\xff", b"\x00\xff"),
        ):  # fmt: skip
            self.done("work", "add", "a", "--file", self.file(name, text))
            self.assertEqual(self.work()["a"], value)
        flags = ["--cpu", "5", "--memory", "5"]
        self.done(
            "work", "add", "b", "--file", self.file("b.yml", "order: stop"), *flags
        )
        self.assertEqual(
            self.item("b"), {"order": "stop", "limits": {"cpu": 5, "memory": 5}}
        )

    def test_bad_value(self) -> None:
        """
        A file that is not what its name says is refused, and named.
        """
        for name, text, told in (
            ("a.json", "{", "the value is not JSON"),
            ("a.json", '{"a":1,"a":2}', "'a' stands in an object twice"),
            ("a.json", '{"order":"x"}', "order: 'x'"),
            ("a.yaml", "- 1", "a list, not an object"),
            ("a.yaml", "a: [", "not YAML: while parsing"),
            ("a.yaml", b"\xff", "not UTF-8"),
            ("a.yaml", "a: 1\na: 2", "a stands here twice"),
            ("a.yaml", "config: 2026-01-02", "a date, which JSON does not have"),
            ("a.yaml", "config: &a [*a]", "holds itself"),
            ("a.yaml", "config: " + "[" * 5000 + "]" * 5000, "nested"),
        ):
            path = self.file(name, text)
            said = self.refused("work", "add", "item", "--file", path)
            self.assertIn(told, said)
        self.assertEqual(self.work(), {})

    def test_many(self) -> None:
        """
        Items of an object by id, or of a list, are all written; ids may hold
        ranges, and an item may be empty.
        """
        for name, text in (
            ("m.yaml", "a{1..2}: {order: stop}\nb:\nc: {}"),
            ("m.json", '[{"id":"a{1..2}","order":"stop"},{"id":"b"},{"id":"c"}]'),
        ):
            self.remove(*(KEYS.work_item(id) for id in self.work()))
            document = self.document("work", "add", "--from", self.file(name, text))
            self.assertEqual(document["added"], ["a1", "a2", "b", "c"])
            stopped = b'{"order":"stop"}'
            self.assertEqual(
                self.work(), {"a1": stopped, "a2": stopped, "b": b"", "c": b""}
            )
        result = self.call("work", "add", "--from", "-", stdin="x: {ordre: stop}")
        self.assertEqual(result.stdout, "1 added\n")
        self.assertIn("is order meant?", result.stderr)

    def test_many_refused(self) -> None:
        """
        When any item is wrong none is written; file, item and field are named.
        """
        for text, told in (
            ("a: {limits: {cpu: -1}}\nb: {}", "a: limits.cpu: -1 is negative"),
            ("- {id: a}\n- {order: stop}", "item 2: has no id"),
            ("- 3", "item 1: a number, not an item"),
            ("3: {}", "3: the id is a number, not a text: put it in quotes"),
            ("a b: {}", "' '"),
            ("a{1..2}: {}\na2: {}", "a2 stands there twice"),
            ("a: [1]", "a: a list, not an object"),
            ("text", "neither an object of items by id nor a list"),
            ("", "null, neither"),
        ):
            path = self.file("many.yaml", text)
            said = self.refused("work", "add", "--from", path)
            self.assertTrue(said.startswith(f"{path}: "), said)
            self.assertIn(told, said)
        text = "\n".join(f"a{n}: {{order: x}}" for n in range(5))
        said = self.refused("work", "add", "--from", self.file("many.yaml", text))
        self.assertIn("; and 2 more; nothing is written", said)
        self.assertEqual(self.work(), {})


class UpdateTests(WorkCase):
    """
    ``work update``.
    """

    def test_only_what_is_said(self) -> None:
        """
        What no flag names stays as it is, and in its place.
        """
        before = (
            b'{"zeta":{"b":1,"a":[1.5]},"config":{"url":"u","environment":{"A":"1"}},'
            b'"limits":{"gpu":{"memory":1},"cpu":1},"metadata":{"x":1,"y":2},"alpha":0}'
        )
        self.put(work("a", before))

        self.done(
            "work", "update", "a", "--memory", "2", "--env", "B=2",
            "--metadata", "x=null", "--metadata", "z=[]",
        )  # fmt: skip

        self.assertEqual(
            self.work()["a"],
            b'{"zeta":{"b":1,"a":[1.5]},"config":{"url":"u","environment":{"A":"1",'
            b'"B":"2"}},"limits":{"gpu":{"memory":1},"cpu":1,"memory":2},'
            b'"metadata":{"y":2,"z":[]},"alpha":0}',
        )

    def test_unchanged(self) -> None:
        """
        What is so already is not written; neither are blanks.
        """
        self.put(work("a", b'{ "limits": {"cpu": 1, "memory": 1} }'))
        before = self.writes()

        document = self.document("work", "update", "a", "--cpu", "1")

        self.assertEqual(document["unchanged"], ["a"])
        self.assertEqual(self.writes(), before)

    def test_missing(self) -> None:
        """
        Items that are not there are named, with those that are near; nothing is
        written.
        """
        self.put(work("camera_1"), work("camera_2"))
        before = self.writes()

        said = self.refused("work", "update", "camra_1", "--cpu", "1")
        self.assertEqual("no work item camra_1 (there are camera_1, camera_2)", said)
        said = self.refused("work", "stop", "camera_{1..4}")
        self.assertEqual(said, "2 of 4 are no work items: camera_3, camera_4")
        self.assertEqual(self.writes(), before)
        self.remove(KEYS.work_item("camera_1"), KEYS.work_item("camera_2"))
        self.assertIn("there is none", self.refused("work", "start", "a"))

    def test_opaque(self) -> None:
        """
        A value that is no object is not touched, and it is said what it is.
        """
        for value, told in (
            (b"\xff\x00", "binary"), (b"[1]", "a list"), (b"plain", "begins 'plain'"),
            (b"x" * 99, "…"),
        ):  # fmt: skip
            self.put(work("a", value), work("b"))
            for args in (["update", "b", "a", "--cpu", "1"], ["stop", "b", "a"]):
                said = self.refused("work", *args)
                self.assertTrue(said.startswith("work/a: the value is "), said)
                self.assertIn(told, said)
            self.assertEqual(self.work(), {"a": value, "b": b""})
        self.put(work("a", b'{"config":[1]}'))
        said = self.refused("work", "update", "a", "--directory", "/")
        self.assertEqual(said, "work/a: config is a list, not an object")

    def test_file(self) -> None:
        """
        A file is the whole value; flags are applied to it.
        """
        self.put(work("a", b"old"))
        path = self.file("a.yaml", "reference: r")

        self.done("work", "update", "a", "--file", path, "--force")

        self.assertEqual(self.item("a"), {"reference": "r", "force": True})
        self.assertIn(
            "say what is to change", self.refused("work", "update", "a", status=2)
        )

    def test_race(self) -> None:
        """
        What somebody else changes meanwhile is changed as it is by then; whoever
        never gets it says so.
        """
        self.put(*(work(f"a{n}", b"{}") for n in range(OPERATIONS_AT_ONCE + 1)))
        times = [1]

        def meddle(*_: object) -> None:
            if times[0]:
                times[0] -= 1
                self.put(work("a1", b'{"theirs":%d}' % times[0]))

        self.meddle = meddle
        all_of_them = f"a{{0..{OPERATIONS_AT_ONCE}}}"
        self.done("work", "update", all_of_them, "--order", "stop")
        self.assertEqual(self.item("a1"), {"theirs": 0, "order": "stop"})
        self.assertEqual(
            {self.item(id)["order"] for id in self.work()}, {"stop"}
        )  # fmt: skip
        times[0] = 2 * ATTEMPTS
        said = self.refused("work", "update", "a1", "--cpu", "1")
        self.assertIn("others change a1 at the same time", said)

    meddle: Any = None

    def run_action(self, target: Any, action: Any) -> Any:
        """
        Let somebody else write before each transaction.
        """

        def meddled(api: Any, keys: Any) -> Any:
            txn = api.txn

            def before(ops: Any, **options: Any) -> Any:
                if self.meddle is not None and ops[0].verb == "cas":
                    self.meddle()
                return txn(ops, **options)

            api.txn = before
            return action(api, keys)

        return super().run_action(target, meddled)


class OrderTests(WorkCase):
    """
    ``work start``, ``stop`` and ``restart``.
    """

    def test_orders(self) -> None:
        """
        The order is written, once; an item that was empty is so again.
        """
        self.put(work("a1", b'{"config":{}}'), work("a2"))

        self.assertEqual(self.done("work", "stop", "a{1..2}"), "2 changed\n")
        self.assertEqual(self.done("work", "stop", "a{1..2}"), "2 unchanged\n")
        self.assertEqual(self.item("a1"), {"config": {}, "order": "stop"})
        self.assertEqual(self.item("a2"), {"order": "stop"})
        self.assertEqual(self.done("work", "start", "a{1..2}"), "2 changed\n")
        self.assertEqual(self.item("a1"), {"config": {}, "order": "start"})
        self.assertEqual(self.work()["a2"], b"")
        self.assertEqual(self.done("work", "start", "a2"), "1 unchanged\n")

    def test_restart(self) -> None:
        """
        A restart is asked for in the item, and it is said who heeds it.
        """
        self.put(Entry(KEYS.work_item("a"), b'{"force":1}'))

        shown = self.done("work", "restart", "a")

        self.assertEqual(self.work()["a"], b'{"force":true}')
        self.assertIn("1 changed\n", shown)
        self.assertIn("resource leader", shown)
        self.assertIn("resource leader", self.done("work", "restart", "--help"))
