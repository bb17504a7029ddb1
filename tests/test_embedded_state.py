"""
Tests of the embedded Consul's state: levers, agents, determinism, size.
"""

from __future__ import annotations

import time

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.embedded.dispatch import RPC_HOLD_SECONDS
from voltha_coord.embedded.kv import TOMBSTONE_SECONDS
from voltha_coord.embedded.registry import (
    DRIFT_SECONDS,
    REAP_INTERVAL_SECONDS,
    REAP_MINIMUM_SECONDS,
)
from voltha_coord.errors import ConsulUnavailable

from .support.consul_on_clock import Embedded


class SessionLeverTests(SynchronousTestCase):
    """
    What may end a session.
    """

    def setUp(self) -> None:
        """
        Make a Consul with a session that holds a key.
        """
        self.consul = Embedded()
        self.consul.service()
        self.session = self.consul.session(
            ServiceChecks=[{"ID": "check"}], Behavior="delete", LockDelay="2s"
        )
        self.consul.ask("PUT", "kv/a", b"v", acquire=self.session)

    def test_destroy(self) -> None:
        """
        A session that is destroyed takes its keys along and leaves a
        lock-delay; destroying it again does nothing.
        """
        self.assertTrue(self.consul.state.destroy_session(self.session))
        self.assertFalse(self.consul.state.destroy_session(self.session))

        self.assertEqual(self.consul.ask("GET", "kv/a").status, 404)
        self.assertTrue(self.consul.state.kv.delayed("a"))
        self.consul.clock.advance(2)
        self.assertFalse(self.consul.state.kv.delayed("a"))

    def test_lock_delay_is_capped(self) -> None:
        """
        No lock-delay is longer than a minute.
        """
        session = self.consul.session(LockDelay="90s")
        self.consul.ask("PUT", "kv/b", b"v", acquire=session)
        self.consul.state.destroy_session(session)

        self.consul.clock.advance(59)
        self.assertTrue(self.consul.state.kv.delayed("b"))
        self.consul.clock.advance(1)
        self.assertFalse(self.consul.state.kv.delayed("b"))

    def test_lapse(self) -> None:
        """
        A check that lapses ends its session in the same entry of the log; a
        pass that comes late is answered 200 and brings nothing back.
        """
        index = self.consul.state.index
        self.consul.state.lapse_check("check")
        self.assertEqual(self.consul.state.index, index + 1)
        answer = self.consul.ask("PUT", "agent/check/pass/check")

        self.assertEqual(answer.status, 200)
        self.assertEqual(self.consul.check_status(), "passing")
        self.assertFalse(self.consul.alive(self.session))

    def test_check_removed_from_the_catalog_alone(self) -> None:
        """
        A check that is removed from the catalog ends its session; passes go on
        being answered 200, and the agent puts it back in its time.
        """
        self.consul.state.remove_check("check")
        for _ in range(30):
            self.consul.clock.advance(2)
            answer = self.consul.ask("PUT", "agent/check/pass/check")
            self.assertEqual(answer.status, 200)
            if self.consul.clock.seconds() < DRIFT_SECONDS[0]:
                self.assertIsNone(self.consul.check_status())
        for _ in range(17):
            self.consul.clock.advance(2)
            self.consul.ask("PUT", "agent/check/pass/check")

        self.assertEqual(self.consul.check_status(), "passing")
        self.assertFalse(self.consul.alive(self.session))

    def test_registering_again_restores_a_removed_check(self) -> None:
        """
        Registering again puts a check that was removed from the catalog alone
        back at once.
        """
        self.consul.state.remove_check("check")
        self.consul.service()

        self.assertEqual(self.consul.check_status(), "passing")

    def test_node_deregistered(self) -> None:
        """
        A node that is taken out takes its services, checks and sessions along.
        """
        self.consul.state.deregister_node("node-1")

        self.assertFalse(self.consul.alive(self.session))
        self.assertEqual(self.consul.json("GET", "catalog/nodes"), [])
        answer = self.consul.ask("PUT", "session/create", {"NodeChecks": []})
        self.assertEqual(answer.body, b"Missing node registration")

    def test_node_is_put_back(self) -> None:
        """
        What is registered next puts the node back at once, as in the real one;
        that it is healthy only gossip says.
        """
        self.consul.state.deregister_node("node-1")
        self.consul.service()

        answer = self.consul.ask("PUT", "session/create", {"NodeChecks": []})
        healthy = self.consul.ask("PUT", "session/create", {})

        self.assertEqual(answer.status, 200)
        self.assertEqual(healthy.body, b"Missing check 'serfHealth' registration")

    def test_node_failed(self) -> None:
        """
        A node that gossip finds dead ends the sessions bound to serfHealth,
        and no other.
        """
        bound = self.consul.session(NodeChecks=["serfHealth"])
        self.consul.state.fail_node("node-1")

        self.assertFalse(self.consul.alive(bound))
        self.assertTrue(self.consul.alive(self.session))

    def test_other_node(self) -> None:
        """
        Agents of one cluster share keys, and have each their checks.
        """
        other = self.consul.state.agent("node-2")
        answer = self.consul.ask("GET", "kv/a", agent=other)
        unknown = self.consul.ask("PUT", "agent/check/pass/check", agent=other)
        self.consul.state.deregister_node("node-2")

        self.assertEqual((answer.status, unknown.status), (200, 500))
        self.assertTrue(self.consul.alive(self.session))
        self.assertIs(self.consul.state.agent("node-2"), other)


