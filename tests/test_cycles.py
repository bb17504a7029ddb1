"""
A hundred outages one after the other leave nothing behind: no timer, no request,
no Deferred, no watch; and on real sockets no connection and no file descriptor.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import psutil
from structlog.testing import capture_logs
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import Clock, LoopingCall, deferLater
from twisted.trial.unittest import SynchronousTestCase, TestCase

from voltha_coord._loops import Tasks
from voltha_coord._types import Steps
from voltha_coord.consul.http import CONNECTIONS
from voltha_coord.consul.watch import Watch
from voltha_coord.coordinator import Coordinator
from voltha_coord.embedded.http import listen
from voltha_coord.embedded.state import ConsulState

from .contract.backends import real_reactor
from .support.outages import DEFECTS, OUTAGES
from .support.relay import HOST, Relay
from .support.scene import NAMES, Scene

CYCLES = 100

#: Longer ones are like those of a minute, and cost more.
LONGEST_SECONDS = 60.0

#: All is well again so many seconds after an outage.
RECOVERY_SECONDS = 60.0

#: What is looked at, and how often: in between, something may be under way.
LOOKS, LOOK_SECONDS = 40, 0.77

#: How often the time of the Consul on sockets goes on.
TICK_SECONDS = 0.01


def port_of(listening: Any) -> int:
    """
    Give the port that somebody listens on.
    """
    port: int = listening.getHost().port
    return port


class CycleTests(SynchronousTestCase):
    """
    On the embedded Consul: each kind of outage in turn.
    """

    def test_nothing_is_left(self) -> None:
        """
        What three members have open at rest is the same after a hundred outages
        of all kinds as before the first.
        """
        scene = Scene(seed=1)
        self.addCleanup(scene.cluster.close)
        # Whether the guarantees hold meanwhile is for other tests to see.
        scene.excepted = True
        kinds = [one for one in OUTAGES if one.seconds <= LONGEST_SECONDS]
        with capture_logs() as logs:
            scene.begin()
            # Who has led keeps more than who has not.
            for name in (*NAMES, scene.leader.instance_id):
                if name != scene.leader.instance_id:
                    scene.cluster.result(scene.leader.transfer_leadership(name))
                    scene.until(scene.settled, RECOVERY_SECONDS)
            before = at_rest(scene)
            for number in range(CYCLES):
                outage = kinds[number % len(kinds)]
                member = getattr(scene, outage.roles[number % len(outage.roles)])
                if outage.possible(scene, member):
                    outage.begin(scene, member)
                    scene.run(outage.seconds)
                    outage.end(scene, member)
                scene.until(scene.settled, RECOVERY_SECONDS)
                logs.clear()
            after = at_rest(scene)

        self.assertEqual(after, before)
        self.assertEqual([one for one in logs if one["event"] in DEFECTS], [])


class SocketTests(TestCase):
    """
    On sockets: connections are reset, refused, and left without an answer.
    """

    timeout = 120

    def setUp(self) -> None:
        """
        Listen, with a relay in between.
        """
        self.reactor = real_reactor()
        self.process = psutil.Process()
        # On a clock of its own, it leaves no timers with the reactor.
        clock = Clock()
        ticking = LoopingCall(clock.advance, TICK_SECONDS)
        ticking.start(TICK_SECONDS)
        self.addCleanup(ticking.stop)
        listening = listen(self.reactor, handler=ConsulState(clock).agent("n"))
        self.addCleanup(listening.stopListening)
        self.relay = Relay(self.reactor, port_of(listening))
        self.addCleanup(self.relay.refuse)

    def pause(self, seconds: float) -> Deferred[None]:
        """
        Let time pass.
        """
        return deferLater(self.reactor, seconds, lambda: None)

    @inlineCallbacks
    def until(self, condition: Callable[[], object]) -> Steps[None]:
        """
        Let time pass until something is so.
        """
        end = self.reactor.seconds() + 30.0
        while not condition():
            self.assertLess(self.reactor.seconds(), end, "it does not come to be")
            yield self.pause(0.05)

    @inlineCallbacks
    def cycle(self, number: int) -> Steps[None]:
        """
        Disturb connections, and let them be again.
        """
        if number % 3 == 0:
            self.relay.cut()
        elif number % 3 == 1:
            yield self.relay.refuse()
            self.relay.cut()
            yield self.pause(0.1)
            self.relay.accept()
        else:
            self.relay.silent = True
            yield self.pause(0.1)
            self.relay.silent = False
            self.relay.cut()
        yield self.pause(0.05)

    def descriptors(self) -> int:
        """
        Count the open file descriptors but for those of connections: both ends
        of each before the relay, and behind it.
        """
        return self.process.num_fds() - 4 * len(self.relay.connections)

    @inlineCallbacks
    def test_nothing_is_left(self) -> Steps[None]:
        """
        A member works as before after a hundred outages; it has no more
        connections than its lanes allow, and no descriptor beside them.  None
        is left when it has shut down.
        """
        member = Coordinator(
            HOST, HOST, "m", 0, self.relay.address, reactor=self.reactor, registry={}
        )
        self.addCleanup(member.shutdown)
        with capture_logs() as logs:
            yield self.until(lambda: member.is_leader)
            yield self.pause(1.0)
            before = self.descriptors()
            for number in range(CYCLES):
                yield self.cycle(number)
            yield self.until(lambda: member.is_leader and member.is_ready)
            yield self.until(lambda: self.descriptors() == before)
            open_at_most = len(self.relay.connections)
            yield member.shutdown()
            yield self.until(lambda: not self.relay.connections)

        self.assertGreater(self.relay.made, CYCLES)
        self.assertLessEqual(open_at_most, sum(CONNECTIONS.values()))
        self.assertEqual([one for one in logs if one["event"] in DEFECTS], [])


def at_rest(scene: Scene) -> Counter[str]:
    """
    Count what is there when nothing happens: the least of what several looks
    have seen.
    """
    scene.run(30.0)
    found: Counter[str] = seen(scene)
    for _ in range(LOOKS):
        scene.run(LOOK_SECONDS)
        found &= seen(scene)
    return found


def seen(scene: Scene) -> Counter[str]:
    """
    Count what is there now.
    """
    counts: Counter[str] = Counter()
    for member in scene.cluster.members.values():
        timers, requests = scene.cluster.left_behind(member)
        counts.update(timers=timers, requests=requests)
    gc.collect()
    for one in gc.get_objects():
        if isinstance(one, (Watch, Tasks)):
            counts[type(one).__name__] += 1
        elif isinstance(one, Deferred) and not one.called:
            # Somebody waits for it.
            counts["Deferred"] += 1
    return counts
