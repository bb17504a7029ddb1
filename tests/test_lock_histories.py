"""
Random histories of a lock: at no instant do two hold it.

Whole members on clocks that run fast and slow, under pauses, crashes, lost and late
requests, sessions that are destroyed, and keys that the leader clears.
"""

from __future__ import annotations

import os
from functools import partial
from random import Random
from typing import Any

from twisted.python.failure import Failure

from voltha_coord.consul.transport import Request
from voltha_coord.coordinator import Coordinator
from voltha_coord.embedded.memory import Network
from voltha_coord.embedded.timeline import ProcessClock
from voltha_coord.lock import Lock
from voltha_coord.lock_holding import Held

from .support.embedded import ClusterTestCase

#: How many histories are played, and how many steps each has.
SEEDS, STEPS = int(os.environ.get("LOCK_SEEDS", "5")), 60

#: Clocks run apart by so much.
APART = 0.01

#: The terms that locks have.
TERMS = (None, None, 2.0, 7.0, 20.0)


class History(ClusterTestCase):
    """
    One history.
    """

    def begin(self, seed: int) -> None:
        """
        Make the cluster anew.
        """
        self.setUp()
        self.random = Random(seed)
        self.locks: list[tuple[Coordinator, Lock]] = []
        self.tokens: list[int] = []
        self.names = iter(range(1000))
        self.watch_over()
        for _ in range(3):
            self.join()
        self.cluster.advance(5)

    def watch_over(self) -> None:
        """
        From now on look at every moment who holds the lock.
        """
        heap = self.cluster.clock.heap
        step = heap.step

        def watched(until: float) -> ProcessClock | None:
            happened = step(until)
            self.assertLess(len(self.holders()), 2, "two hold the lock")
            return happened

        heap.step = watched  # type: ignore[method-assign]  # seen from here

    def holders(self) -> list[Lock]:
        """
        Give the locks that believe to be held, of members that do not stand still.
        """
        awake = self.cluster.awake
        return [k for m, k in self.locks if m in awake and k.held is not None]

    def join(self) -> None:
        """
        Let a member come, with two locks of one name.
        """
        rate = 1 + self.random.uniform(-APART, APART)
        member = self.cluster.add(f"m{next(self.names)}", clock_rate=rate)
        for _ in range(2):
            lock = member.lock("x", self.random.choice(TERMS))
            self.locks.append((member, lock))

    def got(self, result: object) -> None:
        """
        Note the token of who has the lock now.
        """
        if isinstance(result, Held):
            self.tokens.append(result.token)
        elif isinstance(result, Failure):
            result.trap(Exception)

    def ignore(self, result: object) -> None:
        """
        Let whatever came of it be.
        """

    # What may happen.

    def some_lock(self) -> Lock:
        """
        Give one of a member that is there.
        """
        alive = self.cluster.members.values()
        return self.random.choice([k for m, k in self.locks if m in alive])

    def some_member(self) -> Coordinator:
        """
        Give one that is there.
        """
        return self.random.choice(list(self.cluster.members.values()))

    def acquire(self) -> None:
        """
        Somebody wants it, for ever or not.
        """
        timeout = self.random.choice([None, None, 0, 3.0])
        acquiring = self.some_lock().acquire(timeout).addBoth(self.got)
        if self.random.random() < 0.2:
            self.cluster.advance(self.random.choice([0, 0.01, 1.0]))
            acquiring.cancel()

    def release(self) -> None:
        """
        Somebody gives it back, who holds it or not.
        """
        self.some_lock().release().addBoth(self.ignore)

    def pause(self) -> None:
        """
        A process stands still for a while.
        """
        member = self.some_member()
        process = self.cluster.process(member)
        if process.clock.paused:
            return
        self.cluster.pause(member)
        self.cluster.advance(self.random.uniform(0, 40))
        self.cluster.resume(member, self.random.random() < 0.5)

    def crash(self) -> None:
        """
        A process dies, and another comes.
        """
        self.cluster.crash(self.some_member())
        self.join()

    def destroy(self) -> None:
        """
        Somebody destroys a session.
        """
        session = self.some_member().session_id
        if session is not None:
            self.cluster.result(self.cluster.api.destroy_session(session))

    def leave(self) -> None:
        """
        A member shuts down, and another comes.
        """
        member = self.some_member()
        self.cluster.result(member.shutdown(), 60)
        self.cluster.crash(member)
        self.join()

    def disturb(self) -> None:
        """
        The way of a member to Consul is bad, or well again.
        """
        network = self.cluster.network(self.some_member())
        self.random.choice([self.mend, self.slow, self.lossy, self.cut])(network)

    def well(self) -> None:
        """
        The way of each member to Consul is well again.
        """
        for process in self.cluster.processes.values():
            self.mend(process.network)

    def mend(self, network: Network) -> None:
        """
        All is well.
        """
        network.latency = network.reply_latency = lambda request: 0.0
        for way in ("loses_request", "loses_reply", "lands_late"):
            setattr(network, way, lambda request: False)

    def slow(self, network: Network) -> None:
        """
        All takes its time, and what was given up may come late.
        """
        network.latency = self.lasting
        network.reply_latency = self.lasting
        network.lands_late = partial(self.happens, 0.5)

    def lossy(self, network: Network) -> None:
        """
        Some is lost.
        """
        network.loses_request = partial(self.happens, 0.2)
        network.loses_reply = partial(self.happens, 0.3)

    def cut(self, network: Network) -> None:
        """
        All is lost.
        """
        network.loses_request = partial(self.happens, 1.0)

    def lasting(self, request: Request) -> float:
        """
        Give how long it takes.
        """
        return self.random.choice([0.0, 0.01, 0.3, 5.0])

    def happens(self, chance: float, request: Request) -> bool:
        """
        Let it happen now and then.
        """
        return self.random.random() < chance

    def play(self, seed: int) -> None:
        """
        Play a history; in the end all is well, and the lock can be had.
        """
        self.begin(seed)
        often: list[Any] = [self.acquire] * 10 + [self.release] * 4
        rare: list[Any] = (
            [self.disturb] * 2 + [self.well] + [self.pause, self.crash, self.destroy]
        )
        for _ in range(STEPS):
            self.random.choice([*often, *rare, self.leave])()
            self.cluster.advance(self.random.choice([0, 0.05, 0.5, 3, 12]))
        self.well()
        for _, lock in self.locks:
            lock.release().addBoth(self.ignore)
        self.cluster.advance(90)
        (member, *_) = self.cluster.members.values()
        last = self.cluster.result(member.lock("x").acquire(), 30)
        self.tokens.append(last.token)
        self.assertEqual(self.tokens, sorted(set(self.tokens)), "tokens rise")
        self.cluster.close()


class HistoryTests(History):
    """
    Many histories.
    """

    def test_histories(self) -> None:
        """
        At no instant do two hold the lock, tokens rise from holder to holder, and
        in the end it is free.
        """
        had = 0
        for seed in range(SEEDS):
            try:
                self.play(seed)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {error!r}") from error
            had += len(self.tokens)
        self.assertGreater(had, 3 * SEEDS)
