"""
Tests that the documentation says what the code does.
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import importlib.util
import re
from pathlib import Path
from types import ModuleType

from twisted.trial.unittest import SynchronousTestCase

import voltha_coord
from voltha_coord.consul.transport import Lane
from voltha_coord.item import STATES
from voltha_coord.keeping import RENEWAL_REFUSED
from voltha_coord.liveness import CheckEnd
from voltha_coord.tally import OTHER, OUTCOMES, PassTally
from voltha_coord.terms import REASONS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(voltha_coord.__file__).parent
LEVELS = {"warning", "error", "critical", "exception"}


def loud_events() -> set[str]:
    """
    Give the events the package logs at warning and above, but for its command
    line and its embedded Consul.
    """
    events = set()
    for path in PACKAGE.rglob("*.py"):
        if {"ctl", "embedded"} & set(path.relative_to(PACKAGE).parts):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LEVELS
                and node.args
                and isinstance(node.args[0], ast.Constant)
                and isinstance(node.args[0].value, str)
            ):
                events.add(node.args[0].value)
    return events


def script(name: str) -> ModuleType:
    """
    Load a script of ``tools/``.
    """
    path = ROOT / "tools" / name
    loader = importlib.machinery.SourceFileLoader("script", str(path))
    spec = importlib.util.spec_from_loader("script", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def tested(name: str) -> bool:
    """
    Tell whether there is a test, a class of tests or a module of that name, with
    a test in it.
    """
    module, *path = name.split(".")
    try:
        found: object = importlib.import_module(f"tests.{module}")
        for part in path:
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return False
    if not isinstance(found, type):
        return True
    return any(attribute.startswith("test") for attribute in dir(found))


class DocumentationTests(SynchronousTestCase):
    """
    README.md and docs/.
    """

    def setUp(self) -> None:
        """
        Find the project's own files beside the tests.
        """
        self.pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

    def test_settings(self) -> None:
        """
        The table of settings is the one of ``Settings``.
        """
        page = (ROOT / "docs" / "settings.md").read_text()

        fresh = script("settings-table").within(page)
        self.assertEqual(fresh, page, "run tools/settings-table --write")

    def test_metrics(self) -> None:
        """
        The table of metrics is the one that is told.
        """
        page = (ROOT / "docs" / "metrics.md").read_text()

        fresh = script("metrics-table").within(page)
        self.assertEqual(fresh, page, "run tools/metrics-table --write")

    def test_words_of_labels(self) -> None:
        """
        Every word that a metric's label may have from the beginning is
        explained.
        """
        words = {*OUTCOMES, *REASONS, *STATES, *(lane.value for lane in Lane), OTHER}
        words |= {RENEWAL_REFUSED, *(end.value for end in CheckEnd)}
        words |= {*PassTally().outcomes.counts, *PassTally().operations}
        source = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
        words |= set(re.findall(r'tally\.watch\("([^"]+)"\)', source))
        page = (ROOT / "docs" / "metrics.md").read_text()
        explained = set(re.findall(r"`([a-z0-9-]+)`", page))

        self.assertEqual(sorted(words - explained), [])

    def test_state_machines(self) -> None:
        """
        The machines that are shown are those of the code.
        """
        page = (ROOT / "docs" / "state-machines.md").read_text()

        fresh = script("state-machines").within(page)
        self.assertEqual(fresh, page, "run tools/state-machines --write")

    def test_drawings(self) -> None:
        """
        What is drawn is shown as it is drawn.
        """
        page = (ROOT / "docs" / "state-machines.md").read_text()
        prose = re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S)

        self.assertNotIn("──", prose)
        self.assertIn("\nresting   a token is there  -> reading", page)

    def test_every_machine_is_shown(self) -> None:
        """
        No module that has a machine, or draws one, is left out.
        """
        drawn = re.compile("──▶|TypeMachineBuilder\\(|^# Note .The states", re.M)
        drawing = {
            str(path.relative_to(PACKAGE).with_suffix(""))
            for path in PACKAGE.rglob("*.py")
            if drawn.search(path.read_text())
        }
        shown = {m for _, modules in script("state-machines").SECTIONS for m in modules}

        self.assertEqual(sorted(drawing - shown), [])

    def test_events(self) -> None:
        """
        Every event at warning and above is explained.
        """
        page = (ROOT / "docs" / "operations.md").read_text()
        explained = set(re.findall(r"`([a-z0-9-]+)`", page))

        self.assertEqual(sorted(loud_events() - explained), [])

    def test_explained_events_exist(self) -> None:
        """
        No event is explained that nothing logs.
        """
        page = (ROOT / "docs" / "operations.md").read_text()
        rows = [line for line in page.splitlines() if line.startswith("| `")]
        first = [row.split("|")[1] for row in rows]
        explained = {name for cell in first for name in re.findall(r"`([^`]+)`", cell)}
        source = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))

        self.assertEqual([e for e in sorted(explained) if f'"{e}"' not in source], [])

    def test_guarantees(self) -> None:
        """
        Every test that is said to show a guarantee is there (field report 75).
        """
        page = (ROOT / "docs" / "guarantees.md").read_text()
        named = set(re.findall(r"`(test_[\w.]+)`", page))

        self.assertGreater(len(named), 50)
        self.assertEqual([name for name in sorted(named) if not tested(name)], [])

    def test_failures(self) -> None:
        """
        Whatever event or alert a failure is said to show exists.
        """
        page = (ROOT / "docs" / "guarantees.md").read_text()
        source = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
        alerts = (ROOT / "docs" / "alerts.yml").read_text()
        events = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", page))
        named = set(re.findall(r"`(VolthaCoord\w+)`", page))

        self.assertEqual([e for e in sorted(events) if f'"{e}"' not in source], [])
        self.assertEqual(
            [a for a in sorted(named) if f"alert: {a}\n" not in alerts], []
        )

    def test_links(self) -> None:
        """
        Every link to a file of the project leads to one.
        """
        dead = []
        for page in self.pages:
            for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
                if "://" not in target and not (page.parent / target).exists():
                    dead.append(f"{page.name}: {target}")

        self.assertEqual(dead, [])
