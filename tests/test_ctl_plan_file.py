"""
Tests for ``plan --state``: planning on a state that is in a file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .support.commands import CommandTestCase

CASES = Path(__file__).parent / "data" / "planner"


class PlanFileTests(CommandTestCase):
    """
    ``plan --state``.
    """

    def plan(self, name: str, *args: str) -> str:
        """
        Plan a case, and give what is shown.
        """
        return self.done("plan", "--state", str(CASES / f"{name}.json"), *args)

    def file(self, text: str, name: str = "state.json") -> str:
        """
        Have a file.
        """
        folder = self.mktemp()
        os.makedirs(folder)
        path = os.path.join(folder, name)
        Path(path).write_text(text)
        return path

    def test_cases(self) -> None:
        """
        What is expected of each case is in its document, which has nothing else.
        """
        names = sorted(path.stem for path in CASES.glob("*.json"))
        self.assertGreater(len(names), 20)
        for name in names:
            expected = json.loads((CASES / f"{name}.json").read_text())["expect"]
            found = json.loads(self.plan(name, "--json"))
            self.assertEqual(
                list(found), ["operations", "placements", "resources", "done"]
            )
            expected.pop("operations_in_any_order", None)
            self.assertEqual({part: found[part] for part in expected}, expected, name)

    def test_json_of_any_name(self) -> None:
        """
        JSON is read as JSON, whatever the name of its file: YAML takes ``1e3`` for
        a text, and no tabs.
        """
        text = (CASES / "add.json").read_text()
        case = json.loads(text)
        for node in case["state"]["nodes"].values():
            node["resources"]["memory_limit"] = 90.5
        text = json.dumps(case, indent="\t").replace("90.5", "9e1")

        found = self.done("plan", "--state", self.file(text, "state"), "--json")

        operations = json.loads(found)["operations"]
        self.assertEqual(operations, case["expect"]["operations"])

    def test_no_consul(self) -> None:
        """
        No Consul is asked.
        """
        self.consul.agent.kill()

        self.plan("add", "--leader", "resource")
        self.assertEqual(self.runs, 0)

    def test_shown(self) -> None:
        """
        People see the operations, why each is what it is, and what comes of it.
        """
        shown = self.plan("relocate-target")
        self.assertRegex(shown, r"op +id +node +to +order")
        self.assertRegex(shown, r"move +foobar1@ +n1 +n3 +start\n")
        self.assertIn("move foobar1@ n3: it has room, and is where the", shown)
        self.assertIn("    not n1: it is there, and is to go\n", shown)
        self.assertRegex(shown, r"n2 +15 +11\n")
        self.assertIn("relocated: foobar1@\nrelocate: 1 operation\n", shown)

        shown = self.plan("wait-disconnected-node-no-wish")
        self.assertIn("    not n2: is offline\n", shown)
        self.assertIn("synchronize: 1 operation, 1 as they are to be\n", shown)
        self.assertIn("metadata foo", self.plan("update-metadata"))
        self.assertIn("its order is stop", self.plan("order-stop"))
        self.assertIn("not wanted there any more", self.plan("remove"))
        self.assertIn("no limits defined", self.plan("add-no-limits"))

    def test_narrow(self) -> None:
        """
        Everything fits into eighty columns.
        """
        for name in ("rebalance-skip", "add-no-resources-cpu"):
            path = str(CASES / f"{name}.json")
            lines = self.done("plan", "--state", path, COLUMNS="80").splitlines()
            self.assertLessEqual(max(map(len, lines)), 80)

    def test_state(self) -> None:
        """
        A state alone is enough, also as YAML, and the phase may be chosen; by
        default it is the first.
        """
        case = json.loads((CASES / "relocate-target.json").read_text())
        path = self.file(json.dumps(case["state"]))

        def operations(*args: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = self.document("plan", *args)["operations"]
            return found

        self.assertEqual({row["op"] for row in operations("--state", path)}, {"delete"})
        (move,) = operations("--state", path, "--phase", "relocate")
        self.assertEqual((move["op"], move["to_node"]), ("move", "n3"))
        whole = self.file(json.dumps(case))
        self.assertEqual(operations("--state", whole, "--phase", "rebalance"), [])
        text = "phase: synchronize\nstate: {nodes: {}}"
        path = self.file(text, "state.yaml")
        self.assertEqual(
            self.done("plan", "--state", path), "synchronize: no operations\n"
        )

    def test_bad_content(self) -> None:
        """
        What cannot be read is exit 1, with the file and the place.
        """
        for text, told in (
            ("{", "not JSON"),
            ("[]", "the file: "),
            ('{"nodes":{"n1":{"state":"happy"}}}', "nodes.n1.state: 'happy'"),
            ('{"state":{},"phase":"x"}', "phase: 'x'"),
            ('{"work":[{"id":1}]}', "work[0].id: 1"),
        ):
            path = self.file(text)
            said = self.refused("plan", "--state", path)
            self.assertTrue(said.startswith(f"{path}: "), said)
            self.assertIn(told, said)

    def test_usage(self) -> None:
        """
        A file that is not there, and options that do not go together, are wrong
        usage.
        """
        for args, told in (
            (["--state", "/no/where"], "--state"),
            (["--phase", "rebalance"], "--state"),
            (["--state", self.file("{}"), "--phase", "x"], "--phase"),
            (["--state", self.file("{}"), "--leader", "balanced"], "--leader"),
        ):
            self.assertIn(told, self.refused("plan", *args, status=2))
        result = self.call(
            "plan", "--state", self.file("{}"), VOLTHA_COORD_LEADER="balanced"
        )
        self.assertEqual(result.exit_code, 0)