class LeaderTests(SynchronousTestCase):
    """
    Servers without a leader.
    """

    def setUp(self) -> None:
        """
        Make a Consul with a session.
        """
        self.consul = Embedded()
        self.session = self.consul.session()

    def test_requests_are_held_and_then_refused(self) -> None:
        """
        Without a leader a request is held, then refused; a stale read is
        answered, and says so.
        """
        self.consul.state.lose_leader()
        write = self.consul.send("PUT", "kv/a", b"v")
        stale = self.consul.ask("GET", "kv/a", stale=True)
        self.consul.clock.advance(RPC_HOLD_SECONDS - 0.1)
        self.assertNoResult(write)
        self.consul.clock.advance(0.2)
        refused = self.successResultOf(write)

        self.assertEqual((refused.status, refused.body), (500, b"No cluster leader"))
        self.assertEqual(stale.headers["x-consul-knownleader"], "false")
        self.assertEqual(self.consul.json("GET", "status/leader", stale=True), "")

    def test_requests_that_are_held_go_on(self) -> None:
        """
        A request that is held is done when there is a leader in time.
        """
        self.consul.state.lose_leader(3.0)
        write = self.consul.send("PUT", "kv/a", b"v")
        self.consul.clock.advance(2.9)
        self.assertNoResult(write)
        self.consul.clock.advance(0.2)

        self.assertEqual(self.successResultOf(write).body, b"true")
        self.assertEqual(self.consul.ask("GET", "kv/a", raw=True).body, b"v")

    def test_session_timers_start_anew(self) -> None:
        """
        No TTL runs without a leader, and a new one gives each its full time.
        """
        self.consul.clock.advance(19)
        self.consul.state.lose_leader()
        self.consul.clock.advance(100)
        self.assertTrue(self.consul.alive(self.session))
        self.consul.state.elect_leader()
        self.consul.clock.advance(19.9)
        self.assertTrue(self.consul.alive(self.session))
        self.consul.clock.advance(0.2)
        self.assertFalse(self.consul.alive(self.session))

    def test_lapsed_check_is_told_later(self) -> None:
        """
        A check that lapses without a leader ends its session when there is
        one.
        """
        self.consul.service()
        bound = self.consul.session(ServiceChecks=[{"ID": "check"}])
        self.consul.state.lose_leader()
        self.consul.clock.advance(4)
        self.assertTrue(self.consul.alive(bound))
        self.consul.state.elect_leader()

        self.assertFalse(self.consul.alive(bound))

    def test_consistent_watch_is_refused_on_waking(self) -> None:
        """
        A consistent blocking query that wakes without a leader is refused.
        """
        self.consul.ask("PUT", "kv/a", b"v", acquire=self.session)
        watch = self.consul.send(
            "GET", "kv/a", index=self.consul.state.index, consistent=True
        )
        self.consul.state.lose_leader()
        self.consul.state.destroy_session(self.session)
        self.consul.clock.advance(0)

        self.assertEqual(self.successResultOf(watch).status, 500)


