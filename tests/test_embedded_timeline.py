"""
Tests of virtual time, and of processes that are slow, stand still, or are gone.
"""

from __future__ import annotations

from random import Random

from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from voltha_coord.embedded.timeline import ProcessClock, Timeline, TimeStandsStill


class TimelineTestCase(SynchronousTestCase):
    """
    A timeline, and what happened on it.

    :ivar seen: what was called, in order.
    """

    def setUp(self) -> None:
        """
        Begin a time.
        """
        self.time = Timeline()
        self.seen: list[str] = []

    def note(self, clock: ProcessClock, seconds: float, name: str) -> IDelayedCall:
        """
        Set a timer that notes that it was called.
        """
        return clock.callLater(seconds, self.seen.append, name)


class TimelineTests(TimelineTestCase):
    """
    One clock, as fast as the world.
    """

    def test_interfaces(self) -> None:
        """
        It is a reactor's time, and gives delayed calls.
        """
        self.assertTrue(verifyObject(IReactorTime, self.time))
        self.assertTrue(verifyObject(IDelayedCall, self.time.callLater(1, id, 1)))

    def test_order(self) -> None:
        """
        Timers are called in the order of their times, and those of one time in
        the order in which they were set.
        """
        for seconds, name in ((2, "c"), (1, "a"), (1, "b"), (2, "d")):
            self.note(self.time, seconds, name)

        self.time.advance(2)

        self.assertEqual("".join(self.seen), "abcd")

    def test_jumps(self) -> None:
        """
        A step goes to the next timer, and to the end where there is none.
        """
        self.note(self.time, 7.5, "a")

        self.assertIs(self.time.step(100), self.time)
        self.assertEqual(self.time.seconds(), 7.5)
        self.assertIsNone(self.time.step(100))
        self.assertEqual(self.time.seconds(), 100)
        self.assertIsNone(self.time.step(50))
        self.assertEqual(self.time.seconds(), 100)

    def test_set_while_called(self) -> None:
        """
        What is set for now by what is called now is called now.
        """
        self.time.callLater(1, self.time.callLater, 0, self.seen.append, "a")

        self.time.advance(1)

        self.assertEqual(self.seen, ["a"])

    def test_goes_on(self) -> None:
        """
        Something that is set for now for ever is an error, and not the end of
        time; what happens often, but not at one instant, is none.
        """
        self.time.heap.most_at_once = 100

        def again(seconds: float) -> None:
            self.time.callLater(seconds, again, seconds)

        again(0.001)
        self.time.advance(1)
        again(0.0)

        with self.assertRaises(TimeStandsStill):
            self.time.advance(1)

    def test_cancel(self) -> None:
        """
        A cancelled timer is not called; cancelling it again, or one that was
        called, is an error.
        """
        cancelled, called = self.note(self.time, 1, "a"), self.note(self.time, 1, "b")
        cancelled.cancel()
        self.time.advance(1)

        self.assertEqual(self.seen, ["b"])
        self.assertFalse(cancelled.active() or called.active())
        with self.assertRaises(AlreadyCancelled):
            cancelled.cancel()
        with self.assertRaises(AlreadyCalled):
            called.reset(1)

    def test_put_off(self) -> None:
        """
        A timer can be put off, again and again, and brought forward.
        """
        later, sooner = self.note(self.time, 1, "a"), self.note(self.time, 9, "b")
        later.reset(3)
        later.delay(1)
        sooner.reset(2)

        self.time.advance(3.9)
        self.assertEqual((self.seen, later.getTime()), (["b"], 4))
        self.time.advance(0.2)
        self.assertEqual(self.seen, ["b", "a"])

    def test_pending(self) -> None:
        """
        What is still to be called is told, in order.
        """
        second, first = self.note(self.time, 2, "b"), self.note(self.time, 1, "a")
        self.note(self.time, 1, "c").cancel()

        self.assertEqual(self.time.getDelayedCalls(), [first, second])


