"""
Planner cases: a state, and what must come of it.  One test for each file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.errors import CaseError
from voltha_coord.planning.actions import Delete, Error, Reject, Skip, Start, Stop
from voltha_coord.planning.case import PHASES, go_through, operation, read_case
from voltha_coord.planning.shares import GpuShare, Share

CASES = Path(__file__).parent / "data" / "planner"


class CaseTests(SynchronousTestCase):
    """
    The files of ``tests/data/planner``.
    """

    def check(self, name: str) -> None:
        """
        Go through a case; compare what comes of it with what must.
        """
        content = json.loads((CASES / name).read_text())
        expected = content["expect"]

        found = go_through(read_case(content)).document

        for part, value in expected.items():
            if part == "operations_in_any_order":
                continue
            if part == "operations" and expected.get("operations_in_any_order"):
                self.assertCountEqual(found[part], value)
            else:
                self.assertEqual(found[part], value, part)


def _add(path: Path) -> None:
    def test(self: CaseTests) -> None:
        self.check(path.name)

    test.__doc__ = f"The case {path.stem} comes out as it must."
    test.__name__ = f"test_{path.stem.replace('-', '_')}"
    setattr(CaseTests, test.__name__, test)


for _path in sorted(CASES.glob("*.json")):
    _add(_path)


class ReadTests(SynchronousTestCase):
    """
    Files as anybody may have written them.
    """

    def setUp(self) -> None:
        """
        Take a good one.
        """
        self.content: dict[str, Any] = json.loads(
            (CASES / "order-stop.json").read_text()
        )

    def test_all_cases_are_there(self) -> None:
        """
        There are files for each phase.
        """
        phases = {json.loads(p.read_text())["phase"] for p in CASES.glob("*.json")}

        self.assertEqual(phases, set(PHASES))
        self.assertGreater(len([*CASES.glob("*.json")]), 20)

    def test_state_alone(self) -> None:
        """
        A state without a case around it will do.
        """
        whole = read_case(self.content)

        self.assertEqual(read_case(self.content["state"]), whole)
        self.assertEqual(read_case(self.content, "relocate").phase, "relocate")

    def refused(self, content: object, words: str) -> None:
        """
        See that a file is refused, and how.
        """
        error = self.assertRaises(CaseError, read_case, content)
        self.assertIn(words, str(error))

    def test_no_object(self) -> None:
        """
        What is no object is refused.
        """
        contents: tuple[object, ...] = (None, [], 3, "x")
        for content in contents:
            self.refused(content, "is not an object")

    def test_bad_phase(self) -> None:
        """
        So is a phase that is none.
        """
        self.refused({**self.content, "phase": "x"}, "phase: 'x' is none of")

    def test_bad_fields(self) -> None:
        """
        Each bad field is named by its place.
        """
        for place, value, words in (
            ("nodes", [], "nodes: [] is not an object"),
            ("nodes.n1", 3, "nodes.n1: 3"),
            ("nodes.n1.state", "up", "nodes.n1.state: 'up' is none of"),
            ("nodes.n1.last_contact_age", -1, "last_contact_age: -1 is negative"),
            ("nodes.n1.resources.cpu", "7", "nodes.n1.resources.cpu: '7'"),
            ("work.0.config", float("nan"), "work[0].config: no JSON"),
            ("work.0.metadata", {"a": {1}}, "work[0].metadata: no JSON"),
            ("nodes.n1.resources.cpu", float("nan"), "nan is out of range"),
            ("nodes.n1.resources.memory_limit", float("inf"), "inf is out of range"),
            ("nodes.n1.resources.throttling", 1, "throttling: 1 is neither"),
            ("nodes.n1.resources.gpus", [3], "nodes.n1.resources.gpus[0]: 3"),
            ("nodes.n1.resources.error", 3, "error: 3 is not a text"),
            ("work", {}, "work: {} is not a list"),
            ("work.0.id", None, "work[0].id: None is not a text"),
            ("work.0.order", "run", "work[0].order: 'run' is neither"),
            ("work.0.limits.cpu", "x", "work[0].limits.cpu: 'x'"),
            ("work.0.limits.gpu", {"index": "0"}, "work[0].limits.gpu.index: '0'"),
            ("work.0.metadata", [], "work[0].metadata: [] is not an object"),
            ("work.0.force", "no", "work[0].force: 'no'"),
            ("work.0.updated_at", True, "updated_at: True is not a number"),
            ("processes.0.node", None, "processes[0].node"),
            ("processes.0.usage", 3, "processes[0].usage: 3"),
            ("placements", {"a": 3}, "placements.a: 3 is not a text"),
            ("relocations", [], "relocations: []"),
            ("settings.node_recover_timeout", "2m", "node_recover_timeout: '2m'"),
        ):
            content = json.loads(json.dumps(self.content))
            holder: Any = content["state"]
            *path, last = place.split(".")
            for step in path:
                holder = holder[int(step)] if step.isdigit() else holder[step]
            holder[last] = value

            self.refused(content, words)

    def test_negative_limits(self) -> None:
        """
        Limits of zero and below mean that there are none: that is the planner's
        business.
        """
        self.content["state"]["work"][0]["limits"] = {"cpu": -1, "memory": 0}

        self.assertEqual(
            read_case(self.content).deployment.work[0].limits, Share(-1, 0)
        )

    def test_twice(self) -> None:
        """
        An item that is wanted twice is refused.
        """
        work = self.content["state"]["work"]
        work.append(work[0])

        self.refused(self.content, "foobar@ is there twice")

    def test_gpus(self) -> None:
        """
        GPUs are read, and the number of one where it is told.
        """
        gpu = {"memory": 1, "usage": 2, "encoder": 3, "decoder": 4}
        process = self.content["state"]["processes"][0]
        process["usage"] = {"cpu": 1, "memory": 1, "gpu": {**gpu, "index": 0}}
        process["limits"] = {"cpu": 1, "memory": 1, "gpu": {**gpu, "index": -1}}

        (found,) = read_case(self.content).deployment.processes

        self.assertEqual(found.usage.gpu, GpuShare(1, 2, 3, 4, 0))
        self.assertEqual(found.limits.gpu, GpuShare(1, 2, 3, 4))

    def test_ids(self) -> None:
        """
        An id has the ``@`` only where a domain follows it.
        """
        work = self.content["state"]["work"][0]
        work["domain"] = "there"
        state = {**self.content["state"], "relocations": {"foobar@": "n1"}}

        deployment = read_case(state).deployment

        self.assertEqual(deployment.work[0].id, "foobar@there")
        self.assertEqual(deployment.processes[0].id, "foobar")
        self.assertEqual(deployment.relocations, {"foobar": "n1"})


class ChangedTests(SynchronousTestCase):
    """
    When an item counts as changed.
    """

    def changed(self, work: dict[str, Any], process: dict[str, Any]) -> bool:
        """
        Whether an item is updated where it runs.
        """
        limits = {"cpu": 10, "memory": 20}
        state = {
            "nodes": {"n1": {}},
            "work": [{"id": "w", "limits": limits, **work}],
            "processes": [{"id": "w", "node": "n1", "limits": limits, **process}],
        }
        (first,) = go_through(read_case(state)).document["operations"]
        self.assertIn(first["op"], ("null", "update"))
        return bool(first["op"] == "update")

    def test_changed(self) -> None:
        """
        Another config, limit or reference is a change; a truth value is no
        number.
        """
        for name, one, other in (
            ("config", {"a": 1}, {"a": 2}),
            ("config", {"a": 1}, {"a": True}),
            ("config", {"a": 0}, {"a": False}),
            ("limits", {"cpu": 10, "memory": 20}, {"cpu": 10, "memory": 21}),
            ("limits", {"cpu": 10, "memory": 20}, {}),
            ("reference", "a", "b"),
        ):
            self.assertTrue(self.changed({name: one}, {name: other}), name)
            self.assertTrue(self.changed({name: other}, {name: one}), name)

    def test_unchanged(self) -> None:
        """
        What is left out, and the order of fields, are no change.
        """
        for name, one, other in (
            ("config", {"a": 1, "b": 2}, {"b": 2, "a": 1}),
            ("limits", {"cpu": 10, "memory": 20}, {"memory": 20.0, "cpu": 10.0}),
        ):
            self.assertFalse(self.changed({name: one}, {name: other}), name)
        self.assertFalse(self.changed({"config": {}, "reference": ""}, {}))
        gpu = {"cpu": 10, "memory": 20, "gpu": None}
        self.assertFalse(self.changed({"limits": gpu}, {}))


class WriteTests(SynchronousTestCase):
    """
    Operations as a case shows them.
    """

    def test_each(self) -> None:
        """
        Each shows what it has.
        """
        for action, shown in (
            (Stop("w", "n"), {"op": "stop", "node": "n"}),
            (Start("w", "n"), {"op": "start", "node": "n"}),
            (Delete("w", "n"), {"op": "delete", "node": "n"}),
            (Reject("w", "r"), {"op": "reject", "reason": "r"}),
            (Error("w", "r"), {"op": "error", "reason": "r"}),
            (Skip("w", "n", "r"), {"op": "skip", "node": "n", "reason": "r"}),
        ):
            self.assertEqual(operation(action), {"work": "w@", **shown})

    def test_moved(self) -> None:
        """
        Placements and wishes are those after the plan.
        """
        content = json.loads((CASES / "relocate-target.json").read_text())
        case = read_case(content)
        deployment = evolve(case.deployment, placements={"foobar1": "n1"})

        found = go_through(evolve(case, deployment=deployment)).document

        self.assertEqual(found["placements"], {"foobar1@": "n3"})
        self.assertEqual(found["done"], ["foobar1@"])
        self.assertEqual(set(found), {"operations", "placements", "resources", "done"})
