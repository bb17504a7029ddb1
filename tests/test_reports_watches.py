"""
What users of such systems reported about watches: a change that falls between two
reads is missed.
"""

from __future__ import annotations

from random import Random

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.model import Reading
from voltha_coord.consul.requester import Requester
from voltha_coord.consul.watch import Watch
from voltha_coord.embedded.memory import MemoryTransport
from voltha_coord.embedded.state import ConsulState

KEY = "service/voltha/leader"

#: How long a request, and its answer, takes, in seconds.
LATENCY = 0.5

#: How long a blocking query waits: what is missed is seen after that.
WAIT = 30.0

STEP = 0.05


class ContinuityTests(SynchronousTestCase):
    """
    A watch that is far from its Consul.
    """

    def setUp(self) -> None:
        """
        Watch a key that is there.
        """
        self.clock = Clock()
        consul = ConsulState(self.clock, random=Random(1))
        transport = MemoryTransport(consul.agent("n1"), self.clock)
        transport.network.latency = lambda request: LATENCY
        transport.network.reply_latency = lambda request: LATENCY
        self.api = ConsulApi(Requester([transport], now=self.clock.seconds))
        at_hand = MemoryTransport(consul.agent("n2"), self.clock)
        self.beside = ConsulApi(Requester([at_hand], now=self.clock.seconds))
        self.seen: list[Reading] = []
        self.watch: Watch[Reading] = Watch(
            self.clock,
            lambda index, wait, consistent: self.api.get(
                KEY, index=index, wait=wait, consistent=consistent
            ),
            self.seen.append,
            name="leader",
            wait=WAIT,
            random=Random(1).random,
            refill=0.0001,
        )
        self.beside.put(KEY, b"a")
        self.advance(1.0)

    def advance(self, seconds: float) -> None:
        """
        Let time pass, in small steps.
        """
        self.clock.pump([STEP] * round(seconds / STEP))

    def test_nothing_is_missed(self) -> None:
        """
        Whenever a key is deleted, while a read is on its way, while its answer is,
        and before the next one arrives, that is seen as soon as one answer after
        that can be there: the next read asks for what comes after the last one
        (field reports 67 and 94).
        """
        for moment in range(40):
            self.setUp()
            self.watch.start()
            self.advance(moment * STEP)
            self.beside.delete(KEY)

            self.advance(3 * LATENCY + 5 * STEP)

            self.assertIsNone(self.seen[-1].entry, moment * STEP)
            self.watch.stop()
            self.advance(2 * LATENCY)