class DisasterTests(SynchronousTestCase):
    """
    Servers that are restarted, restored, emptied.
    """

    def setUp(self) -> None:
        """
        Make a Consul with a session that holds a key.
        """
        self.consul = Embedded()
        self.session = self.consul.session(LockDelay="15s")
        self.consul.ask("PUT", "kv/a", b"v", acquire=self.session)

    def test_restart(self) -> None:
        """
        A restart keeps sessions and keys, loses lock-delays, and breaks
        connections.
        """
        other = self.consul.session(LockDelay="15s")
        self.consul.ask("PUT", "kv/b", b"v", acquire=other)
        self.consul.state.destroy_session(other)
        watch = self.consul.send("GET", "kv/a", index=self.consul.state.index)
        self.consul.state.restart()
        self.consul.clock.advance(0)

        self.failureResultOf(watch, ConsulUnavailable)
        self.assertTrue(self.consul.alive(self.session))
        taken = self.consul.ask("PUT", "kv/b", b"v", acquire=self.session)
        self.assertEqual(taken.body, b"true")

    def test_restore(self) -> None:
        """
        Restoring a snapshot brings back what was, and answers who waits; the
        indexes of what is read go back, those of new writes do not.
        """
        snapshot = self.consul.state.snapshot()
        self.consul.ask("PUT", "kv/a", b"later")
        late = self.consul.session()
        index = int(self.consul.ask("GET", "kv/a").headers["x-consul-index"])
        watch = self.consul.send("GET", "kv/a", index=index)
        self.consul.state.restore(snapshot)
        self.consul.clock.advance(0)
        after = self.consul.ask("GET", "kv/a")
        self.consul.ask("PUT", "kv/b", b"v")
        written = self.consul.ask("GET", "kv/b")

        self.assertEqual(self.successResultOf(watch).status, 200)
        self.assertEqual(self.consul.agent.waiting, 0)
        self.assertLess(int(after.headers["x-consul-index"]), index)
        self.assertGreater(int(written.headers["x-consul-index"]), index)
        self.assertTrue(self.consul.alive(self.session))
        self.assertFalse(self.consul.alive(late))

    def test_restored_from_before_a_node(self) -> None:
        """
        A node that joined after the snapshot has no gossip check until the
        servers look whom they know, within a minute: so long no session can rest
        on it.  (With 1.8.7 that took 57 s.)
        """
        snapshot = self.consul.state.snapshot()
        late = self.consul.state.agent("late")
        state = self.consul.state
        state.restore(snapshot)
        late.sync()
        self.consul.clock.advance(59)
        before = ("late", "serfHealth") in state.catalog.checks
        self.consul.clock.advance(2)

        self.assertFalse(before)
        self.assertEqual(state.catalog.checks["late", "serfHealth"].status, "passing")

    def test_restore_of_the_log(self) -> None:
        """
        With the log gone back as well, indexes come a second time.
        """
        snapshot = self.consul.state.snapshot()
        self.consul.ask("PUT", "kv/b", b"first")
        index = self.consul.ask("GET", "kv/b").headers["x-consul-index"]
        self.consul.state.restore(snapshot, rewind=True)
        self.consul.ask("PUT", "kv/b", b"second")

        again = self.consul.ask("GET", "kv/b").headers["x-consul-index"]
        self.assertEqual(again, index)

    def test_restored_session_expires(self) -> None:
        """
        A session that was restored has its full time, and then is over.
        """
        snapshot = self.consul.state.snapshot()
        self.consul.clock.advance(15)
        self.consul.state.restore(snapshot)
        self.consul.clock.advance(19.9)
        self.assertTrue(self.consul.alive(self.session))
        self.consul.clock.advance(0.2)
        self.assertFalse(self.consul.alive(self.session))

    def test_empty(self) -> None:
        """
        Emptied, it has no key and no session, and small indexes; what is
        registered with the agents is in the catalog again.
        """
        self.consul.service()
        for n in range(50):
            self.consul.ask("PUT", f"kv/k{n}", b"v")
        before = self.consul.state.index
        self.consul.state.empty()

        self.assertLess(self.consul.state.index, before)
        self.assertEqual(self.consul.ask("GET", "kv/a").status, 404)
        self.assertFalse(self.consul.alive(self.session))
        self.assertEqual(self.consul.check_status(), "passing")
        self.consul.session(ServiceChecks=[{"ID": "check"}])


