"""
The settings of a Coordinator: defaults, bounds, and room between timings.
"""

from __future__ import annotations

import re
from typing import Any

from attrs import evolve, fields
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, LoopingCall, deferLater
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.errors import ConfigurationError
from voltha_coord.settings import CONSUL_TTL_MULTIPLIER, Settings, guard_seconds

#: The timings with bounds of their own, each with one below and one above.
OUT_OF_BOUNDS = {
    "session_ttl": (9.9, 86401),
    "renew_interval": (0.0, 3601),
    "renew_timeout": (0.0, 61),
    "lock_delay": (-0.001, 61),
    "failure_detection": (-1, 3601),
    "stop_grace": (-1, 3601),
    "watch_wait": (0.5, 601),
    "watch_margin": (0.0, 61),
    "command_timeout": (0.0, 601),
    "connect_timeout": (0.0, 61),
    "soak": (-1, 601),
    "departed_soak": (-1, 601),
    "worker_soak": (-1, 601),
    "resync_interval": (0.0, 3601),
    "candidate_pause": (-1, 3601),
    "drain_timeout": (-1, 3601),
    "emergency_timeout": (-1, 3601),
    "node_recover_timeout": (-1, 86401),
    "sync_interval": (0.4, 601),
    "limit_wait": (-1, 3601),
    "move_timeout": (0.9, 86401),
    "work_timeout": (0.0, 3601),
    "stop_timeout": (0.0, 3601),
}

#: The fields that are no timings.
OTHERS = {
    "prefix",
    "node_health",
    "isolation",
    "stuck_work",
    "concurrent_work",
    "allow_command",
    "state_directory",
}

#: What is no number of seconds, or none that means anything.
INFINITY = float("inf")
NOT_SECONDS: tuple[object, ...] = (
    "3",
    None,
    True,
    [],
    float("nan"),
    INFINITY,
    -INFINITY,
    10**400,
)


class DefaultsTests(SynchronousTestCase):
    """
    What a Coordinator does when nothing is said.
    """

    def test_defaults_have_room(self) -> None:
        """
        The defaults are accepted, and are what the documents say.
        """
        settings = Settings()

        self.assertEqual(settings.prefix, "service/voltha")
        self.assertEqual(settings.session_ttl, 15)
        self.assertEqual(settings.lock_delay, 1)
        self.assertEqual(settings.failure_detection, 3)

    def test_every_field_is_documented(self) -> None:
        """
        Each field carries the text of its row in the documents.
        """
        silent = [a.name for a in fields(Settings) if not a.metadata.get("doc")]

        self.assertEqual(silent, [])

    def test_every_timing_is_covered_here(self) -> None:
        """
        A new timing has its bounds tested.
        """
        self.assertEqual({a.name for a in fields(Settings)} - OTHERS, {*OUT_OF_BOUNDS})


class ProcessSettingsTests(SynchronousTestCase):
    """
    What the runner of commands is told.
    """

    def test_patterns(self) -> None:
        """
        Patterns are texts; a list of them will do.
        """
        self.assertEqual(Settings(allow_command=["/bin/*"]).allow_command, ("/bin/*",))
        for bad in ("/bin/*", ["", "x"], [3], None, 3):
            error = self.assertRaises(ConfigurationError, Settings, allow_command=bad)
            self.assertIn("allow_command", str(error))

    def test_directory(self) -> None:
        """
        The directory is a text, or none.
        """
        self.assertIsNone(Settings().state_directory)
        for bad in ("", 3, b"x"):
            error = self.assertRaises(ConfigurationError, Settings, state_directory=bad)
            self.assertIn("state_directory", str(error))


