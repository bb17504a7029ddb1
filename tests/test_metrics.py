"""
Tests of what a member tells Prometheus.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as read_open_metrics,
)
from prometheus_client.parser import text_string_to_metric_families as read_text
from twisted.internet.defer import Deferred

from voltha_coord import role
from voltha_coord.coordinator import Coordinator
from voltha_coord.tally import MOST_REASONS
from voltha_coord.testing import FixedMeter
from voltha_coord.web.exposing import MemberCollector, exposition, service_registry
from voltha_coord.web.families import PREFIX
from voltha_coord.web.metrics import METRICS, ROLES

from .support.embedded import ClusterTestCase
from .support.working import StringRunner


class MetricsTestCase(ClusterTestCase):
    """
    Scrapes members.
    """

    def scrape(self, *members: Coordinator) -> dict[tuple[Any, ...], float]:
        """
        Give what members tell: values by the metric's name without its prefix,
        and by the values of its own labels.
        """
        registry = CollectorRegistry()
        registry.register(MemberCollector(*members))
        text, _ = exposition(registry, "")
        return {
            (sample.name.removeprefix(PREFIX), *_own(sample.labels)): sample.value
            for family in read_text(text.decode())
            for sample in family.samples
        }

    def chosen(self, member: Coordinator, name: str) -> list[str]:
        """
        Give for which of its words a metric of many is 1; the others are 0.
        """
        values = {
            key[1]: value
            for key, value in self.scrape(member).items()
            if key[0] == name
        }
        self.assertLessEqual(set(values.values()), {0, 1})
        return [word for word, value in values.items() if value]


def _own(labels: Mapping[str, str]) -> list[str]:
    return [v for k, v in labels.items() if k not in ("prefix", "instance_id")]


class TableTests(MetricsTestCase):
    """
    The table of metrics.
    """

    def test_all_are_told(self) -> None:
        """
        Every metric has a sample in a cluster that works, in either form, with
        its prefix and its member.
        """
        a = self.lead(meter=FixedMeter())
        self.cluster.put_work("w1")
        self.cluster.advance(5)
        registry = service_registry(lambda: a)

        for accepted, read in (
            ("", read_text),
            ("application/openmetrics-text; version=1.0.0", read_open_metrics),
        ):
            families = {
                family.name: family
                for family in read(exposition(registry, accepted)[0].decode())
            }
            for metric in METRICS:
                (*_, sample) = families[PREFIX + metric.name].samples
                self.assertEqual(
                    (sample.labels["prefix"], sample.labels["instance_id"]),
                    ("service/voltha", "a"),
                )
                self.assertEqual(families[PREFIX + metric.name].type, metric.kind)

    def test_names(self) -> None:
        """
        No name is taken twice, and each says its unit where it has one.
        """
        names = [metric.name for metric in METRICS]

        self.assertEqual(len(names), len(set(names)))
        for metric in METRICS:
            if {"duration", "age", "remaining"} & set(metric.name.split("_")):
                self.assertTrue(metric.name.endswith("_seconds"), metric.name)

    def test_roles(self) -> None:
        """
        Every role there is is among those that are told.
        """
        constants = {v for k, v in vars(role).items() if k.isupper() and k[0] != "_"}

        self.assertEqual(constants, set(ROLES))

    def test_series_are_bounded(self) -> None:
        """
        However much happens, and whatever reasons an application makes up, a
        member tells no more than so many series.
        """
        a = self.lead()
        self.cluster.advance(5)
        before = len(self.scrape(a))
        for number in range(2 * MOST_REASONS):
            a.give_up_leadership(f"reason-{number}")
            self.cluster.until(lambda: a.is_leader)
        for _ in range(3):
            self.cluster.network(a).partition()
            self.cluster.advance(5)
            self.cluster.network(a).heal()
            self.cluster.until(lambda: a.is_leader)

        self.assertLess(before, 250)
        self.assertLessEqual(len(self.scrape(a)), before + MOST_REASONS)


class ScrapeTests(MetricsTestCase):
    """
    What is told, and when.
    """

    def test_leader(self) -> None:
        """
        A leader tells of its term and of the cluster.
        """
        a = self.lead()
        self.cluster.put_work("w1", "w2", "w3")
        self.cluster.advance(15)

        told = self.scrape(a)

        self.assertEqual(self.chosen(a, "role"), ["leader"])
        self.assertEqual(told["is_leader",], 1)
        self.assertEqual(told["fencing_token",], a.lease.token)
        self.assertEqual((told["terms_begun_total",], told["ready",]), (1, 1))
        self.assertEqual((told["cluster_members",], told["cluster_items",]), (1, 3))
        self.assertEqual(told["items", "running"], 3)
        self.assertEqual((told["items_running",], told["items_assigned",]), (3, 3))
        self.assertEqual(told["operations_total", "assign"], 3)
        self.assertEqual(
            told["passes_total", "made"], told["pass_duration_seconds_count",]
        )
        self.assertLess(told["pass_age_seconds",], 10)
        self.assertGreater(told["lease_remaining_seconds",], 1.5)
        self.assertEqual(told["longest_takeover_seconds",], 48)

    def test_machine(self) -> None:
        """
        What was measured of the machine is told as it was, with its limits;
        nothing where nothing is measured.
        """
        names = ("cpu_percent", "cpu_limit_percent", "memory_bytes", "throttling")
        meter = FixedMeter(cpu=12.3, memory=5)
        a, b = self.lead(meter=meter), self.cluster.add("b")
        self.cluster.advance(5)
        told = self.scrape(a)
        meter.uses["cpu"] = 400.0
        self.cluster.advance(5)

        self.assertEqual([told[name,] for name in names], [12.3, 400.0, 5, 0])
        self.assertEqual(told["memory_limit_bytes",], meter.has["memory_limit"])
        self.assertEqual(self.scrape(a)["throttling",], 1)
        self.assertFalse({(name,) for name in names} & set(self.scrape(b)))

    def test_first_pass(self) -> None:
        """
        A leader that has made no pass yet tells nothing of the cluster, but how
        long it has been at it.
        """
        a = self.cluster.add("a")
        self.cluster.until(lambda: a.is_leader)
        self.cluster.advance(1)

        told = self.scrape(a)

        self.assertNotIn(("cluster_members",), told)
        self.assertAlmostEqual(told["pass_age_seconds",], 1, places=1)

    def test_follower(self) -> None:
        """
        A follower tells of itself, and nothing of the cluster: it does not look.
        """
        self.lead("a")
        (b,) = self.add("b")
        self.cluster.put_work("w1", "w2")
        self.cluster.advance(15)

        told = self.scrape(b)

        self.assertEqual(self.chosen(b, "role"), ["follower"])
        self.assertEqual((told["is_leader",], told["items_running",]), (0, 1))
        names = {key[0] for key in told}
        self.assertEqual([name for name in names if name.startswith("cluster_")], [])
        self.assertEqual(
            {"fencing_token", "pass_age_seconds", "placement_fingerprint"} & names,
            set(),
        )

    def test_asks_the_deadline(self) -> None:
        """
        Field report 51: with no event in between, a leader whose lease is over
        says so at the very instant, and tells nothing of the cluster any more.
        """
        a = self.lead()
        self.cluster.put_work("w1")
        self.cluster.advance(5)
        lease = a.session.lease
        assert lease is not None
        self.cluster.network(a).partition()
        clock = self.cluster.process(a).clock

        clock.skip(lease.deadline - 0.001 - clock.seconds())
        self.assertEqual(self.scrape(a)["is_leader",], 1)
        clock.skip(lease.deadline - clock.seconds())
        told = self.scrape(a)

        self.assertEqual((told["is_leader",], told["lease_remaining_seconds",]), (0, 0))
        self.assertEqual(told["items_running",], 0)
        self.assertEqual(self.chosen(a, "role"), ["candidate"])
        self.assertNotIn(("fencing_token",), told)
        self.assertNotIn(("cluster_members",), told)

    def test_asks_nobody(self) -> None:
        """
        A scrape sends no request, with or without Consul.
        """
        a = self.lead()
        sent = dict(a.tally.requests.outcomes)
        self.scrape(a)
        self.cluster.network(a).partition()
        under_way = self.cluster.left_behind(a)

        self.scrape(a)

        self.assertEqual(a.tally.requests.outcomes, sent)
        self.assertEqual(self.cluster.left_behind(a), under_way)

    def test_before_the_start(self) -> None:
        """
        A member is told of before it has a session, and waits for a leader.
        """
        a = self.cluster.add("a")
        self.cluster.network(a).refuses = True
        self.cluster.advance(4)

        told = self.scrape(a)

        self.assertEqual(told["ready",], 0)
        self.assertEqual(self.chosen(a, "connection"), ["suspended"])
        self.assertAlmostEqual(told["leaderless_for_seconds",], 4, places=1)
        self.assertNotIn(("consul_last_answer_age_seconds",), told)
        self.assertGreater(told["consul_requests_total", "session", "not-connected"], 3)

    def test_outage(self) -> None:
        """
        Field reports 23, 50: an outage is counted by what it ended, and why.
        """
        a = self.lead()
        self.cluster.network(a).partition()
        self.cluster.advance(8)

        told = self.scrape(a)
        self.assertEqual(self.chosen(a, "connection"), ["lost"])
        self.assertEqual(told["leases_ended_total", "check-not-acknowledged"], 1)
        self.assertEqual(told["terms_ended_total", "check-not-acknowledged"], 1)
        self.assertEqual(told["leases_ending_total",], 1)
        self.assertGreater(told["consul_requests_total", "session", "timed-out"], 2)
        self.assertGreater(told["consul_unanswered_requests",], 2)
        self.assertGreater(told["consul_last_answer_age_seconds",], 7)
        self.assertGreater(told["leaderless_for_seconds",], 4)

        self.cluster.network(a).heal()
        self.cluster.until(lambda: a.is_leader, 60)
        told = self.scrape(a)
        self.assertEqual(self.chosen(a, "connection"), ["connected"])
        self.assertEqual(told["consul_reconnects_total",], 1)
        self.assertEqual(told["sessions_begun_total",], 2)
        self.assertEqual(told["sessions_lost_total", "check-not-acknowledged"], 1)
        self.assertEqual(told["leaderless_for_seconds",], 0)
        self.assertGreater(told["leaderless_seconds_total",], 4)

    def test_items(self) -> None:
        """
        Items are told of by their state.
        """
        runner = StringRunner()
        runner.starts["w1"] = Deferred()
        runner.starts["w2"] = ZeroDivisionError("on purpose")
        a = self.lead(runner=runner)
        self.cluster.put_work("w1", "w2", "w3")
        self.cluster.advance(5)

        told = self.scrape(a)

        self.assertEqual(told["items", "starting"], 1)
        self.assertEqual(told["items", "failed"], 1)
        self.assertEqual(told["items", "running"], 1)
        self.assertEqual(told["items", "stopping"], 0)

    def test_fingerprint(self) -> None:
        """
        Field report 131: the same placement has the same number, whoever leads
        and whenever it is looked at; another one another number.
        """
        a, (b,) = self.lead("a"), self.add("b")
        self.cluster.put_work("w1", "w2")
        self.cluster.advance(25)
        first = self.scrape(a)["placement_fingerprint",]
        a.give_up_leadership("on-purpose")
        self.cluster.until(lambda: b.is_leader)
        self.cluster.advance(15)

        self.assertEqual(self.scrape(b)["placement_fingerprint",], first)
        self.cluster.put_work("w3")
        self.cluster.advance(25)
        self.assertNotEqual(self.scrape(b)["placement_fingerprint",], first)

    def test_frozen(self) -> None:
        """
        A leader says that planning is frozen, and counts what it cannot use.
        """
        a = self.lead()
        for key in (self.cluster.keys.freeze, self.cluster.keys.work + "x/y"):
            self.cluster.result(self.cluster.api.put(key, b""))
        self.cluster.advance(12)

        told = self.scrape(a)

        self.assertEqual(told["planning_frozen",], 1)
        self.assertEqual(told["cluster_stray_keys",], 1)
        self.assertGreater(told["passes_total", "frozen"], 0)

    def test_parts_of_ones_own(self) -> None:
        """
        A leader and a worker that have only what the interfaces demand are told
        of as far as they go.
        """

        class Plain:
            def __init__(self, *args: object) -> None:
                self.my_workload = {"w1"}

            def start(self) -> None:
                pass

            def halt(self) -> None:
                pass

        a = self.cluster.add("a", worker_class=Plain, leader_class=Plain)
        self.cluster.until(lambda: a.is_leader)

        told = self.scrape(a)

        self.assertEqual((told["items_running",], told["items_assigned",]), (1, 0))
        self.assertNotIn(("cluster_members",), told)
        self.assertNotIn(("pass_age_seconds",), told)

    def test_stopped(self) -> None:
        """
        A member that has shut down is told of until it is gone.
        """
        a = self.lead()
        self.cluster.result(a.shutdown())

        told = self.scrape(a)

        self.assertEqual(self.chosen(a, "role"), ["stopped"])
        self.assertEqual(told["terms_ended_total", "shutting-down"], 1)
        self.assertEqual((told["ready",], told["lease_remaining_seconds",]), (0, 0))


class RegistryTests(MetricsTestCase):
    """
    Whose metrics a registry holds.
    """

    def test_service(self) -> None:
        """
        The registry of a service has its process, and its member while there is
        one.
        """
        members: list[Coordinator] = []
        registry = service_registry(lambda: members[0] if members else None)

        without, _ = exposition(registry, "")
        members.append(self.lead())
        text, _ = exposition(registry, "")

        self.assertIn(b"process_open_fds ", without)
        self.assertNotIn(b"voltha_coord_ready{", without)
        self.assertIn(b"voltha_coord_ready{", text)

    def test_several_in_one(self) -> None:
        """
        The Coordinators of one process are told apart in one registry.
        """
        a, (b,) = self.lead("a"), self.add("b")
        registry = CollectorRegistry()
        registry.register(MemberCollector(a, b))

        values = {
            name: registry.get_sample_value(
                "voltha_coord_is_leader",
                {"prefix": "service/voltha", "instance_id": name},
            )
            for name in ("a", "b")
        }

        self.assertEqual(values, {"a": 1, "b": 0})

    def test_one_each(self) -> None:
        """
        Several registries in one process do not know of each other; one
        registry refuses a second collector, which it could not tell apart.
        """
        a, (b,) = self.lead("a"), self.add("b")
        registries = service_registry(lambda: a), service_registry(lambda: b)

        texts = [exposition(registry, "")[0] for registry in registries]

        self.assertEqual([t.count(b"voltha_coord_ready{") for t in texts], [1, 1])
        self.assertIn(b'instance_id="a"', texts[0])
        self.assertNotIn(b'instance_id="b"', texts[0])
        with self.assertRaises(ValueError):
            registries[0].register(MemberCollector(b))