class AgentTests(SynchronousTestCase):
    """
    What may happen to an agent.
    """

    def setUp(self) -> None:
        """
        Make a Consul with a service and a session bound to its check.
        """
        self.consul = Embedded()
        self.agent = self.consul.agent
        self.consul.service(DeregisterCriticalServiceAfter="1m")
        self.session = self.consul.session(ServiceChecks=[{"ID": "check"}])

    def test_killed(self) -> None:
        """
        A killed agent answers nothing and flips no check: its sessions last
        until their TTL is over.
        """
        watch = self.consul.send("GET", "kv/a", index=1000)
        self.agent.kill()
        self.consul.clock.advance(0)
        self.failureResultOf(watch, ConsulUnavailable)
        self.failureResultOf(self.consul.send("GET", "kv/a"), ConsulUnavailable)

        self.consul.clock.advance(19.9)
        self.assertTrue(self.consul.alive(self.session))
        self.consul.clock.advance(0.2)
        self.assertFalse(self.consul.alive(self.session))

    def test_started_again(self) -> None:
        """
        An agent that is started again has its checks: passing if their time is
        not over, critical if it is.
        """
        self.agent.kill()
        self.consul.clock.advance(1)
        self.agent.start()
        self.assertEqual(self.consul.check_status(), "passing")
        self.consul.clock.advance(1.9)
        self.assertTrue(self.consul.alive(self.session))
        self.agent.kill()
        self.consul.clock.advance(5)
        self.agent.start()

        self.assertEqual(self.consul.check_status(), "critical")
        self.assertFalse(self.consul.alive(self.session))

    def test_left(self) -> None:
        """
        An agent that leaves takes its node along.
        """
        self.agent.leave()

        self.assertFalse(self.consul.alive(self.session))
        self.assertEqual(self.consul.state.catalog.nodes, {})

    def test_cut_off(self) -> None:
        """
        An agent that is cut off answers passes and no reads; the lapse of a
        check is told when it is back.
        """
        self.agent.cut_off()
        passed = self.consul.ask("PUT", "agent/check/pass/check")
        read = self.consul.send("GET", "kv/a")
        self.consul.clock.advance(RPC_HOLD_SECONDS)
        refused = self.successResultOf(read)
        self.assertTrue(self.consul.alive(self.session))
        self.agent.reconnect()

        self.assertEqual(passed.status, 200)
        self.assertEqual(
            (refused.status, refused.body), (500, b"No known Consul servers")
        )
        self.assertFalse(self.consul.alive(self.session))

    def test_cut_off_for_a_moment(self) -> None:
        """
        A request that is held while cut off goes on when the agent is back.
        """
        self.agent.cut_off()
        read = self.consul.send("GET", "kv/a")
        self.consul.clock.advance(1)
        self.agent.reconnect()
        self.consul.clock.advance(0)

        self.assertEqual(self.successResultOf(read).status, 404)

    def test_reloaded(self) -> None:
        """
        A reload drops what was registered over HTTP.
        """
        self.agent.reload()

        self.assertEqual(self.consul.json("GET", "agent/checks"), {})
        self.assertFalse(self.consul.alive(self.session))
        self.assertEqual(self.consul.ask("PUT", "agent/check/pass/check").status, 500)

    def test_reaped(self) -> None:
        """
        A service whose check stays critical is removed, a while after the time
        it asked for.
        """
        self.consul.clock.advance(3)
        self.consul.clock.advance(REAP_MINIMUM_SECONDS - 1)
        self.assertEqual(self.consul.check_status(), "critical")
        self.consul.clock.advance(REAP_INTERVAL_SECONDS + 2)

        self.assertIsNone(self.consul.check_status())
        self.assertEqual(self.consul.json("GET", "agent/services"), {})

    def test_not_reaped_when_passed(self) -> None:
        """
        A service that passes again in time is not removed.
        """
        self.consul.clock.advance(4)
        for _ in range(60):
            self.consul.ask("PUT", "agent/check/pass/check")
            self.consul.clock.advance(2)

        self.assertEqual(self.consul.check_status(), "passing")

    def test_sync_delay(self) -> None:
        """
        With a delay, what is registered is in the catalog later: a session
        bound to it is refused until then.
        """
        self.agent.sync_delay = 0.003
        self.consul.service("new")
        early = self.consul.ask(
            "PUT", "session/create", {"ServiceChecks": [{"ID": "new"}]}
        )
        self.consul.clock.advance(0.003)

        self.assertEqual(early.body, b"Missing check 'new' registration")
        self.assertTrue(self.consul.session(ServiceChecks=[{"ID": "new"}]))

    def test_output_of_lapse(self) -> None:
        """
        The output of a lapse repeats what was said last.
        """
        self.consul.ask("PUT", "agent/check/pass/check", note="fine")
        self.consul.clock.advance(3)
        (check,) = self.consul.json("GET", "health/checks/voltha-coord")

        self.assertEqual(
            check["Output"], "TTL expired (last output before timeout follows): fine"
        )

    def test_same_status_is_not_told(self) -> None:
        """
        A pass that changes nothing is no entry of the log.
        """
        index = self.consul.state.index
        self.consul.ask("PUT", "agent/check/pass/check")

        self.assertEqual(self.consul.state.index, index)