class RefusalTests(SynchronousTestCase):
    """
    What cannot work is refused, and the text names the fields.
    """

    def refused(self, *names: str, **values: Any) -> None:
        """
        Expect a refusal whose text holds each of ``names``.
        """
        error = self.assertRaises(ConfigurationError, Settings, **values)
        for name in names:
            self.assertIn(name, str(error))

    def test_out_of_bounds(self) -> None:
        """
        Each timing has bounds on both sides.
        """
        for name, values in OUT_OF_BOUNDS.items():
            for value in values:
                self.refused(f"{name}: ", f"{value:g}", **{name: value})

    def test_not_seconds(self) -> None:
        """
        What is no number of seconds is refused for each timing, NaN, infinity, truth
        values and numbers beyond a float included (field report 149).
        """
        for name in OUT_OF_BOUNDS:
            for value in NOT_SECONDS:
                if (name, value) != ("stop_grace", None):
                    self.refused(f"{name}: ", **{name: value})

    def test_prefix(self) -> None:
        """
        A prefix that is no path of plain names is refused.
        """
        for prefix in ("", "/a", "a/", "a//b", "a/../b", ".a", "a b", "ä", 3, None):
            self.refused("prefix: ", prefix=prefix)

    def test_choices(self) -> None:
        """
        What is none of a field's choices is refused, and the choices are named.
        """
        for value in ("halt", "", "STOP", None, 1):
            self.refused("isolation: ", "stop, keep, takeover", isolation=value)
            self.refused("stuck_work: ", "report, exit", stuck_work=value)

    def test_counts(self) -> None:
        """
        What is no number of calls within the bounds is refused.
        """
        for value in (0, -1, 10_001, 1.5, "3", True, None):
            self.refused("concurrent_work: ", concurrent_work=value)

    def test_no_room_for_renewals(self) -> None:
        """
        The session TTL leaves room for a second renewal.
        """
        names = ("session_ttl", "renew_interval", "stop_grace")

        self.refused(*names, session_ttl=10, renew_interval=5)

    def test_no_room_for_a_renewal_that_hangs(self) -> None:
        """
        Renewal interval, deadline, grace and guard fit into the TTL together
        (field report 58).
        """
        self.refused("session_ttl", "renew_timeout", session_ttl=10, renew_timeout=7)

    def test_no_room_for_passes(self) -> None:
        """
        Two passes, the grace and the guard fit into the TTL of the check.
        """
        self.refused("failure_detection", "stop_grace", stop_grace=1.5)
        self.refused("failure_detection", "guard", failure_detection=0.25)

    def test_smallest_detection(self) -> None:
        """
        A failure detection of 0.3 s is the smallest with room.
        """
        self.assertEqual(Settings(failure_detection=0.31).failure_detection, 0.31)
        self.refused("failure_detection", failure_detection=0.29)

    def test_blames_what_was_set(self) -> None:
        """
        The timing named first is one that was set: a default is not what there
        is to change.
        """
        for blamed, values in (
            ("failure_detection", {"failure_detection": 100}),
            ("stop_grace", {"stop_grace": 14}),
            ("stop_grace", {"stop_grace": 1.5}),
            ("renew_interval", {"renew_interval": 9}),
            ("session_ttl", {"failure_detection": 100, "session_ttl": 12}),
        ):
            error = self.assertRaises(ConfigurationError, Settings, **values)
            self.assertTrue(str(error).startswith(f"{blamed}: "), str(error))

    def test_numbers_people_read(self) -> None:
        """
        What is calculated has three digits; what was set is as it was written.
        """
        error = self.assertRaises(ConfigurationError, Settings, failure_detection=0.01)
        self.assertEqual(
            str(error),
            "failure_detection: 0.01 s leaves no room for two passes (one each "
            "0.00333 s), for stop_grace 0.00167 s, a sixth of failure_detection, and "
            "for a guard of 0.05 s: failure_detection of at least 0.3 s is needed",
        )
        error = self.assertRaises(ConfigurationError, Settings, drain_timeout=4000.0)
        self.assertIn("drain_timeout: 4000 is", str(error))

    @given(
        ttl=st.floats(10, 100),
        interval=st.floats(0.1, 40),
        timeout=st.floats(0.05, 60),
        detection=st.sampled_from([0, 0.01, 0.2, 3, 60, 400]),
        grace=st.sampled_from([None, 0, 0.4, 1.5, 20]),
    )
    def test_advice_works(self, **values: Any) -> None:
        """
        Whoever follows what a refusal says is needed is refused no more for it.
        """
        names = dict(
            ttl="session_ttl",
            interval="renew_interval",
            timeout="renew_timeout",
            detection="failure_detection",
            grace="stop_grace",
        )
        settings = {names[name]: value for name, value in values.items()}
        # One piece of advice for each of the two leases; the longer check may
        # bring a longer grace, and so another for the session.
        for _ in range(4):
            try:
                Settings(**settings)
            except ConfigurationError as error:
                found = re.search(r"(\w+) of at least ([\d.e+]+) s is", str(error))
                assert found is not None, error
                self.assertGreater(float(found[2]), settings[found[1]])
                settings[found[1]] = float(found[2])
        self.assertEqual(Settings(**settings).stop_grace, values["grace"])

    def test_advice_with_a_grace_that_grows(self) -> None:
        """
        Where the grace is a sixth of the very timing that is to be longer, what
        is said to be needed has room for the longer grace too.
        """
        for values in (
            {"failure_detection": 0, "renew_interval": 9},
            {"failure_detection": 0.01},
        ):
            error = self.assertRaises(ConfigurationError, Settings, **values)
            found = re.search(r"(\w+) of at least ([\d.]+) s is", str(error))
            assert found is not None, error
            advised: dict[str, Any] = {**values, found[1]: float(found[2])}

            self.assertEqual(getattr(Settings(**advised), found[1]), float(found[2]))

    def test_advice_asks_for_no_more_than_is_needed(self) -> None:
        """
        What is a little shorter than what is said to be needed is refused, also
        where the check is passed more often than every third of its TTL.
        """
        for grace in (0.5, 2.5, 20):
            values = {
                "failure_detection": 0.7,
                "stop_grace": grace,
                "session_ttl": 100,
            }
            error = self.assertRaises(ConfigurationError, Settings, **values)
            found = re.search(r"failure_detection of at least ([\d.]+) s", str(error))
            assert found is not None, error

            values["failure_detection"] = 0.98 * float(found[1])
            self.assertRaises(ConfigurationError, Settings, **values)

    def test_evolve_checks(self) -> None:
        """
        A changed copy is checked like a new value.
        """
        self.assertRaises(ConfigurationError, evolve, Settings(), session_ttl=1)


