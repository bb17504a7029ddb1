"""
Tests of the transport in memory, and of what may go wrong on its way.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from voltha_coord.consul.transport import ITransport, Request, Response
from voltha_coord.embedded.memory import MemoryTransport, Way
from voltha_coord.embedded.state import ConsulState
from voltha_coord.embedded.timeline import Timeline
from voltha_coord.errors import ConsulUnavailable, RequestTimedOut

from .support.consul_on_clock import Embedded

_WRITE = Request("PUT", "/v1/kv/a", body=b"v", deadline=5.0)
_READ = Request("GET", "/v1/kv/a", deadline=5.0)
_WATCH = Request("GET", "/v1/kv/a", (("index", "1000"),), deadline=400.0)


def _give(what: Any, request: Request) -> Any:
    return what


class MemoryTransportTests(SynchronousTestCase):
    """
    A transport over a perfect network.
    """

    def setUp(self) -> None:
        """
        Make a Consul.
        """
        self.consul = Embedded()
        self.clock = self.consul.clock
        self.transport = self.consul.transport

    def _silent(self) -> None:
        self.assertEqual(self.transport.under_way, 0)
        self.assertEqual(self.consul.agent.waiting, 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_interface(self) -> None:
        """
        It provides ITransport.
        """
        self.assertTrue(verifyObject(ITransport, self.transport))

    def test_name(self) -> None:
        """
        To people it is what it stands for, as in what it fails with.
        """
        self.assertEqual(str(self.transport), "embedded Consul")

    def test_answers_in_a_later_turn(self) -> None:
        """
        No answer is there when request() returns.
        """
        result = self.transport.request(_READ)
        self.assertNoResult(result)
        self.clock.advance(0)

        self.assertEqual(self.successResultOf(result).status, 404)
        self._silent()

    def test_deadline(self) -> None:
        """
        A request without an answer fails at its deadline, and is forgotten on
        both sides.
        """
        result = self.transport.request(
            Request("GET", "/v1/kv/a", (("index", "1000"),), deadline=2.0)
        )
        self.clock.advance(0)
        self.assertEqual(self.consul.agent.waiting, 1)
        self.clock.advance(1.9)
        self.assertNoResult(result)
        self.clock.advance(0.1)

        self.failureResultOf(result, RequestTimedOut)
        self._silent()

    def test_cancel(self) -> None:
        """
        A cancelled request fails with CancelledError, wherever it is, and
        leaves nothing behind.
        """
        outward = self.transport.request(_WRITE)
        outward.cancel()
        waiting = self.transport.request(_WATCH)
        self.clock.advance(0)
        waiting.cancel()
        self.transport.network.reply_latency = lambda request: 1.0
        homeward = self.transport.request(_READ)
        self.clock.advance(0)
        homeward.cancel()

        for result in (outward, waiting, homeward):
            self.failureResultOf(result, CancelledError)
        self._silent()
        self.assertEqual(len(self.consul.state.kv), 0)

    def test_close(self) -> None:
        """
        Closing fails what is under way and whatever comes later.
        """
        watch = self.transport.request(_WATCH)
        self.clock.advance(0)
        self.successResultOf(self.transport.close())
        self.failureResultOf(watch, ConsulUnavailable)
        late = self.transport.request(_READ)
        self.assertNoResult(late)
        self.clock.advance(0)

        self.failureResultOf(late, ConsulUnavailable)
        self._silent()

    def test_agent_gone(self) -> None:
        """
        An agent that is not there looks like a refused connection.
        """
        self.consul.agent.kill()
        result = self.transport.request(_READ)
        self.clock.advance(0)

        self.failureResultOf(result, ConsulUnavailable)
        self._silent()


class NetworkTests(SynchronousTestCase):
    """
    A network that fails.
    """

    def setUp(self) -> None:
        """
        Make a Consul.
        """
        self.consul = Embedded()
        self.clock = self.consul.clock
        self.transport = self.consul.transport
        self.network = self.transport.network

    def _request(self, request: Request) -> Deferred[Response]:
        result = self.transport.request(request)
        self.clock.advance(0)
        return result

    def _written(self) -> bool:
        return len(self.consul.state.kv) > 0

    def test_latency(self) -> None:
        """
        A request and its answer each take their time.
        """
        self.network.latency = lambda request: 1.0
        self.network.reply_latency = lambda request: 2.0
        result = self._request(_WRITE)
        self.clock.advance(0.9)
        self.assertFalse(self._written())
        self.clock.advance(0.1)
        self.assertTrue(self._written())
        self.clock.advance(1.9)
        self.assertNoResult(result)
        self.clock.advance(0.1)

        self.assertEqual(self.successResultOf(result).body, b"true")

    def test_lost_request(self) -> None:
        """
        A request that is lost is not done, and times out.
        """
        self.network.loses_request = lambda request: request.method == "PUT"
        result = self._request(_WRITE)
        self.clock.advance(5)

        self.failureResultOf(result, RequestTimedOut)
        self.assertFalse(self._written())

    def test_lost_reply(self) -> None:
        """
        A request whose answer is lost is done, and times out.
        """
        self.network.loses_reply = lambda request: True
        result = self._request(_WRITE)
        self.clock.advance(5)

        self.failureResultOf(result, RequestTimedOut)
        self.assertTrue(self._written())

    def test_refused(self) -> None:
        """
        A refused connection fails at once, and nothing is done.
        """
        self.network.refuses = True
        result = self._request(_WRITE)

        self.failureResultOf(result, ConsulUnavailable)
        self.assertFalse(self._written())

    def test_partition_delivers_late(self) -> None:
        """
        What is sent while nothing passes arrives when it is healed.
        """
        self.network.partition()
        result = self._request(_WRITE)
        self.clock.advance(3)
        self.assertTrue(self.network.parted)
        self.assertFalse(self._written())
        self.network.heal()
        self.clock.advance(0)

        self.assertEqual(self.successResultOf(result).body, b"true")

    def test_partition_swallows(self) -> None:
        """
        Healed without delivery, what was sent meanwhile is lost.
        """
        self.network.partition()
        result = self._request(_WRITE)
        self.network.heal(deliver=False)
        self.clock.advance(5)

        self.failureResultOf(result, RequestTimedOut)
        self.assertFalse(self._written())

    def test_partition_holds_replies(self) -> None:
        """
        An answer that meets a partition arrives when it is healed.
        """
        self.network.reply_latency = lambda request: 1.0
        result = self._request(_WRITE)
        self.network.partition()
        self.clock.advance(2)
        self.assertNoResult(result)
        self.assertTrue(self._written())
        self.network.heal()
        self.clock.advance(0)

        self.successResultOf(result)

    def test_parted_one_way(self) -> None:
        """
        Where only one way is shut, requests arrive and answers do not, or the
        other way round.
        """
        self.network.partition(Way.HOME)
        no_answer = self._request(_WRITE)
        self.assertTrue(self._written())
        self.assertNoResult(no_answer)
        self.network.heal()
        self.clock.advance(0)
        self.successResultOf(no_answer)

        self.network.reply_latency = lambda request: 1.0
        answer = self._request(_READ)
        self.network.partition(Way.OUT)
        self.clock.advance(1)
        self.successResultOf(answer)
        self.assertNoResult(self._request(_READ))

    def test_instead(self) -> None:
        """
        Somebody in between may answer in Consul's place: it is not done.
        """
        self.network.instead = lambda request: Response(503, {}, b"busy")
        result = self._request(_WRITE)

        self.assertEqual(self.successResultOf(result).status, 503)
        self.assertFalse(self._written())

    def test_garbled(self) -> None:
        """
        The answer may be replaced on its way, by an error too: it is done.
        """
        for found in (Response(500, {}, b""), ConsulUnavailable("reset")):
            self.network.garbled = partial(_give, found)
            result = self._request(_WRITE)

            if isinstance(found, Response):
                self.assertEqual(self.successResultOf(result), found)
            else:
                self.failureResultOf(result, ConsulUnavailable)
            self.assertTrue(self._written())

    def test_given_up_request_is_withdrawn(self) -> None:
        """
        A request that timed out on its way is not done later.
        """
        self.network.partition()
        result = self._request(_WRITE)
        self.clock.advance(5)
        self.failureResultOf(result, RequestTimedOut)
        self.network.heal()

        self.assertFalse(self._written())

    def test_given_up_request_lands_late(self) -> None:
        """
        Unless it lands late: then it is done, and nobody hears of it.
        """
        self.network.lands_late = lambda request: request.method == "PUT"
        self.network.partition()
        timed_out = self._request(_WRITE)
        self.clock.advance(5)
        self.failureResultOf(timed_out, RequestTimedOut)
        self.network.heal()
        self.assertTrue(self._written())

        self.network.latency = lambda request: 1.0
        cancelled = self._request(Request("PUT", "/v1/kv/b", body=b"v"))
        cancelled.cancel()
        self.failureResultOf(cancelled, CancelledError)
        self.clock.advance(1)
        self.assertEqual(len(self.consul.state.kv), 2)

    def test_late_watch_is_forgotten(self) -> None:
        """
        A blocking query that lands late waits for nobody.
        """
        self.network.lands_late = lambda request: True
        self.network.latency = lambda request: 1.0
        watch = self._request(_WATCH)
        watch.cancel()
        self.failureResultOf(watch, CancelledError)
        self.clock.advance(1)

        self.assertEqual(self.consul.agent.waiting, 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class ProcessTests(SynchronousTestCase):
    """
    Requests of a process that stands still, or is gone.
    """

    def setUp(self) -> None:
        """
        Make a Consul, and a process that asks it.
        """
        self.time = Timeline()
        self.state = ConsulState(self.time)
        self.process = self.time.process()
        self.agent = self.state.agent()
        self.transport = MemoryTransport(self.agent, self.process)
        self.network = self.transport.network

    def test_stands_still(self) -> None:
        """
        A request that was sent is done though its sender stands still; the
        answer waits for it, and so does the deadline.
        """
        self.network.latency = self.network.reply_latency = lambda request: 1.0
        answered, late = map(self.transport.request, (_WRITE, _WATCH))
        self.process.pause()
        self.time.advance(500)
        self.assertEqual(len(self.state.kv), 1)
        self.assertNoResult(answered)

        self.process.resume(arrivals_first=True)
        self.time.advance(0)

        self.assertEqual(self.successResultOf(answered).status, 200)
        self.assertEqual(self.successResultOf(late).body[:1], b"[")

    def test_severed(self) -> None:
        """
        Of a process that is gone no request waits at the agent; one on its way
        arrives only if it lands late.
        """
        for lands_late in (False, True):
            self.network.latency = lambda request: 0.0
            watch = self.transport.request(_WATCH)
            self.time.advance(0)
            self.network.latency = lambda request: 1.0
            self.network.lands_late = partial(_give, lands_late)
            write = self.transport.request(_WRITE)

            self.transport.sever()
            self.time.advance(100)

            self.assertEqual((self.agent.waiting, self.transport.under_way), (0, 0))
            self.assertEqual(len(self.state.kv), int(lands_late))
            self.assertNoResult(watch)
            self.assertNoResult(write)