class WaitingTests(SynchronousTestCase):
    """
    Blocking queries.
    """

    def test_nothing_is_left(self) -> None:
        """
        A query that is cancelled, answered or ended leaves nothing behind.
        """
        consul = Embedded()
        consul.ask("PUT", "kv/a", b"v")
        index = consul.state.index
        cancelled = consul.send("GET", "kv/a", index=index)
        ended = consul.send("GET", "kv/a", index=index, wait="1s")
        answered = consul.send("GET", "kv/", recurse=True, index=index)
        self.assertEqual(consul.agent.waiting, 3)
        cancelled.cancel()
        self.failureResultOf(cancelled)
        consul.clock.advance(1.1)
        self.successResultOf(ended)
        consul.ask("PUT", "kv/a", b"w")
        self.successResultOf(answered)

        self.assertEqual(consul.agent.waiting, 0)
        self.assertEqual(consul.clock.getDelayedCalls(), [])
        self.assertEqual(consul.state.kv.watch("a").waiting, 0)

    def test_wait_is_clamped(self) -> None:
        """
        No wait is longer than ten minutes and a sixteenth; none given is five.
        """
        consul = Embedded()
        long = consul.send("GET", "kv/a", index=1000, wait="1h")
        default = consul.send("GET", "kv/a", index=1000)
        consul.clock.advance(299)
        self.assertNoResult(default)
        consul.clock.advance(300 / 16 + 1)
        self.successResultOf(default)
        consul.clock.advance(600 * 17 / 16 - consul.clock.seconds())

        self.assertEqual(self.successResultOf(long).status, 404)

    def test_tombstones_are_reaped(self) -> None:
        """
        A quarter of an hour after a delete the index of a listing falls back.
        """
        consul = Embedded()
        for key in ("a/1", "a/2"):
            consul.ask("PUT", f"kv/{key}", b"v")
        consul.ask("DELETE", "kv/a/2")
        deleted = consul.ask("GET", "kv/a/", recurse=True).headers["x-consul-index"]
        consul.clock.advance(TOMBSTONE_SECONDS)
        consul.ask("PUT", "kv/other", b"v")
        consul.ask("DELETE", "kv/other")
        later = consul.ask("GET", "kv/a/", recurse=True).headers["x-consul-index"]

        self.assertLess(int(later), int(deleted))

    def test_deny(self) -> None:
        """
        What a token may not read wakes it and shows nothing: denied and empty
        look alike, but for a single read.
        """
        consul = Embedded()
        consul.ask("PUT", "kv/a/1", b"v")
        consul.state.deny = lambda resource, name, access, token: (
            resource == "key" and access == "read"
        )

        self.assertEqual(consul.ask("GET", "kv/a/", recurse=True).status, 404)
        self.assertEqual(consul.ask("GET", "kv/a/", keys=True).status, 404)
        self.assertEqual(consul.ask("GET", "kv/a/1").status, 403)
        self.assertEqual(consul.ask("PUT", "kv/a/1", b"w").status, 200)


