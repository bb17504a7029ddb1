"""
Tests of what is plugged into twistd, and of leaders and workers found by name.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from types import ModuleType
from typing import Any

from twisted.application.service import IServiceMaker
from twisted.plugin import getPlugins
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

import tests.support.pluggable as pluggable
from voltha_coord import tap
from voltha_coord.errors import ConfigurationError
from voltha_coord.interfaces import ILeaderPlugin, IWorkerPlugin
from voltha_coord.planning.balanced import BalancedPlanner
from voltha_coord.plugins import (
    LeaderPlugin,
    WorkerPlugin,
    as_worker_class,
    find_leader,
    find_worker,
    make_emergency_planner,
)


class _Member:
    """
    As much of a Coordinator as plugins need.
    """

    instance_id = "m1"


def run_python(code: str) -> str:
    """
    Run a program in a process of its own, in which the package is found.
    """
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environ,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


class ServiceMakerTests(SynchronousTestCase):
    """
    Tests of the twistd plugin.
    """

    def test_found(self) -> None:
        """
        Twistd finds the plugin, and behind it options and service.
        """
        (maker,) = [
            plugin
            for plugin in getPlugins(IServiceMaker)
            if plugin.tapname == "voltha_coord"
        ]

        self.assertIs(maker.options, tap.Options)
        self.assertIs(maker.makeService, tap.makeService)

    def test_listing_is_cheap(self) -> None:
        """
        Listing twistd's commands imports neither a reactor nor what the names
        stand for (twistd chooses the reactor afterwards).
        """
        said = run_python(
            "import sys\n"
            "from twisted.application.service import IServiceMaker\n"
            "from twisted.plugin import getPlugins\n"
            "from twisted.plugins import voltha_coord_plugin\n"
            "from voltha_coord.interfaces import ILeaderPlugin\n"
            "print(voltha_coord_plugin.voltha_coord.tapname)\n"
            "print([p.name for p in getPlugins(ILeaderPlugin)] and '')\n"
            "heavy = ('twisted.internet.reactor', 'consul', 'treq', 'klein',\n"
            "    'voltha_coord.tap', 'voltha_coord.leader', 'voltha_coord.planning')\n"
            "print([name for name in heavy if name in sys.modules])\n"
        )

        self.assertEqual(said.split(), ["voltha_coord", "[]"])

    def test_making_the_service_chooses_no_reactor(self) -> None:
        """
        Parsing options leaves the choice of a reactor to twistd.
        """
        said = run_python(
            "import sys\n"
            "from voltha_coord.tap import Options\n"
            "Options({'HOSTNAME': 'h'}).parseOptions([])\n"
            "print('twisted.internet.reactor' in sys.modules)\n"
        )

        self.assertEqual(said.strip(), "False")


class ShippedPluginsTests(SynchronousTestCase):
    """
    Tests of the leaders and workers that come with the package.
    """

    def test_leaders(self) -> None:
        """
        The shipped leaders are found by name, and make a leader.
        """
        for name in ("balanced", "hash-ring", "resource"):
            plugin = find_leader(name)
            verifyObject(ILeaderPlugin, plugin)
            self.assertEqual(plugin.name, name)

    def test_workers(self) -> None:
        """
        The shipped worker is found by name.
        """
        plugin = find_worker("track")

        verifyObject(IWorkerPlugin, plugin)
        self.assertEqual(plugin.name, "track")

    def test_what_they_stand_for(self) -> None:
        """
        What the shipped plugins name can be imported.
        """
        from twisted.python.reflect import namedAny

        from twisted.plugins import voltha_coord_plugin

        for plugin in (voltha_coord_plugin.balanced, voltha_coord_plugin.hash_ring):
            self.assertTrue(callable(namedAny(plugin.leader)))
            self.assertTrue(callable(namedAny(plugin.planner).plan))
        self.assertTrue(callable(namedAny(voltha_coord_plugin.track.worker)))


class FindTests(SynchronousTestCase):
    """
    Tests of plugins of one's own.
    """

    def test_lazy_leader(self) -> None:
        """
        A plugin's leader gets the Coordinator, and the planner where one is
        named.
        """
        member = _Member()
        name = "tests.support.pluggable.Lead"

        plain: Any = LeaderPlugin("a", name)(member)
        planned: Any = LeaderPlugin("a", name, "tests.support.pluggable.Plan")(member)

        self.assertEqual(plain.given, (member,))
        self.assertIs(planned.given[0], member)
        self.assertIsInstance(planned.given[1], pluggable.Plan)

    def test_emergency_planner(self) -> None:
        """
        What plans for a member that is cut off is the leader's own planner; else
        what its class names; else the balanced one.
        """
        place = "tests.support.pluggable."
        planned = LeaderPlugin("x", place + "Lead", place + "Plan")
        named = LeaderPlugin("x", place + "CarefulLead")
        plain = LeaderPlugin("x", place + "Lead")

        self.assertIsInstance(planned.emergency_planner(), pluggable.Plan)
        self.assertIsInstance(named.emergency_planner(), pluggable.Plan)
        self.assertIsInstance(plain.emergency_planner(), BalancedPlanner)
        for leader, planner in (
            (planned, pluggable.Plan),
            (pluggable.CarefulLead, pluggable.Plan),
            (pluggable.Lead, BalancedPlanner),
            (lambda coordinator: pluggable.Lead(), BalancedPlanner),
        ):
            self.assertIsInstance(make_emergency_planner(leader), planner)

    def test_lazy_worker(self) -> None:
        """
        A plugin's worker gets the instance id, the Coordinator, and the runner
        where one is named.
        """
        member = _Member()
        name = "tests.support.pluggable.Work"

        plain: Any = WorkerPlugin("a", name)(member)
        running: Any = WorkerPlugin("a", name, "tests.support.pluggable.Run")(member)

        self.assertEqual(plain.given, ("m1", member))
        self.assertIsInstance(running.given[2], pluggable.Run)

    def test_worker_class(self) -> None:
        """
        A Coordinator calls a worker plugin as it calls a worker class.
        """
        member = _Member()
        plugin = WorkerPlugin("a", "tests.support.pluggable.Work")

        worker: Any = as_worker_class(plugin)("m1", member)

        self.assertEqual(worker.given, ("m1", member))

    def test_runner_of_a_member(self) -> None:
        """
        A runner that is made for a member is called with it.
        """
        member = _Member()
        plugin = WorkerPlugin(
            "a",
            "tests.support.pluggable.Work",
            runner_of="tests.support.pluggable.runner_of",
        )

        plugin.resolve()
        work: Any = plugin(member)

        self.assertEqual(work.given[2:], (("runner of", member),))

    def test_unknown(self) -> None:
        """
        An unknown name is refused with the names there are.
        """
        error = self.assertRaises(ConfigurationError, find_leader, "best")
        self.assertEqual(
            str(error), "'best' is no leader: there is balanced, hash-ring, resource"
        )
        error = self.assertRaises(ConfigurationError, find_worker, "best")
        self.assertIn("'best' is no worker: there is process, track", str(error))

    def test_no_plugins(self) -> None:
        """
        So is any name where there are none at all.
        """
        empty = self.package("plugins_empty")

        error = self.assertRaises(ConfigurationError, find_leader, "balanced", empty)

        self.assertIn("there is no plugin", str(error))

    def test_two_of_a_name(self) -> None:
        """
        Two plugins of one name are refused: which of them is meant cannot be
        known.
        """
        twice = self.package("plugins_twice", "one", "two")

        error = self.assertRaises(ConfigurationError, find_leader, "mine", twice)

        self.assertIn("2 plugins are a leader 'mine'", str(error))

    def test_own(self) -> None:
        """
        A plugin of one's own is found beside others.
        """
        own = self.package("plugins_own", "one")

        self.assertEqual(find_leader("mine", own).name, "mine")

    def test_names_that_stand_for_nothing(self) -> None:
        """
        A plugin whose names cannot be imported, or are not to be called, is
        refused when it is chosen, and not once it is to lead.
        """
        for number, (leader, why) in enumerate(
            (
                ("no_such_module.Leader", "cannot be imported: ObjectNotFound"),
                ("tests.support.pluggable.Gone", "cannot be imported: AttributeError"),
                ("tests.support.pluggable.__doc__", "cannot be called"),
                ("x..y", "cannot be imported: InvalidName"),
            )
        ):
            own = self.package(f"plugins_wrong_{number}", "one", leader=leader)

            error = self.assertRaises(ConfigurationError, find_leader, "mine", own)

            self.assertIn(f"leader 'mine': {leader!r} {why}", str(error))

    def test_every_name_is_looked_up(self) -> None:
        """
        Planner, worker and runner are looked up like the leader.
        """
        good, bad = "tests.support.pluggable.Lead", "tests.support.pluggable.Gone"
        for plugin in (
            LeaderPlugin("a", good, bad),
            WorkerPlugin("a", bad),
            WorkerPlugin("a", good, bad),
        ):
            error = self.assertRaises(ConfigurationError, plugin.resolve)
            self.assertIn(repr(bad), str(error))

    def package(
        self,
        name: str,
        *modules: str,
        leader: str = "tests.support.pluggable.Lead",
    ) -> ModuleType:
        """
        Make a package of plugins that can be imported during a test; each of
        its modules has a leader called ``mine``.
        """
        root = os.path.abspath(self.mktemp())
        os.makedirs(os.path.join(root, name))
        for module in ("__init__", *modules):
            with open(os.path.join(root, name, f"{module}.py"), "w") as file:
                if module != "__init__":
                    file.write(
                        "from voltha_coord.plugins import LeaderPlugin\n"
                        f"mine = LeaderPlugin('mine', {leader!r})\n"
                    )
        sys.path.insert(0, root)

        def forget() -> None:
            sys.path.remove(root)
            for known in [m for m in sys.modules if m.split(".")[0] == name]:
                del sys.modules[known]

        self.addCleanup(forget)
        return importlib.import_module(name)
