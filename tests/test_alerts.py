"""
Tests of docs/alerts.yml: each alert fires when it ought to, and only then.

Members are scraped every 15 seconds of virtual time, and the rules evaluated as
Prometheus does it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from attrs import evolve, field, frozen
from prometheus_client.core import GaugeMetricFamily
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from voltha_coord.consul.model import SessionSpec
from voltha_coord.consul.transport import Lane, Request
from voltha_coord.coordinator import Coordinator
from voltha_coord.interfaces import IPlanner
from voltha_coord.leader import Leader
from voltha_coord.planning.operations import Assign, Move, Operation, Plan
from voltha_coord.planning.state import ClusterState
from voltha_coord.settings import Settings
from voltha_coord.testing import EmbeddedCluster
from voltha_coord.web.exposing import MemberCollector
from voltha_coord.web.families import PREFIX
from voltha_coord.web.metrics import METRICS

from .support.embedded import ClusterTestCase
from .support.promql import Expression, parse, seconds
from .support.samples import Labels, Samples
from .support.working import StringRunner, operations

ROOT = Path(__file__).resolve().parent.parent
INTERVAL = 15.0
MINUTE = 60.0
HOUR = 60 * MINUTE

#: For tests that last hours: what is not their subject happens rarely.
PATIENT = Settings(
    failure_detection=60.0, session_ttl=60.0, renew_interval=20.0, resync_interval=60.0
)


@frozen
class Rule:
    """
    One alert of the file.

    :ivar seconds: for how long its expression must hold.
    """

    name: str
    expression: Expression
    seconds: float
    labels: dict[str, str]
    annotations: dict[str, str]

    @classmethod
    def read(cls, rule: dict[str, Any]) -> Rule:
        """
        Read it.
        """
        return cls(
            name=rule["alert"],
            expression=parse(rule["expr"]),
            seconds=seconds(rule.get("for", "0s")),
            labels=rule["labels"],
            annotations=rule["annotations"],
        )

    def render(self, labels: Labels) -> str:
        """
        Give what it tells people of these labels.

        :raises KeyError: when it wants one that is not there.
        """
        known = dict(labels)
        return re.sub(
            r"\{\{ \$labels\.(\w+) \}\}",
            lambda found: known[found[1]],
            "\n".join(self.annotations.values()),
        )


def rules() -> list[Rule]:
    """
    Read the file.
    """
    document = yaml.safe_load((ROOT / "docs" / "alerts.yml").read_text())
    return [Rule.read(rule) for group in document["groups"] for rule in group["rules"]]


@frozen
class Alerting:
    """
    Scrapes the members of a cluster, and evaluates the alerts.

    :ivar fired: every alert that fired so far, with its labels.
    """

    cluster: EmbeddedCluster
    samples: Samples = field(factory=Samples)
    fired: dict[str, set[Labels]] = field(factory=dict)
    _rules: list[Rule] = field(factory=rules)
    _targets: dict[str, Coordinator] = field(factory=dict)
    _since: dict[tuple[str, Labels], float] = field(factory=dict)

    def watch(self, duration: float) -> set[str]:
        """
        Let that much time pass; give the names of the alerts that fired.
        """
        self.fired.clear()
        for _ in range(round(duration / INTERVAL)):
            self.cluster.advance(INTERVAL)
            self._scrape()
            self._evaluate()
        return set(self.fired)

    def _scrape(self) -> None:
        self._targets.update(self.cluster.members)
        awake = self.cluster.awake
        for name, member in self._targets.items():
            told = MemberCollector(member).collect() if member in awake else None
            self.samples.scrape(self.cluster.clock.seconds(), name, told)

    def forget(self, member: Coordinator) -> None:
        """
        Scrape a member no more: its machine is gone.
        """
        name = member.instance_id
        del self._targets[name], self.cluster.processes[name]
        self.samples.forget(self.cluster.clock.seconds(), name)

    def _evaluate(self) -> None:
        now = self.cluster.clock.seconds()
        holding = set()
        for rule in self._rules:
            for labels in rule.expression.at(self.samples, now):
                key = rule.name, labels
                holding.add(key)
                if now - self._since.setdefault(key, now) >= rule.seconds:
                    rule.render(labels)
                    self.fired.setdefault(rule.name, set()).add(labels)
        for key in self._since.keys() - holding:
            del self._since[key]


class FileTests(SynchronousTestCase):
    """
    The file itself.
    """

    def test_complete(self) -> None:
        """
        Each alert has a name of its own, a severity that the file explains, and
        says what it is and what to do.
        """
        names = [rule.name for rule in rules()]

        self.assertEqual(len(names), len(set(names)))
        for rule in rules():
            self.assertTrue(rule.name.startswith("VolthaCoord"), rule.name)
            self.assertIn(rule.labels["severity"], ("critical", "warning", "info"))
            self.assertEqual(set(rule.annotations), {"summary", "description"})
            self.assertGreater(len(rule.annotations["description"]), 100, rule.name)

    def test_metrics_exist(self) -> None:
        """
        Every metric that an alert asks for is told, with the labels it asks for.
        """
        labels: dict[str, set[str]] = {"up": {"job"}}
        for metric in METRICS:
            own = {"prefix", "instance_id", *metric.labels}
            if metric.kind == "histogram":
                for what, more in (
                    ("_bucket", {"le"}),
                    ("_count", set()),
                    ("_sum", set()),
                ):
                    labels[metric.full_name + what] = own | more
            else:
                labels[metric.full_name] = own
        for rule in rules():
            for selector in rule.expression.selectors:
                self.assertIn(selector.name, labels, rule.name)
                asked = {name for name, _, _ in selector.matchers}
                self.assertLessEqual(asked, labels[selector.name], rule.name)

    def test_what_is_advised_exists(self) -> None:
        """
        Metrics and commands that descriptions name exist.
        """
        told = {metric.full_name for metric in METRICS}
        told |= {PREFIX + metric.name for metric in METRICS}
        text = (ROOT / "docs" / "alerts.yml").read_text()

        named = {
            re.sub("_(bucket|count)$", "", n) for n in re.findall(PREFIX + r"\w+", text)
        }
        self.assertEqual(named - told, set())

    def test_each_is_tested(self) -> None:
        """
        No alert is without a test here.
        """
        source = Path(__file__).read_text()

        untested = [r.name for r in rules() if f'"{r.name}"' not in source]
        self.assertEqual(untested, [])


class AlertTestCase(ClusterTestCase):
    """
    Watches a cluster.
    """

    def setUp(self) -> None:
        """
        Begin to watch.
        """
        super().setUp()
        self.alerting = Alerting(self.cluster)
        self.watch = self.alerting.watch

    def whose(self, alert: str) -> set[str]:
        """
        Give the members an alert was about.
        """
        return {dict(labels)["instance_id"] for labels in self.alerting.fired[alert]}

    def put(self, key: str, value: bytes = b"", **kw: Any) -> None:
        """
        Write a key as anybody could.
        """
        self.cluster.result(self.cluster.api.put(key, value, **kw))

    def stranger(self) -> str:
        """
        Give the session of somebody who is no member.
        """
        spec = SessionSpec("stranger", ttl=86400, lock_delay=0)
        session: str = self.cluster.result(self.cluster.api.create_session(spec))
        return session


class CalmTests(AlertTestCase):
    """
    When nothing is wrong.
    """

    def test_calm(self) -> None:
        """
        A healthy cluster raises no alert, from its first second on; nor do work
        that comes and goes, and members that leave.
        """
        self.cluster.add("a"), self.cluster.add("b"), self.cluster.add("c")
        self.cluster.put_work(*(f"w{n}" for n in range(9)))
        self.assertEqual(self.watch(15 * MINUTE), set())

        self.cluster.put_work("w9", "w10")
        self.cluster.remove_work("w1")
        self.assertEqual(self.watch(8 * MINUTE), set())

        (leader,) = self.cluster.leaders
        self.cluster.result(leader.shutdown())
        self.alerting.forget(leader)
        self.assertEqual(self.watch(10 * MINUTE), set())

    def test_takeover(self) -> None:
        """
        The death of a leader is one alert: that its process is gone.
        """
        self.add("a", "b", "c")
        self.cluster.put_work(*(f"w{n}" for n in range(9)))
        self.watch(2 * MINUTE)
        (leader,) = self.cluster.leaders
        self.cluster.crash(leader)

        self.assertEqual(self.watch(10 * MINUTE), {"VolthaCoordDown"})

    def test_short_outage(self) -> None:
        """
        An outage that is over in half a minute is no alert.
        """
        members = self.add("a", "b")
        self.cluster.put_work("w1", "w2")
        self.watch(2 * MINUTE)
        for member in members:
            self.cluster.network(member).partition()
        fired = self.watch(30)
        for member in members:
            self.cluster.network(member).heal()

        self.assertEqual(fired | self.watch(10 * MINUTE), set())


class LeadershipTests(AlertTestCase):
    """
    Alerts on who leads.
    """

    def test_no_leader(self) -> None:
        """
        Field report 64: that nobody leads is noticed once it takes longer than
        any takeover, and never before.
        """
        self.cluster.add("a", can_lead=False)
        self.cluster.add("b", can_lead=False)
        self.assertEqual(self.watch(45), set())

        self.assertIn("VolthaCoordNoLeader", self.watch(MINUTE))

    def test_leader_does_not_lead(self) -> None:
        """
        A leader key that a stranger holds is noticed.
        """
        self.put(self.cluster.keys.leader, b"who?", acquire=self.stranger())
        self.cluster.add("a"), self.cluster.add("b")

        self.assertEqual(self.watch(4 * MINUTE), {"VolthaCoordLeaderDoesNotLead"})

    def test_two_leaders(self) -> None:
        """
        Two that say they lead, scrape after scrape, are noticed; leadership that
        passes on between two scrapes is not.
        """
        (rule,) = (r for r in rules() if r.name == "VolthaCoordTwoLeaders")
        self.assertGreater(rule.seconds, 2 * INTERVAL)
        samples = Samples()

        def scrape(at: float, name: str, leads: float) -> None:
            told = GaugeMetricFamily(
                "voltha_coord_is_leader", "", labels=["prefix", "instance_id"]
            )
            told.add_metric(["p", name], leads)
            samples.scrape(at, name, [told])

        scrape(0, "a", 1)
        scrape(0, "b", 0)
        self.assertEqual(rule.expression.at(samples, 0), {})
        scrape(15, "b", 1)
        self.assertEqual(rule.expression.at(samples, 15), {(("prefix", "p"),): 2})

    def test_flapping(self) -> None:
        """
        Field reports 23, 50: leadership that goes on changing is noticed.
        """
        self.add("a", "b")
        self.watch(MINUTE)
        for _ in range(6):
            (leader,) = self.cluster.leaders
            leader.give_up_leadership("on-purpose")
            fired = self.watch(MINUTE)

        self.assertEqual(fired, {"VolthaCoordLeaderFlapping"})

    def test_token_went_back(self) -> None:
        """
        A Consul that comes back empty is noticed by the token of the next term.
        """
        self.add("a", "b")
        self.cluster.put_work(*(f"w{n}" for n in range(30)))
        self.watch(MINUTE)
        (leader,) = self.cluster.leaders
        leader.give_up_leadership("to have a higher token")
        self.watch(MINUTE)

        self.cluster.consul.empty()

        self.assertIn("VolthaCoordFencingTokenWentBack", self.watch(3 * MINUTE))


class ConsulTests(AlertTestCase):
    """
    Alerts on Consul, and on the way to it.
    """

    def test_unreachable(self) -> None:
        """
        An outage of Consul is one alert, however many members it cuts off.
        """
        for member in self.add("a", "b"):
            self.cluster.network(member).refuses = True

        self.assertEqual(self.watch(4 * MINUTE), {"VolthaCoordConsulUnreachable"})

    def test_cut_off(self) -> None:
        """
        One member that is cut off is noticed as such.
        """
        _, b = self.add("a", "b")
        self.cluster.put_work("w1", "w2")
        self.watch(MINUTE)
        self.cluster.network(b).partition()

        self.assertEqual(self.watch(8 * MINUTE), {"VolthaCoordMemberCutOff"})
        self.assertEqual(self.whose("VolthaCoordMemberCutOff"), {"b"})

    def test_not_ready(self) -> None:
        """
        A double of an instance id is noticed: Consul answers, and it is no
        member.
        """
        self.add("a", "b")
        self.put(self.cluster.keys.member("c"), b"{}", acquire=self.stranger())
        self.cluster.add("c")

        self.assertEqual(self.watch(5 * MINUTE), {"VolthaCoordNotReady"})
        self.assertEqual(self.whose("VolthaCoordNotReady"), {"c"})

    def test_denied(self) -> None:
        """
        A token that may not do all it should is noticed.
        """
        self.add("a", "b")
        self.cluster.put_work("w1", "w2")
        self.watch(MINUTE)
        self.cluster.consul.deny = lambda resource, name, access, token: (
            resource == "key" and name.startswith(self.cluster.keys.assignments)
        )

        self.assertIn("VolthaCoordAccessDenied", self.watch(10 * MINUTE))

    def test_lease_nearly_over(self) -> None:
        """
        Answers that come late again and again are noticed before anything ends.
        """
        a, _ = self.add("a", "b")
        self.watch(MINUTE)
        network = self.cluster.network(a)
        fired = set()
        for _ in range(5):
            network.partition()
            self.cluster.until(lambda: a.lease.remaining < 0.2)
            network.heal()
            fired |= self.watch(MINUTE)

        self.assertEqual(fired, {"VolthaCoordLeaseNearlyOver"})

    def test_interrupted(self) -> None:
        """
        A lease that is lost again and again is noticed.
        """
        a, _ = self.add("a", "b")
        self.watch(MINUTE)
        fired = set()
        for _ in range(5):
            self.cluster.network(a).partition()
            self.cluster.advance(4)
            self.cluster.network(a).heal()
            fired |= self.watch(MINUTE)

        self.assertIn("VolthaCoordLeaseLost", fired)
        self.assertEqual(self.whose("VolthaCoordLeaseLost"), {"a"})

    def test_slow(self) -> None:
        """
        A Consul that has become slow is noticed while nothing has happened yet.
        """
        a, _ = self.add("a", "b")
        self.watch(MINUTE)
        self.cluster.network(a).latency = lambda request: (
            0.6 if request.lane is Lane.SESSION else 0.0
        )

        self.assertEqual(self.watch(8 * MINUTE), {"VolthaCoordConsulSlow"})
        self.assertEqual(self.whose("VolthaCoordConsulSlow"), {"a"})

    def test_death_noticed_late(self) -> None:
        """
        A member without a liveness check is noticed, if it stays so.
        """
        self.add("a", settings=evolve(PATIENT, failure_detection=0.0))
        self.assertEqual(self.watch(30 * MINUTE), set())

        self.assertEqual(self.watch(HOUR), {"VolthaCoordDeathNoticedLate"})


class WorkTests(AlertTestCase):
    """
    Alerts on the work.
    """

    def test_emergency(self) -> None:
        """
        Field report 81: an emergency is noticed at once, and over when it is.
        """
        a, _ = self.add("a", "b", settings=Settings(isolation="keep"))
        self.cluster.put_work("w1", "w2")
        self.watch(MINUTE)
        self.cluster.network(a).partition()
        self.assertIn("VolthaCoordEmergency", self.watch(45))
        self.assertEqual(self.whose("VolthaCoordEmergency"), {"a"})

        self.cluster.network(a).heal()
        self.watch(MINUTE)
        self.assertEqual(self.watch(5 * MINUTE), set())

    def test_failing(self) -> None:
        """
        Items that cannot be started are noticed, and that they run nowhere.
        """
        runner = StringRunner()
        runner.starts["w1"] = ZeroDivisionError("on purpose")
        self.add("a", runner=runner)
        self.cluster.put_work("w1", "w2")

        fired = self.watch(7 * MINUTE)

        self.assertEqual(fired, {"VolthaCoordItemsFailing", "VolthaCoordWorkMissing"})

    def test_unplaced(self) -> None:
        """
        Items without a place are noticed.
        """
        self.add("a")
        self.put(self.cluster.keys.owner("w1"), b"whatever")
        self.cluster.put_work("w1", "w2")
        fired = set()
        for number in range(30):
            # Such a record is cleared, unless it is another one meanwhile.
            self.put(self.cluster.keys.owner("w1"), b"whatever %d" % number)
            fired |= self.watch(INTERVAL)

        self.assertIn("VolthaCoordItemsUnplaced", fired)

    def test_stopping(self) -> None:
        """
        Items that do not stop are noticed, and members that wait for them (field report
        128).
        """
        runner = StringRunner()
        runner.stops["w1"] = runner.stops["w2"] = Deferred()
        self.add("a", runner=runner)
        self.cluster.put_work("w1", "w2")
        self.cluster.advance(10)
        self.cluster.add("b")

        fired = self.watch(8 * MINUTE)

        self.assertEqual(
            fired,
            {"VolthaCoordItemsStopping", "VolthaCoordItemsNotTaken"},
        )
        self.assertEqual(self.whose("VolthaCoordItemsStopping"), {"a"})
        self.assertEqual(self.whose("VolthaCoordItemsNotTaken"), {"b"})

    def test_stuck(self) -> None:
        """
        Items that have not stopped at the end of the lease are noticed at once.
        """
        runner = StringRunner()
        runner.stops["w1"] = Deferred()
        self.add("a", "b", runner=runner)
        self.cluster.put_work("w1", "w2")
        self.watch(MINUTE)
        for member in self.cluster.awake:
            self.cluster.network(member).partition()

        self.assertIn("VolthaCoordWorkStuck", self.watch(2 * INTERVAL))
        self.assertEqual(len(self.whose("VolthaCoordWorkStuck")), 1)

    def test_restless(self) -> None:
        """
        Work that moves to and fro is noticed.
        """
        self.add(
            "a",
            "b",
            leader_class=lambda coordinator: Leader(coordinator, ToAndFro()),
        )
        self.cluster.put_work("w1", "w2")

        self.assertIn("VolthaCoordRestless", self.watch(5 * MINUTE))


class LeaderTests(AlertTestCase):
    """
    Alerts on what the leader does.
    """

    def test_failing(self) -> None:
        """
        A leader that cannot plan is noticed.
        """
        planner = ToAndFro()
        self.add(
            "a", "b", leader_class=lambda coordinator: Leader(coordinator, planner)
        )
        self.watch(MINUTE)
        planner.fails = True

        self.assertIn("VolthaCoordPassesFailing", self.watch(4 * MINUTE))

    def test_no_pass(self) -> None:
        """
        A leader that cannot read the cluster is noticed.
        """
        (a,) = self.add("a")
        self.watch(MINUTE)

        def is_look(request: Request) -> bool:
            return any(op.verb == "get-tree" for op in operations(request))

        self.cluster.network(a).loses_request = is_look

        self.assertIn("VolthaCoordNoPass", self.watch(4 * MINUTE))

    def test_frozen(self) -> None:
        """
        A freeze that somebody forgot is noticed, and nothing else about it.
        """
        self.add("a", settings=PATIENT)
        self.put(self.cluster.keys.freeze)
        self.cluster.put_work("w1")
        self.assertEqual(self.watch(HOUR), set())

        self.assertEqual(self.watch(2 * HOUR), {"VolthaCoordFrozen"})

    def test_foreign_keys(self) -> None:
        """
        Keys that are nobody's are noticed.
        """
        self.add("a", settings=PATIENT)
        self.put(self.cluster.keys.work + "x/y")

        self.assertEqual(self.watch(HOUR), {"VolthaCoordForeignKeys"})


@implementer(IPlanner)
class ToAndFro:
    """
    A planner that moves every item to another member each time, or fails.
    """

    fails = False

    def plan(self, state: ClusterState) -> Plan:
        """
        Plan.
        """
        if self.fails:
            raise ZeroDivisionError("on purpose")
        first, *others = sorted(state.members)
        operations: list[Operation] = []
        placed = {w: m for m, works in state.assignments.items() for w in works}
        for work in state.work:
            source = placed.get(work)
            target = others[0] if source == first and others else first
            if source is None:
                operations.append(Assign(work, target))
            elif source != target:
                operations.append(Move(work, source, target))
        return Plan(tuple(operations))