class DeterminismTests(SynchronousTestCase):
    """
    The same seed gives the same run.
    """

    def _history(self, seed: int) -> list[object]:
        consul = Embedded(seed)
        consul.service(DeregisterCriticalServiceAfter="1m")
        sessions = [
            consul.session(ServiceChecks=[{"ID": "check"}], Behavior="delete")
            for _ in range(5)
        ]
        for n, session in enumerate(sessions):
            for key in range(3):
                consul.ask("PUT", f"kv/{key}/{n}", b"v", acquire=session)
        watch = consul.send("GET", "kv/", recurse=True, index=consul.state.index)
        consul.clock.advance(100)
        return [sessions, self.successResultOf(watch), consul.state.snapshot()]

    def test_same_seed(self) -> None:
        """
        Two runs of one seed are equal in every id, index and answer.
        """
        self.assertEqual(self._history(7), self._history(7))

    def test_other_seed(self) -> None:
        """
        Another seed gives other ids.
        """
        self.assertNotEqual(self._history(7)[0], self._history(8)[0])


class SizeTests(SynchronousTestCase):
    """
    Many keys.
    """

    def test_hundred_thousand_keys(self) -> None:
        """
        With 100,000 keys, a write or the listing of a few costs about as much
        as with few keys: a thousand of each take no more than a second.
        """
        consul = Embedded()
        with consul.state.draft() as draft:
            for n in range(100_000):
                draft.set(f"assignments/m{n % 100}/device_group_{n:06}", b"", 0)
        begin = time.process_time()
        for n in range(1000):
            consul.ask("PUT", f"kv/assignments/m{n % 100}/extra_{n}", b"v")
            consul.ask("GET", f"kv/assignments/m{n % 100}/extra_", recurse=True)
            if n % 10 == 0:
                consul.ask("DELETE", f"kv/assignments/m{n % 100}/extra_{n}")
        seconds = time.process_time() - begin

        self.assertEqual(len(consul.state.kv), 100_900)
        self.assertLess(seconds, 1.0)
