"""
Tests for what a status page shows of a member.
"""

from __future__ import annotations

import json

from voltha_coord.settings import Settings
from voltha_coord.testing import FixedMeter

from .support.embedded import ClusterTestCase


class StatusTests(ClusterTestCase):
    """
    ``status()`` and ``refresh_status()``.
    """

    def test_fields(self) -> None:
        """
        Every field of the outer contract is there, and the whole is JSON.
        """
        a = self.cluster.add("a")

        for _ in range(2):
            status = a.status()
            self.assertLessEqual(
                {
                    "instance_id",
                    "role",
                    "is_leader",
                    "leader_id",
                    "fencing_token",
                    "session_id",
                    "lease_remaining",
                    "liveness",
                    "members",
                    "emergency",
                    "workload",
                    "resources",
                    "assigned",
                    "errors",
                    "consul",
                    "app_lease",
                    "version",
                },
                set(status),
            )
            self.assertEqual(
                set(status["consul"]), {"address", "connection", "last_answer_age"}
            )
            self.assertEqual(json.loads(json.dumps(status)), status)
            self.cluster.advance(8)

    def test_leader(self) -> None:
        """
        A leader shows its token, its lease and its work.
        """
        a = self.lead()
        self.cluster.put_work("x", "y")
        self.cluster.advance(6)

        status = self.cluster.result(a.refresh_status())

        self.assertEqual(
            (status["role"], status["is_leader"], status["leader_id"]),
            ("leader", True, "a"),
        )
        self.assertEqual(status["fencing_token"], a.lease.token)
        self.assertEqual(status["workload"], ["x", "y"])
        self.assertEqual(status["assigned"], ["x", "y"])
        self.assertEqual(
            [(m["id"], m["state"], m["items"]) for m in status["members"]],
            [("a", "online", 2)],
        )
        self.assertEqual(status["liveness"], "check")
        self.assertGreater(status["lease_remaining"], 1.5)
        self.assertEqual(status["waiting_for"], None)

    def test_asks_the_deadline(self) -> None:
        """
        Field report 51: with no event in between, the status heeds the deadline
        the very instant it is asked.
        """
        a = self.lead()
        lease = a.session.lease
        assert lease is not None
        self.cluster.network(a).partition()
        clock = self.cluster.process(a).clock

        clock.skip(lease.deadline - 0.001 - clock.seconds())
        self.assertEqual(a.status()["is_leader"], True)
        clock.skip(lease.deadline - clock.seconds())
        status = a.status()

        self.assertEqual(
            (status["is_leader"], status["role"], status["fencing_token"]),
            (False, "candidate", None),
        )
        self.assertEqual(status["lease_remaining"], 0.0)

    def test_cut_off(self) -> None:
        """
        The status is served while Consul is away, and says so.
        """
        a = self.lead()
        self.cluster.result(a.refresh_status())
        self.cluster.network(a).refuses = True
        self.cluster.advance(8)

        status = self.cluster.result(a.refresh_status())

        self.assertEqual(status["consul"]["connection"], "lost")
        self.assertGreater(status["consul"]["last_answer_age"], 1.0)
        self.assertGreater(status["members_age"], 5.0)
        self.assertEqual(len(status["members"]), 1)
        self.assertEqual(
            status["session_id"] is None, status["waiting_for"] is not None
        )

    def test_silence_after_the_session_was_gone(self) -> None:
        """
        A member whose session Consul has ended, and that hears nothing more,
        shows no leader: what it knew says nothing about now.
        """
        a = self.lead()
        b = self.cluster.add("b")
        self.cluster.until(lambda: b.is_ready)
        self.assertEqual(b.status()["leader_id"], "a")

        self.cluster.consul.destroy_session(b.session_id or "")
        self.cluster.until(lambda: not b.lease.remaining)
        self.cluster.network(b).partition()
        self.cluster.until(lambda: b.status()["consul"]["connection"] == "lost")

        self.assertIsNone(b.status()["leader_id"])
        self.assertEqual(a.status()["leader_id"], "a")
        self.cluster.network(b).heal()
        self.cluster.until(lambda: b.is_ready)
        self.assertEqual(b.status()["leader_id"], "a")

    def test_emergency(self) -> None:
        """
        In an emergency the status shows since when, what is to come, what runs
        here because of it, and what would end it; and it is still JSON.
        """
        settings = Settings(isolation="takeover", node_recover_timeout=40.0)
        a = self.lead(settings=settings)
        self.cluster.put_work("x")
        self.cluster.advance(20)
        self.assertIsNone(a.status()["emergency"])
        self.cluster.network(a).partition()
        self.cluster.until(lambda: a.role == "emergency")
        self.cluster.advance(5)

        status = a.status()

        emergency = status["emergency"]
        self.assertEqual(emergency["isolation"], "takeover")
        self.assertAlmostEqual(emergency["since_seconds"], 5.0, delta=0.1)
        self.assertAlmostEqual(emergency["cut_off_seconds"], 15.0, delta=0.1)
        self.assertAlmostEqual(emergency["takes_over_in"], 25.0, delta=0.1)
        self.assertEqual(emergency["extra"], [])
        self.assertEqual(
            (status["role"], status["is_leader"], status["leader_id"]),
            ("emergency", False, None),
        )
        self.assertEqual(
            status["waiting_for"], "contact with Consul, to end an emergency"
        )
        self.assertEqual(status["workload"], ["x"])
        self.assertEqual(json.loads(json.dumps(status)), status)

    def test_waits_for_a_session(self) -> None:
        """
        Before there is a session, that is what it waits for.
        """
        a = self.cluster.add("a")
        self.cluster.network(a).refuses = True
        self.cluster.advance(1)

        self.assertEqual(a.status()["waiting_for"], "a Consul session")

    def test_waits_for_a_leader(self) -> None:
        """
        A member that may not lead, alone, waits for a leader.
        """
        a = self.cluster.add("a", can_lead=False)
        self.cluster.advance(1)

        self.assertEqual(a.status()["waiting_for"], "a leader")

    def test_stray_keys_and_errors(self) -> None:
        """
        What the leader cannot use is counted, and errors are shown.
        """
        a = self.lead()
        for key in ("x/y", "z/"):
            self.cluster.result(self.cluster.api.put(self.cluster.keys.work + key, b""))
        self.cluster.advance(12)

        self.assertGreater(a.status()["stray_keys"], 0)

    def test_resources(self) -> None:
        """
        A member that measures shows what it has and uses, and what is wrong; one
        that does not shows that it does not.
        """
        meter = FixedMeter(cpu=12.3)
        a, b = self.lead(meter=meter), self.cluster.add("b")
        well = a.status()["resources"]
        meter.uses = {"memory": float("nan"), "error": "lost", "throttling": "yes"}
        self.cluster.advance(5)
        ill = a.status()["resources"]

        limits = {"cpu_limit": 400.0, "memory_limit": 8 * 2**30}
        self.assertEqual(
            well,
            {"cpu": 12.3, "memory": 0, "throttling": False, "error": "", **limits},
        )
        self.assertEqual(
            ill,
            {"cpu": None, "memory": None, "throttling": False, "error": "lost"}
            | limits,
        )
        self.assertIsNone(b.status()["resources"])

    def test_a_worker_of_ones_own(self) -> None:
        """
        A worker that has nothing but the original's ``my_workload`` is shown.
        """

        class Plain:
            def __init__(self, instance_id: str, coordinator: object) -> None:
                self.my_workload = {"b", "a"}

            def start(self) -> None:
                pass

            def halt(self) -> None:
                pass

        a = self.cluster.add("a", worker_class=Plain)
        self.cluster.until(lambda: a.is_leader)

        status = a.status()

        self.assertEqual((status["workload"], status["assigned"]), (["a", "b"], []))