class ArithmeticTests(SynchronousTestCase):
    """
    What follows from the settings.
    """

    def test_guard(self) -> None:
        """
        A lease is kept shorter by two percent, and by 0.05 s at least.
        """
        self.assertEqual(guard_seconds(1), 0.05)
        self.assertEqual(guard_seconds(2.5), 0.05)
        self.assertEqual(guard_seconds(100), 2)

    def test_pass_interval(self) -> None:
        """
        The check is passed three times in its TTL, and never without one.
        """
        self.assertEqual(Settings(failure_detection=1.5).pass_interval, 0.5)
        self.assertEqual(Settings(failure_detection=0).pass_interval, 0)

    def test_longest_pass_interval(self) -> None:
        """
        However long its TTL, the check is passed every second: with a TTL of ten
        seconds an agent that is away for five, and takes one more until it
        listens, costs no work.
        """
        settings = Settings(failure_detection=10)
        works = 10 - guard_seconds(10) - settings.grace

        self.assertEqual(settings.pass_interval, 1)
        self.assertLess(settings.pass_interval + 5 + 1 + settings.pass_interval, works)

    def test_grace(self) -> None:
        """
        The grace is what was set, else a sixth of the check's TTL, else a
        sixth of the session's.
        """
        self.assertEqual(Settings(stop_grace=0.1).grace, 0.1)
        self.assertEqual(Settings(stop_grace=0).grace, 0)
        self.assertEqual(Settings(failure_detection=6).grace, 1)
        self.assertEqual(Settings(failure_detection=0, session_ttl=30).grace, 5)

    def test_watch_deadline(self) -> None:
        """
        A blocking query may take its wait, Consul's sixteenth, and a margin.
        """
        self.assertEqual(Settings(watch_wait=16, watch_margin=2).watch_deadline, 19)

    def test_detection_doubles_the_session_ttl(self) -> None:
        """
        Without a check Consul takes twice the TTL that was asked for, and the
        TTL asked for is the one that was set (field report 27).
        """
        settings = Settings(session_ttl=20, failure_detection=0)

        self.assertEqual(settings.session_ttl, 20)
        self.assertEqual(settings.detection_bound, CONSUL_TTL_MULTIPLIER * 20)

    def test_detection_by_check(self) -> None:
        """
        A check notices a dead process in its own TTL, which is not doubled.
        """
        self.assertEqual(Settings(failure_detection=3).detection_bound, 3)

    @given(
        ttl=st.floats(10, 100),
        interval=st.floats(0.1, 40),
        timeout=st.floats(0.05, 60),
    )
    def test_a_hung_renewal_is_survived(
        self, ttl: float, interval: float, timeout: float
    ) -> None:
        """
        Whatever is accepted: when one renewal hangs until its deadline, the
        next one is sent before work would have to stop (field report 58).
        """
        try:
            settings = Settings(
                session_ttl=ttl, renew_interval=interval, renew_timeout=timeout
            )
        except ConfigurationError:
            return
        sent = sends(interval, timeout)

        self.assertLessEqual(
            sent, ttl - guard_seconds(ttl) - settings.grace + 1e-6 * ttl
        )

    @given(detection=st.floats(0.31, 100))
    def test_a_hung_pass_is_survived(self, detection: float) -> None:
        """
        A pass that hangs is known to have failed before the lease ends, and
        the next one was sent meanwhile.
        """
        settings = Settings(session_ttl=1000, failure_detection=detection)
        interval, timeout = settings.pass_interval, settings.pass_timeout
        lease = detection - guard_seconds(detection)

        self.assertLess(interval + timeout, lease + 1e-6)
        self.assertLessEqual(2 * interval, lease - settings.grace + 1e-6)


def sends(interval: float, timeout: float) -> float:
    """
    Give when the request after a hung one is sent, counted from the last that
    was answered, by a ``LoopingCall`` that waits for each.
    """
    clock = Clock()
    times: list[float] = []

    def send() -> Deferred[None] | None:
        times.append(clock.seconds())
        return deferLater(clock, timeout) if len(times) == 2 else None

    loop = LoopingCall(send)
    loop.clock = clock
    loop.start(interval)
    clock.advance(interval)
    clock.advance(timeout)
    if len(times) < 3:
        clock.advance(clock.getDelayedCalls()[0].getTime() - clock.seconds())
    loop.stop()
    return times[2]