class ProcessTests(TimelineTestCase):
    """
    Clocks of processes.
    """

    def test_rate(self) -> None:
        """
        A clock may run fast or slow, and show another time.
        """
        fast = self.time.process(rate=1.01, now=500.0)
        self.note(fast, 10.1, "fast")
        self.note(self.time, 9.999, "before")
        self.note(self.time, 10.001, "after")

        self.time.advance(100)

        self.assertEqual(self.seen, ["before", "fast", "after"])
        self.assertAlmostEqual(fast.seconds(), 601.0)

    def test_never_early(self) -> None:
        """
        When a timer is called its clock shows no less than it was set to, for
        all rounding.
        """
        early = []
        random = Random(1)
        for _ in range(1000):
            rate, shows = random.uniform(0.99, 1.01), random.uniform(0, 1000)
            clock = self.time.process(rate, now=shows)
            seconds = random.uniform(0, 10)
            due = clock.seconds() + seconds

            def look(clock: ProcessClock = clock, due: float = due) -> None:
                early.append(clock.seconds() < due)

            clock.callLater(seconds, look)
            self.time.advance(0.1)
        self.time.advance(100)

        self.assertEqual((len(early), any(early)), (1000, False))

    def test_stands_still(self) -> None:
        """
        A process that stands still is not called; what was due is called when
        it goes on, at the time it is then, and the rest when it is due.
        """
        process = self.time.process()
        self.note(process, 1, "a")
        self.note(process, 9, "b")
        process.pause()
        self.time.advance(5)
        self.assertEqual(self.seen, [])

        process.resume()
        self.time.advance(0)

        self.assertEqual((self.seen, process.seconds()), (["a"], 5))
        self.time.advance(4)
        self.assertEqual(self.seen, ["a", "b"])

    def test_cancelled_while_standing(self) -> None:
        """
        What is cancelled, or put off, by others while a process stands still is
        treated so when it goes on.
        """
        process = self.time.process()
        cancelled, put_off = self.note(process, 1, "a"), self.note(process, 1, "b")
        process.pause()
        self.time.advance(2)
        cancelled.cancel()
        put_off.reset(3)

        process.resume()
        self.time.advance(2.9)
        self.assertEqual(self.seen, [])
        self.time.advance(0.1)
        self.assertEqual(self.seen, ["b"])

    def test_out_and_home(self) -> None:
        """
        What leaves a process gets out though it stands still; what comes waits
        at its door.
        """
        process = self.time.process(rate=0.5)
        process.leave_later(1.0, lambda: self.seen.append("out"))
        process.arrive_later(1.0, lambda: self.seen.append("home"))
        process.pause()
        self.time.advance(1)
        self.assertEqual(self.seen, ["out"])

        process.resume()
        self.time.advance(0)

        self.assertEqual(self.seen, ["out", "home"])
        self.assertEqual(process.getDelayedCalls(), [])

    def test_first_thing(self) -> None:
        """
        Going on, a process takes what was due first, or what arrived.
        """
        for arrivals_first, order in ((False, "tath"), (True, "atth")):
            self.seen.clear()
            process = self.time.process()
            self.note(process, 1, "t")
            process.arrive_later(2, lambda: self.seen.append("a"))
            self.note(process, 3, "t")
            self.note(self.time, 9, "h")
            process.pause()
            self.time.advance(5)
            process.resume(arrivals_first)
            self.time.advance(4)

            self.assertEqual("".join(self.seen), order)

    def test_skip(self) -> None:
        """
        A process that has not come round to its timers sees the time all the
        same.
        """
        process = self.time.process()
        self.note(process, 1, "a")

        process.skip(3)

        self.assertEqual((process.seconds(), self.seen), (3, []))

    def test_dies(self) -> None:
        """
        Nothing of a process that is gone is called, whether it stood still or
        not, but in a time of its own; what had left it gets out.
        """
        for paused in (False, True):
            self.seen.clear()
            process, other = self.time.process(), self.time.process()
            self.note(process, 1, "a")
            process.arrive_later(1, lambda: self.seen.append("b"))
            process.leave_later(1, lambda: self.seen.append("out"))
            self.note(other, 1, "other")
            if paused:
                process.pause()
                self.time.advance(1)

            afterlife = process.die()
            self.time.advance(10)
            self.assertEqual(self.seen, ["out", "other"])
            self.seen.clear()
            self.note(process, 5, "c")
            afterlife.advance(5)

            self.assertEqual(self.seen, ["a", "b", "c"])
