"""
Tests for the member record: whatever happens to it is mended.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.support.keeping import Bench
from voltha_coord.consul.model import Entry, Op, SessionSpec
from voltha_coord.consul.transport import Response
from voltha_coord.held import release
from voltha_coord.membership import MemberKeeper
from voltha_coord.settings import Settings

KEY = "service/voltha/members/m1"
SETTINGS = Settings()


class Base(SynchronousTestCase):
    """
    A bench with a session and a member record.
    """

    def setUp(self) -> None:
        """
        Make them.
        """
        self.use(SETTINGS)

    def use(self, settings: Settings) -> None:
        """
        Make a bench, a session and a member record.
        """
        self.bench = Bench()
        self.value = b"v1"
        self.changes: list[bool] = []
        self.session = self.bench.keeper(
            settings, held_keys=(KEY,), changed=lambda: self.member.wake()
        )
        self.member = MemberKeeper(
            self.bench.clock,
            self.bench.api,
            settings,
            self.session,
            key=KEY,
            value=lambda: self.value,
            changed=lambda: self.changes.append(self.member.joined),
            random=self.bench.random,
            log=self.bench.log,
        )

    def begin(self) -> str:
        """
        Start, and give the session that joined.
        """
        self.session.start()
        self.member.start()
        self.bench.until(lambda: self.member.joined)
        assert self.session.session_id is not None
        return self.session.session_id

    @property
    def entry(self) -> Entry | None:
        """
        The member key as it is in Consul.
        """
        return self.bench.consul_entry(KEY)

    def assert_mended(self, seconds: float = 1.0) -> None:
        """
        Assert that the record becomes what it is to be in so many seconds.
        """
        self.bench.until(self.as_it_should_be, seconds)
        self.assertTrue(self.member.joined)

    def as_it_should_be(self) -> bool:
        """
        Whether the record is as it is to be.
        """
        entry = self.entry
        return (
            entry is not None
            and entry.session == self.session.session_id
            and entry.value == self.value
        )

    def stranger(self, hold: bool = True) -> str:
        """
        Make a session of somebody else's, that holds our key.
        """
        other: str = self.bench.result(
            self.bench.api.create_session(SessionSpec("other", 15.0, 1.0))
        )
        if hold:
            self.bench.result(self.bench.api.txn([Op.lock(KEY, b"other", other)]))
        return other

    def end(self) -> None:
        """
        Stop both, and see that nothing is left.
        """
        self.bench.result(self.member.stop())
        self.bench.result(self.session.stop())
        self.assertTrue(self.bench.silent)


class MakingTests(Base):
    """
    How the record comes about.
    """

    def test_is_acquired_by_the_session(self) -> None:
        """
        The session holds it, with the value; that is told once.
        """
        session = self.begin()

        assert self.entry is not None
        self.assertEqual((self.entry.session, self.entry.value), (session, b"v1"))
        self.assertEqual(self.changes, [True])
        self.assertEqual(len(self.bench.log.of("created-membership-record")), 1)
        self.end()

    def test_idle_costs_two_requests_a_minute(self) -> None:
        """
        In a quiet minute there is the watch, and nothing is written.
        """
        self.begin()
        self.bench.advance(1.0)
        index = self.bench.consul.index

        counted = self.bench.rate()

        self.assertLessEqual(counted["kv/service/voltha"], 2)
        self.assertEqual(counted["txn"], 0)
        self.assertEqual(self.bench.consul.index, index)
        self.end()

    def test_another_value_is_written(self) -> None:
        """
        Woken, it writes what the record is to say now (a weight).
        """
        self.begin()
        self.value = b"v2"

        self.member.wake()

        self.assert_mended(0.1)
        self.assertEqual(self.changes, [True])

    def test_lost_reply_of_acquire(self) -> None:
        """
        A record whose acquisition got no answer is found to be ours (report
        66).
        """
        self.bench.network.loses_reply = lambda request: "txn" in request.path
        self.session.start()
        self.member.start()

        self.bench.until(lambda: self.member.joined, SETTINGS.renew_timeout + 0.1)

        self.assertEqual(len(self.bench.requests("txn")), 1)

    def test_denied(self) -> None:
        """
        A record that may not be written is said, once a step, at a bounded
        rate; once it may, it is.
        """
        self.bench.consul.deny = lambda resource, name, access, token: (
            resource == "key" and access == "write"
        )
        self.session.start()
        self.member.start()
        self.bench.advance(20.0)
        counted = self.bench.rate()
        self.assertLessEqual(counted["txn"], 24)
        said = self.bench.log.of("membership-record-not-written", "error")
        self.assertEqual(len(said), 7)
        self.bench.consul.deny = lambda resource, name, access, token: False

        self.assert_mended(5.1)

    def test_unreadable(self) -> None:
        """
        While the key cannot be read it is not written, and that is said.
        """
        self.bench.hook = lambda request: (
            Response(403, {}, b"Permission denied")
            if request.path.endswith(KEY)
            else None
        )
        self.session.start()
        self.member.start()
        self.bench.advance(60.0)

        self.assertEqual(self.bench.requests("txn"), [])
        self.assertTrue(self.bench.log.of("watch-failed", "warning"))
        self.bench.hook = lambda request: None
        self.assert_mended(6.0)

    def test_report_11_any_exception(self) -> None:
        """
        A bug does not end the loop (field report 11).
        """
        self.bench.hook = lambda request: (
            ValueError("bug") if "txn" in request.path else None
        )
        self.session.start()
        self.member.start()
        self.bench.advance(3.0)
        self.bench.hook = lambda request: None

        self.assert_mended(5.1)

    def test_report_13_invalid_session(self) -> None:
        """
        An acquisition that calls the session invalid, or that a lock-delay of
        its own key refuses, makes it be looked at at once, and made anew (field
        report 13).
        """
        first = self.begin()
        self.bench.hook = lambda request: (
            Response(404, {"x-consul-index": "99"}, b"")
            if request.path.endswith(KEY)
            else None
        )
        self.bench.consul.destroy_session(first)
        self.value = b"v2"
        self.member.wake()

        took = self.bench.until(lambda: self.session.session_id not in (first, None))

        self.assertLess(took, 0.1)


class MendingTests(Base):
    """
    What may happen to it.
    """

    def test_b13_deleted(self) -> None:
        """
        Deleted by hand, it is made again at once (B13).
        """
        self.begin()
        self.bench.result(self.bench.api.delete(KEY))

        self.assert_mended()
        self.assertEqual(len(self.bench.log.of("remaking-membership-record")), 1)

    def test_deleted_before_the_watch_has_seen_it(self) -> None:
        """
        A record deleted before the watch ever read it is missed all the same,
        though to the watch nothing has changed.
        """
        self.bench.network.latency = lambda request: (
            1.0 if ("index", "1") in request.params else 0.0
        )
        held = self.hold_up_the_watch()
        self.session.start()
        self.member.start()
        self.bench.until(lambda: self.member.joined)
        self.bench.result(self.bench.api.delete(KEY))
        held.clear()

        self.assert_mended(40.0)

    def hold_up_the_watch(self) -> list[str]:
        """
        Let blocking queries arrive only later.
        """
        held = ["watch"]
        self.bench.network.latency = lambda request: (
            0.3 if held and any(name == "index" for name, _ in request.params) else 0.0
        )
        return held

    def test_b13_overwritten(self) -> None:
        """
        Overwritten with a plain PUT, which leaves the session, it is written
        anew (B13).
        """
        session = self.begin()
        self.bench.result(self.bench.api.put(KEY, b"junk"))
        assert self.entry is not None
        self.assertEqual(self.entry.session, session)

        self.assert_mended()

    def test_b13_written_without_a_lock(self) -> None:
        """
        Deleted and written without a lock, it has no session: it is acquired
        (B13).
        """
        self.begin()
        self.bench.result(self.bench.api.delete(KEY))
        self.bench.result(self.bench.api.put(KEY, b"junk"))
        assert self.entry is not None

        self.assert_mended()

    def test_b13_there_before_we_came(self) -> None:
        """
        A key that was left without a session is taken over (B13).
        """
        self.bench.result(self.bench.api.put(KEY, b"junk"))
        self.session.start()
        self.member.start()

        self.assert_mended()

    def test_session_lost(self) -> None:
        """
        The key goes with its session; that is the quickest sign of the loss,
        and the new session takes it, after the lock-delay.
        """
        first = self.begin()
        self.bench.advance(1.0)
        self.bench.consul.destroy_session(first)

        took = self.bench.until(lambda: self.session.session_id != first)
        self.assertLess(took, 0.1)
        self.assertFalse(self.member.joined)
        self.bench.until(lambda: self.member.joined, SETTINGS.lock_delay + 0.3)

        self.assert_mended(0.1)
        self.assertEqual(self.changes, [True, True])
        self.end()

    def test_session_lost_and_key_taken(self) -> None:
        """
        A key in other hands is a sign as good as one that is gone.
        """
        first = self.begin()
        other = self.stranger(hold=False)
        self.bench.advance(1.0)
        self.hold_up_the_watch()
        self.value = b"v2"
        self.member.wake()
        self.bench.advance(0.02)
        self.bench.result(
            self.bench.api.txn([Op.delete(KEY), Op.lock(KEY, b"other", other)])
        )
        self.bench.consul.destroy_session(first)

        self.assertLess(self.bench.until(lambda: self.session.session_id != first), 1.0)

    def test_held_by_our_last_session_as_far_as_is_known(self) -> None:
        """
        What a mute watch last showed in the hands of an earlier session of our
        own is acquired without waiting for it.
        """
        first = self.begin()
        self.bench.advance(1.0)
        self.bench.network.loses_reply = lambda request: request.path.endswith(KEY)
        self.bench.consul.destroy_session(first)

        self.bench.until(self.as_it_should_be, 6.0)

        self.assertTrue(self.member.joined)
        self.assertEqual(self.bench.log.of("stale-membership-record-in-the-way"), [])

    def test_long_lock_delay(self) -> None:
        """
        A lock-delay of a minute costs a bounded number of attempts, and the
        key is taken when it is over (field reports 34, 36).
        """
        self.use(Settings(lock_delay=60.0))
        first = self.begin()
        self.bench.consul.destroy_session(first)
        self.bench.until(lambda: self.session.session_id not in (None, first))

        took = self.bench.until(lambda: self.member.joined, 70.0)

        self.assertGreater(took, 59.0)
        self.assertLess(took, 61.5)
        self.assertLess(len(self.bench.requests("txn")), 110)

    def test_session_given_up_still_holds_it(self) -> None:
        """
        A session of our own that is given up is no stranger: no word, and the
        key is taken as soon as it is free.
        """
        first = self.begin()
        self.bench.network.loses_request = lambda request: "check/pass" in request.path
        self.bench.until(lambda: self.session.session_id != first)
        self.bench.network.loses_request = lambda request: False

        self.bench.until(lambda: self.member.joined, 10.0)

        self.assertEqual(self.bench.log.of("stale-membership-record-in-the-way"), [])

    def test_consul_emptied(self) -> None:
        """
        In a Consul that comes back empty it is made again.
        """
        self.begin()
        self.bench.advance(1.0)
        self.bench.consul.empty()

        self.assert_mended(10.0)

    def test_restored_from_an_older_snapshot(self) -> None:
        """
        In a Consul that has forgotten it, it is made again.
        """
        before = self.bench.consul.snapshot()
        self.begin()
        self.bench.advance(1.0)
        self.bench.consul.restore(before, rewind=True)

        self.assert_mended(40.0)

    def test_restored_with_an_old_session_of_ours(self) -> None:
        """
        In a Consul that was restored to a state in which an older session of
        ours holds it, that session is ended, and nobody waits for its TTL.
        """
        first = self.begin()
        before = self.bench.consul.snapshot()
        self.bench.consul.destroy_session(first)
        self.bench.until(lambda: self.session.session_id not in (first, None))
        self.assert_mended(3.0)
        self.bench.advance(5.0)
        self.bench.consul.restore(before, rewind=True)
        self.bench.until(lambda: not self.as_it_should_be())

        self.assert_mended(10.0)
        self.assertNotIn(first, self.bench.alive)
        self.assertTrue(self.bench.log.of("old-session-came-back", "warning"))

    def test_watch_begins_anew_with_a_session(self) -> None:
        """
        With another session the key is read anew: what was read before may
        have been another Consul's.
        """
        first = self.begin()
        self.bench.advance(1.0)
        since = self.bench.clock.seconds()
        self.bench.hook = lambda request: (
            Response(404, {}, b"Session id 'x' not found")
            if f"renew/{first}" in request.path
            else None
        )
        self.bench.until(lambda: self.session.session_id not in (None, first))
        self.assert_mended(3.0)
        self.bench.advance(1.0)

        fresh = [
            request
            for request in self.bench.requests(KEY, since)
            if not any(name == "index" for name, _ in request.params)
        ]
        self.assertGreaterEqual(len(fresh), 1)


class HinderedTests(Base):
    """
    A key that another session holds.
    """

    def test_b17_waits_and_says_so(self) -> None:
        """
        A key that an earlier life or a double holds is waited for; that is
        said once a minute, with the session that holds it, and costs no more
        than the watch (B17).
        """
        other = self.stranger()
        self.session.start()
        self.member.start()
        self.bench.advance(2.0)
        (said,) = self.bench.log.of("stale-membership-record-in-the-way", "warning")
        self.assertEqual(said["holder"], other)
        self.assertEqual(self.member.hindered_by, other)
        self.assertFalse(self.member.joined)

        self.member.wake()
        renewed = self.bench.result(self.bench.api.renew_session(other))
        self.assertEqual(renewed.id, other)
        counted = self.bench.rate(25.0)
        self.assertEqual(counted["txn"], 0)
        self.assertLessEqual(counted["kv/service/voltha"], 1)
        self.assertEqual(
            len(self.bench.log.of("stale-membership-record-in-the-way")), 1
        )

    def test_b17_takes_over_when_it_ends(self) -> None:
        """
        When that session ends the key is taken, after its lock-delay (B17).
        """
        other = self.stranger()
        self.session.start()
        self.member.start()
        self.bench.advance(2.0)
        self.bench.consul.destroy_session(other)

        took = self.bench.until(lambda: self.member.joined)

        self.assertLess(took, 1.3)
        self.assertIsNone(self.member.hindered_by)
        self.assertEqual(self.changes, [True])

    def test_takes_over_when_it_is_given_back(self) -> None:
        """
        When it is given back there is no delay.
        """
        other = self.stranger()
        self.session.start()
        self.member.start()
        self.bench.advance(2.0)
        self.bench.result(release(self.bench.api, KEY, other))

        self.assertLess(self.bench.until(lambda: self.member.joined), 0.1)

    def test_takes_over_when_it_is_unlocked(self) -> None:
        """
        Unlocked and left there, it is acquired.
        """
        other = self.stranger()
        self.session.start()
        self.member.start()
        self.bench.advance(2.0)
        self.bench.result(self.bench.api.put(KEY, b"", release=other))

        self.assert_mended()

    def test_stolen(self) -> None:
        """
        A key that another session took from us makes us no member: told at
        once, and mended when it is free again.
        """
        self.begin()
        self.bench.advance(1.0)
        other = self.stranger(hold=False)
        self.bench.result(
            self.bench.api.txn([Op.delete(KEY), Op.lock(KEY, b"other", other)])
        )
        self.bench.advance(0.1)
        self.assertFalse(self.member.joined)
        self.assertEqual(self.member.hindered_by, other)
        self.assertEqual(self.changes, [True, False])

        self.bench.result(release(self.bench.api, KEY, other))

        self.assert_mended()
        self.assertEqual(self.changes, [True, False, True])

    def test_somebody_was_quicker(self) -> None:
        """
        A key that is taken before the watch says so is looked at anew, at a
        bounded rate.
        """
        self.bench.hook = lambda request: (
            Response(404, {"x-consul-index": "99"}, b"")
            if request.path.endswith(KEY)
            else None
        )
        self.stranger()
        self.session.start()
        self.member.start()
        self.bench.advance(5.0)
        counted = self.bench.rate(20.0)

        self.assertLessEqual(counted["txn"], 25)
        self.assertLessEqual(counted["kv/service/voltha"], 45)
        self.assertFalse(self.member.joined)


class StoppingTests(Base):
    """
    How it ends.
    """

    def test_leaves_the_record(self) -> None:
        """
        Stopped, it mends no more, leaves the record, and no timer.
        """
        self.begin()
        self.end()
        self.bench.result(self.bench.api.delete(KEY))
        self.bench.advance(5.0)

        self.assertIsNone(self.entry)

    def test_wherever_it_is(self) -> None:
        """
        It ends at once, before it was started, in a request, in a pause, and
        twice.
        """
        self.successResultOf(self.member.stop())
        for path in ("kv/", "txn"):
            self.use(SETTINGS)
            self.bench.network.loses_request = (
                lambda request, path=path: path in request.path  # type: ignore[misc]
            )
            self.session.start()
            self.member.start()
            self.bench.advance(3.0)

            self.successResultOf(self.member.stop())
            self.successResultOf(self.member.stop())

            self.successResultOf(self.session.stop())
            self.assertTrue(self.bench.silent, path)
