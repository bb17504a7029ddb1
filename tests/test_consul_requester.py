"""
Tests for the requester, its token source and the typed verbs, over a scripted
transport.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.model import (
    CheckState,
    Entry,
    KeyNames,
    Op,
    Reading,
    ServiceSpec,
    SessionInfo,
    SessionSpec,
)
from voltha_coord.consul.requester import (
    LEADERLESS_SECONDS,
    OVERTAKEN_SECONDS,
    SILENT_REQUESTS,
    Outcome,
    Requester,
)
from voltha_coord.consul.token import TokenSource
from voltha_coord.consul.transport import (
    ITransport,
    Lane,
    LaneBusy,
    NotConnected,
    Overtaken,
    Request,
    Response,
)
from voltha_coord.errors import (
    AccessDenied,
    CheckLost,
    ConfigurationError,
    ConsulError,
    ConsulUnavailable,
    ForeignAnswer,
    InvalidSession,
    NoClusterLeader,
    RequestTimedOut,
    TransactionRefused,
)

Scripted = Response | Exception | Deferred[Response]


@implementer(ITransport)
class ScriptedTransport:
    """
    Answers each request with the next thing of its script, and keeps it.
    """

    def __init__(self, *script: Scripted, name: str = "agent") -> None:
        self.script = list(script)
        self.requests: list[Request] = []
        self.closed = False
        self._name = name

    def __str__(self) -> str:
        return self._name

    def request(self, request: Request) -> Deferred[Response]:
        """
        Answer.
        """
        self.requests.append(request)
        step = self.script.pop(0)
        if isinstance(step, Deferred):
            return step
        return fail(step) if isinstance(step, Exception) else succeed(step)

    def close(self) -> Deferred[None]:
        """
        Note that it is closed.
        """
        self.closed = True
        return succeed(None)


def ok(data: Any, index: int | None = None) -> Response:
    """
    Make a good answer.
    """
    headers = {} if index is None else {"x-consul-index": str(index)}
    return Response(200, headers, json.dumps(data).encode())


def said(
    status: int, body: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """
    Make an answer in words.
    """
    return Response(status, headers or {}, body.encode())


GET = Request("GET", "/v1/kv/x")


class TokenSourceTests(SynchronousTestCase):
    """
    Where the token comes from.
    """

    def write(self, text: str) -> str:
        """
        Make a token file.
        """
        path = Path(self.mktemp())
        path.write_text(text)
        return str(path)

    def test_none(self) -> None:
        """
        No token, or an empty one, is none.
        """
        self.assertIsNone(TokenSource().value)
        self.assertIsNone(TokenSource("").value)
        self.assertFalse(TokenSource().refresh())

    def test_file_wins(self) -> None:
        """
        A file wins over a plain token unless it is empty, as in Consul.
        """
        self.assertEqual(TokenSource("plain", self.write(" filed\n")).value, "filed")
        self.assertEqual(TokenSource("plain", self.write("\n")).value, "plain")

    def test_unreadable(self) -> None:
        """
        A file that cannot be read at the start is an error naming it.
        """
        error = self.assertRaises(ConfigurationError, TokenSource, None, "/no/file")
        self.assertEqual(
            str(error),
            "token file '/no/file' cannot be read: No such file or directory",
        )

    def test_not_a_token(self) -> None:
        """
        A file of several lines or of binary data holds no token, and is not
        put into a header.
        """
        for text in ("one\ntwo", "caf\u00e9", "a\0b"):
            self.assertRaises(ConfigurationError, TokenSource, None, self.write(text))
        binary = self.write("")
        Path(binary).write_bytes(b"\xff\xfe")
        error = self.assertRaises(ConfigurationError, TokenSource, None, binary)
        self.assertIn("holds something that is not a token", str(error))

    def test_refresh(self) -> None:
        """
        It says whether the file has another token now.
        """
        path = self.write("one")
        source = TokenSource(None, path)

        same = source.refresh()
        Path(path).write_text("two")
        other = source.refresh()

        self.assertEqual((same, other, source.value), (False, True, "two"))

    def test_refresh_unreadable(self) -> None:
        """
        A file that is gone later leaves the token, and says so.
        """
        path = self.write("one")
        source = TokenSource(None, path)
        Path(path).unlink()

        with capture_logs() as logs:
            changed = source.refresh()

        self.assertFalse(changed)
        self.assertEqual(source.value, "one")
        self.assertEqual([e["event"] for e in logs], ["token-file-unreadable"])

    def test_set(self) -> None:
        """
        Another plain token may be set.
        """
        source = TokenSource("one")
        source.set("two")
        self.assertEqual(source.value, "two")

    def test_hidden(self) -> None:
        """
        The token does not show.
        """
        self.assertNotIn("s3cret", repr(TokenSource("s3cret")))


class RequesterTests(SynchronousTestCase):
    """
    What every request passes through.
    """

    def test_fake_is_a_transport(self) -> None:
        """
        The double provides what it says.
        """
        self.assertTrue(verifyObject(ITransport, ScriptedTransport()))

    def test_no_transport(self) -> None:
        """
        Without any agent there is no requester.
        """
        self.assertRaises(ValueError, Requester, [])

    def test_plain(self) -> None:
        """
        With nothing to add the request goes out as it is.
        """
        transport = ScriptedTransport(ok(1))

        response = self.successResultOf(Requester([transport]).request(GET))

        self.assertEqual(response.body, b"1")
        self.assertEqual(transport.requests, [GET])

    def test_dressed(self) -> None:
        """
        Token, datacenter, namespace and headers are added.
        """
        transport = ScriptedTransport(ok(1))
        requester = Requester(
            [transport],
            token=TokenSource("t0"),
            datacenter="east",
            namespace="team",
            headers={"Authorization": "Basic x"},
        )

        self.successResultOf(requester.request(GET))

        (sent,) = transport.requests
        self.assertEqual(
            dict(sent.headers), {"X-Consul-Token": "t0", "Authorization": "Basic x"}
        )
        self.assertEqual(sent.params, (("dc", "east"), ("ns", "team")))

    def test_the_request_wins(self) -> None:
        """
        A token or datacenter of the request itself stays.
        """
        transport = ScriptedTransport(ok(1))
        requester = Requester([transport], token=TokenSource("t0"), datacenter="east")

        self.successResultOf(
            requester.request(
                Request(
                    "GET",
                    "/v1/kv/x",
                    (("dc", "west"),),
                    headers={"X-Consul-Token": "t1"},
                )
            )
        )

        (sent,) = transport.requests
        self.assertEqual(dict(sent.headers), {"X-Consul-Token": "t1"})
        self.assertEqual(sent.params, (("dc", "west"),))

    def test_error_is_typed(self) -> None:
        """
        An answer that is an error is raised as one.
        """
        requester = Requester([ScriptedTransport(said(500, "No cluster leader"))])

        self.failureResultOf(requester.request(GET), NoClusterLeader)

    def test_missing_is_an_answer(self) -> None:
        """
        A 404 is the verb's to judge.
        """
        requester = Requester([ScriptedTransport(said(404))])

        self.assertEqual(self.successResultOf(requester.request(GET)).status, 404)

    def rotating(self, *script: Scripted) -> tuple[Requester, ScriptedTransport, Path]:
        """
        Make a requester with a token file.
        """
        path = Path(self.mktemp())
        path.write_text("old")
        transport = ScriptedTransport(*script)
        source = TokenSource(None, str(path))
        return Requester([transport], token=source), transport, path

    def test_token_rotated(self) -> None:
        """
        On a 403 the token file is read again, and the request repeated once with the
        new token (field report 109).
        """
        requester, transport, path = self.rotating(said(403), ok(1))
        path.write_text("new")

        self.successResultOf(requester.request(GET))

        self.assertEqual(
            [r.headers["X-Consul-Token"] for r in transport.requests], ["old", "new"]
        )

    def test_token_not_rotated(self) -> None:
        """
        With the same token in the file nothing is repeated.
        """
        requester, transport, _ = self.rotating(said(403))

        self.failureResultOf(requester.request(GET), AccessDenied)
        self.assertEqual(len(transport.requests), 1)

    def test_token_rotated_in_vain(self) -> None:
        """
        A second 403 is the end of it.
        """
        requester, transport, path = self.rotating(said(403), said(403))
        path.write_text("new")

        self.failureResultOf(requester.request(GET), AccessDenied)
        self.assertEqual(len(transport.requests), 2)

    def test_own_token_denied(self) -> None:
        """
        When the request brought its own token, the file is none of its
        business.
        """
        requester, transport, path = self.rotating(said(403))
        path.write_text("new")

        self.failureResultOf(
            requester.request(Request("GET", "/v1/x", headers={"X-Consul-Token": "t"})),
            AccessDenied,
        )
        self.assertEqual(len(transport.requests), 1)

    def test_outcomes(self) -> None:
        """
        Every outcome is told: whether Consul answered, what was wrong, how
        long it took.
        """
        told: list[tuple[bool, type[ConsulError] | None, float]] = []
        now = iter([0.0, 1.0, 10.0, 12.0, 20.0, 23.0, 30.0, 34.0])
        requester = Requester(
            [ScriptedTransport(ok(1), said(403), said(502), RequestTimedOut("late"))],
            on_outcome=lambda outcome: told.append(
                (
                    outcome.answered,
                    None if outcome.error is None else type(outcome.error),
                    outcome.seconds,
                )
            ),
            now=lambda: next(now),
        )

        self.successResultOf(requester.request(GET))
        self.failureResultOf(requester.request(GET), AccessDenied)
        self.failureResultOf(requester.request(GET), ConsulUnavailable)
        self.failureResultOf(requester.request(GET), RequestTimedOut)

        self.assertEqual(
            told,
            [
                (True, None, 1.0),
                (True, AccessDenied, 2.0),
                (False, ConsulUnavailable, 3.0),
                (False, RequestTimedOut, 4.0),
            ],
        )

    def test_answered_by_another(self) -> None:
        """
        A success that is not Consul's counts as no answer, and after as many as
        any others the next agent is tried.
        """
        told: list[ConsulError | None] = []
        foreign = [said(200) for _ in range(SILENT_REQUESTS)]
        requester = Requester(
            [ScriptedTransport(*foreign, name="one"), ScriptedTransport(ok(1))],
            on_outcome=lambda outcome: told.append(outcome.error),
        )

        for _ in foreign:
            self.failureResultOf(requester.request(GET), ForeignAnswer)

        self.assertEqual([type(one) for one in told], [ForeignAnswer] * len(foreign))
        self.assertEqual(requester.switches, 1)
        self.assertEqual(self.successResultOf(requester.request(GET)).body, b"1")

    def test_each_agent_has_its_voice(self) -> None:
        """
        How one agent answers says nothing about how another does.
        """
        passes = Request("PUT", "/v1/agent/check/pass/x")
        voice = {"x-consul-index": "7", "vary": "Accept-Encoding"}
        requester = Requester(
            [
                ScriptedTransport(said(200, "[]", voice), said(200), NotConnected("")),
                ScriptedTransport(said(200)),
            ]
        )
        self.successResultOf(requester.request(GET))
        self.failureResultOf(requester.request(passes), ForeignAnswer)
        self.failureResultOf(requester.request(passes), NotConnected)

        self.successResultOf(requester.request(passes))

    def lost(self, *lanes: Lane) -> list[Deferred[Response]]:
        """
        Send requests that are not answered, a second apart.
        """
        self.now = 0.0
        self.cancelled: list[Deferred[Response]] = []
        self.told: list[Outcome] = []
        silent: list[Deferred[Response]] = [
            Deferred(self.cancelled.append) for _ in lanes
        ]
        self.requester = Requester(
            [ScriptedTransport(*silent, name="one"), ScriptedTransport()],
            on_outcome=self.told.append,
            now=lambda: self.now,
        )
        sent = []
        for lane in lanes:
            sent.append(self.requester.request(Request("PUT", "/v1/txn", lane=lane)))
            self.now += OVERTAKEN_SECONDS
        self.now -= OVERTAKEN_SECONDS
        return sent

    def test_lost_in_an_outage(self) -> None:
        """
        A command that Consul should have answered is given up once it answers
        again, one sent just now is not; that says nothing about the agent.
        """
        old, new = self.lost(Lane.COMMAND, Lane.COMMAND)

        self.requester.give_up_lost()

        error = self.failureResultOf(old, Overtaken).value
        self.assertIn("PUT /v1/txn: no answer in 1 s", str(error))
        self.assertNoResult(new)
        self.assertEqual(len(self.cancelled), 1)
        self.assertEqual([one.error for one in self.told], [error])
        self.assertEqual(self.requester.switches, 0)
        self.requester.give_up_lost()
        self.assertEqual(len(self.told), 1)

    def test_lost_together(self) -> None:
        """
        Whoever hears that one command is given up may give up others himself.
        """
        first, second, _ = self.lost(Lane.COMMAND, Lane.COMMAND, Lane.COMMAND)
        first.addErrback(lambda failure: second.cancel())

        self.requester.give_up_lost()

        self.failureResultOf(second, CancelledError)
        self.assertEqual(len(self.cancelled), 2)

    def test_blocking_queries_wait(self) -> None:
        """
        What may take its time, or has a short deadline of its own, is not.
        """
        sent = self.lost(Lane.WATCH, Lane.APPLICATION, Lane.SESSION, Lane.SESSION)

        self.requester.give_up_lost()

        for one in sent:
            self.assertNoResult(one)

    def test_cancelled_is_not_lost(self) -> None:
        """
        A command that its sender cancels fails as ever, and is forgotten.
        """
        old, _ = self.lost(Lane.COMMAND, Lane.COMMAND)

        old.cancel()
        self.requester.give_up_lost()

        self.failureResultOf(old, CancelledError)
        self.assertEqual(self.told, [])

    def test_busy_lane(self) -> None:
        """
        That all our own connections were taken is told as well, and is no
        reason to leave the agent.
        """
        told: list[ConsulError | None] = []
        busy = [LaneBusy("all taken") for _ in range(SILENT_REQUESTS)]
        requester = Requester(
            [ScriptedTransport(*busy, name="one"), ScriptedTransport(name="other")],
            on_outcome=lambda outcome: told.append(outcome.error),
        )

        for _ in busy:
            self.failureResultOf(requester.request(GET), LaneBusy)

        self.assertEqual(told, busy)
        self.assertEqual((requester.address, requester.switches), ("one", 0))

    def test_cancelled(self) -> None:
        """
        A cancelled request fails with CancelledError, and is no outcome.
        """
        told: list[bool] = []
        requester = Requester(
            [ScriptedTransport(Deferred())],
            on_outcome=lambda outcome: told.append(outcome.answered),
        )

        result = requester.request(GET)
        result.cancel()

        self.failureResultOf(result, CancelledError)
        self.assertEqual(told, [])

    def test_close(self) -> None:
        """
        Closing closes every transport.
        """
        transports = [ScriptedTransport(), ScriptedTransport()]

        self.successResultOf(Requester(transports).close())

        self.assertEqual([t.closed for t in transports], [True, True])


class SeveralAgentsTests(SynchronousTestCase):
    """
    Several agents, tried in turn.
    """

    def ask(self, requester: Requester, times: int = 1) -> None:
        """
        Send requests, whatever becomes of them.
        """
        for _ in range(times):
            requester.request(GET).addErrback(lambda _: None)

    def test_refused(self) -> None:
        """
        An agent that cannot be connected to is left for the next one, with which later
        requests stay; the log says so (field report 71).
        """
        one = ScriptedTransport(NotConnected("refused"), name="one")
        other = ScriptedTransport(ok(1), ok(2), name="other")
        requester = Requester([one, other])

        with capture_logs() as logs:
            self.failureResultOf(requester.request(GET), NotConnected)
        self.ask(requester, 2)

        self.assertEqual((len(one.requests), len(other.requests)), (1, 2))
        self.assertEqual((requester.address, requester.switches), ("other", 1))
        self.assertEqual(
            [(e["event"], e["left"], e["to"]) for e in logs],
            [("consul-agent-switched", "one", "other")],
        )

    def test_round(self) -> None:
        """
        After the last one comes the first again.
        """
        one = ScriptedTransport(NotConnected("refused"), ok(1))
        other = ScriptedTransport(NotConnected("refused"))
        requester = Requester([one, other])

        self.ask(requester, 3)

        self.assertEqual((len(one.requests), len(other.requests)), (2, 1))

    def test_slow(self) -> None:
        """
        A request without an answer is no reason to leave an agent (it may
        be waiting for a leader); several in a row are.
        """
        one = ScriptedTransport(*[RequestTimedOut("late")] * SILENT_REQUESTS)
        other = ScriptedTransport(ok(1))
        requester = Requester([one, other])

        self.ask(requester, SILENT_REQUESTS - 1)
        self.assertEqual(requester.address, str(one))
        self.ask(requester, 2)

        self.assertEqual(len(other.requests), 1)

    def test_slow_now_and_then(self) -> None:
        """
        Any answer in between, if only an error, shows that the agent lives.
        """
        silence = RequestTimedOut("late")
        script: list[Scripted] = [
            *[silence] * (SILENT_REQUESTS - 1),
            said(500, "No cluster leader"),
        ]
        one = ScriptedTransport(*script * 3, name="one")
        requester = Requester([one, ScriptedTransport(name="other")])

        self.ask(requester, len(script) * 3)

        self.assertEqual(requester.address, "one")

    def leaderless(self, *extra: tuple[float, Scripted, Request]) -> Requester:
        """
        Ask an agent whose servers have no leader, for as long as it is borne.

        :param extra: when another answer comes, which, and to what.
        """
        nothing = said(500, "No cluster leader")
        asked = [(0.0, nothing, GET), *extra, (LEADERLESS_SECONDS, nothing, GET)]
        now = [0.0]
        one = ScriptedTransport(*(answer for _, answer, _ in asked), name="one")
        requester = Requester(
            [one, ScriptedTransport(name="other")], now=lambda: now[0]
        )
        for at, _, request in asked:
            now[0] = at
            requester.request(request).addErrback(lambda _: None)
        return requester

    def test_leaderless(self) -> None:
        """
        An agent that has lost its servers for longer than an election takes is
        left, though it goes on answering for itself.
        """
        of_agent = Request("PUT", "/v1/agent/check/pass/a")

        requester = self.leaderless((5.0, ok(1), of_agent))

        self.assertEqual(requester.address, "other")

    def test_leaderless_for_a_while(self) -> None:
        """
        One whose servers answer in between is not.
        """
        requester = self.leaderless((5.0, ok(1), GET))

        self.assertEqual(requester.address, "one")

    def test_many_at_once(self) -> None:
        """
        Requests that fail together move on by one agent, not by one each.
        """
        waiting: list[Deferred[Response]] = [Deferred() for _ in range(3)]
        one = ScriptedTransport(*waiting, name="one")
        requester = Requester(
            [one, ScriptedTransport(name="two"), ScriptedTransport(name="three")]
        )
        self.ask(requester, 3)

        for answer in waiting:
            answer.errback(NotConnected("refused"))

        self.assertEqual(requester.address, "two")

    def test_late_failure(self) -> None:
        """
        The failure of an agent that was left already says nothing about the
        one requests go to by then.
        """
        late: Deferred[Response] = Deferred()
        requester = Requester(
            [
                ScriptedTransport(late, NotConnected("refused"), name="one"),
                ScriptedTransport(NotConnected("refused"), name="two"),
                ScriptedTransport(name="three"),
            ]
        )
        self.ask(requester, 3)
        self.assertEqual(requester.address, "three")

        late.errback(NotConnected("reset"))

        self.assertEqual(requester.address, "three")

    def test_alone(self) -> None:
        """
        With one agent there is nothing to switch to and nothing to say.
        """
        requester = Requester([ScriptedTransport(NotConnected("refused"))])

        with capture_logs() as logs:
            self.ask(requester)

        self.assertEqual(logs, [])


ROW = {
    "Key": "a",
    "Value": "dg==",
    "Flags": 3,
    "CreateIndex": 5,
    "ModifyIndex": 7,
    "LockIndex": 1,
    "Session": "s",
}
ENTRY = Entry("a", b"v", 3, 5, 7, 1, "s")


class ApiTests(SynchronousTestCase):
    """
    Consul's verbs: what is sent, and what is made of the answer.
    """

    def api(self, *script: Scripted) -> ConsulApi:
        """
        Make an API over a script.
        """
        self.transport = ScriptedTransport(*script)
        return ConsulApi(
            Requester([self.transport]),
            command_timeout=10.0,
            session_timeout=2.0,
            watch_margin=5.0,
        )

    @property
    def sent(self) -> Request:
        """
        The only request that was sent.
        """
        (request,) = self.transport.requests
        return request

    def test_get(self) -> None:
        """
        A key is read with its index.
        """
        api = self.api(ok([ROW], 9))

        reading = self.successResultOf(api.get("a"))

        self.assertEqual(reading, Reading(9, (ENTRY,)))
        self.assertEqual(self.sent, Request("GET", "/v1/kv/a", deadline=10.0))

    def test_get_missing(self) -> None:
        """
        A missing key is an empty reading with an index.
        """
        api = self.api(said(404, "", {"x-consul-index": "9"}))

        reading = self.successResultOf(api.get("a"))

        self.assertEqual(reading, Reading(9))
        self.assertIsNone(reading.entry)

    def test_not_found_by_a_proxy(self) -> None:
        """
        A 404 without Consul's index is not a missing key.
        """
        self.failureResultOf(self.api(said(404, "nope")).get("a"), ConsulUnavailable)
        self.failureResultOf(self.api(said(404, "nope")).keys("a"), ConsulUnavailable)

    def test_consistency(self) -> None:
        """
        Consistent wins over stale; both are bare flags.
        """
        for consistent, stale, params in (
            (True, True, (("consistent", None),)),
            (False, True, (("stale", None),)),
        ):
            api = self.api(ok([ROW], 9))
            self.successResultOf(api.get("a", consistent=consistent, stale=stale))
            self.assertEqual(self.sent.params, params)

    def test_blocking(self) -> None:
        """
        With an index the read blocks, on the lane of the watches, with a deadline after
        Consul's own (B10, V7; field report 91).
        """
        api = self.api(ok([ROW], 9))

        self.successResultOf(api.list("a/", index=8, wait=16.0))

        self.assertEqual(
            self.sent.params, (("recurse", None), ("index", "8"), ("wait", "16s"))
        )
        self.assertIs(self.sent.lane, Lane.WATCH)
        self.assertEqual(self.sent.deadline, 16.0 * 17 / 16 + 5.0)

    def test_keys(self) -> None:
        """
        Names are read, up to a separator.
        """
        api = self.api(ok(["a/b/", "a/c"], 9))

        names = self.successResultOf(api.keys("a/", separator="/"))

        self.assertEqual(names, KeyNames(9, ("a/b/", "a/c")))
        self.assertEqual(self.sent.params, (("keys", None), ("separator", "/")))

    def test_keys_missing(self) -> None:
        """
        No keys is no error.
        """
        api = self.api(said(404, "", {"x-consul-index": "9"}))

        self.assertEqual(self.successResultOf(api.keys("a/")), KeyNames(9))

    def test_null_rows(self) -> None:
        """
        ``null`` for an empty list is an empty list.
        """
        self.assertEqual(
            self.successResultOf(self.api(ok(None, 3)).list("a/")), Reading(3)
        )

    def test_unknown_rows(self) -> None:
        """
        JSON of another shape is no answer, never a stray error (field report
        97).
        """
        for data in (
            7,
            "x",
            {"a": 1},
            [1],
            [{"Value": "x"}],
            [{"Key": "a", "Value": "%"}],
            [{"Key": "a", "ModifyIndex": "many"}],
            [None],
        ):
            self.failureResultOf(self.api(ok(data, 9)).list("a"), ConsulUnavailable)

    def test_unknown_json_everywhere(self) -> None:
        """
        Every verb survives JSON of another shape, and no JSON.
        """
        verbs: list[Callable[[ConsulApi], Deferred[Any]]] = [
            lambda api: api.get("a"),
            lambda api: api.keys("a"),
            lambda api: api.put("a", b""),
            lambda api: api.delete("a"),
            lambda api: api.txn([Op.get("a")]),
            lambda api: api.create_session(SessionSpec("n", 10, 1)),
            lambda api: api.renew_session("s"),
            lambda api: api.session("s"),
            lambda api: api.sessions(),
            lambda api: api.node_checks("n"),
            lambda api: api.agent_self(),
            lambda api: api.status_leader(),
        ]
        for verb in verbs:
            for body in ("", "[", "[17]", "17", '{"Results": [{}]}', '{"ID": 3}'):
                answer = said(200, body, {"x-consul-index": "3"})
                if body.startswith("{") and verb is verbs[10]:
                    continue
                self.failureResultOf(verb(self.api(answer)), ConsulUnavailable)

    def test_denied(self) -> None:
        """
        A key is denied if reading it answers 403, whether it exists or not.
        """
        for answer, denied in (
            (said(403), True),
            (said(404, "", {"x-consul-index": "9"}), False),
            (ok([ROW], 9), False),
        ):
            self.assertIs(self.successResultOf(self.api(answer).denied("p")), denied)

    def test_put(self) -> None:
        """
        A write says what it is under, and tells whether it was done.
        """
        for arguments, params in (
            ({}, ()),
            ({"cas": 0}, (("cas", "0"),)),
            ({"acquire": "s"}, (("acquire", "s"),)),
            ({"release": "s", "flags": 2}, (("release", "s"), ("flags", "2"))),
        ):
            api = self.api(said(200, "false\n"))
            written = self.successResultOf(api.put("a", b"v", **arguments))
            self.assertIs(written, False)
            self.assertEqual(
                self.sent, Request("PUT", "/v1/kv/a", params, b"v", deadline=10.0)
            )

    def test_delete(self) -> None:
        """
        A delete may be conditional or recursive.
        """
        api = self.api(ok(True))
        self.assertIs(self.successResultOf(api.delete("a", cas=3)), True)
        self.assertEqual(self.sent.params, (("cas", "3"),))
        api = self.api(ok(True))
        self.successResultOf(api.delete("a/", recurse=True))
        self.assertEqual(self.sent.params, (("recurse", None),))
        self.assertEqual(self.sent.method, "DELETE")

    def test_txn(self) -> None:
        """
        A transaction's results come in order.
        """
        row = {**ROW, "Value": None}
        api = self.api(ok({"Results": [{"KV": row}, {"KV": ROW}], "Errors": None}))

        entries = self.successResultOf(api.txn([Op.set("a", b"v"), Op.get("a")]))

        self.assertEqual([e.value for e in entries], [b"", b"v"])
        self.assertEqual(
            json.loads(self.sent.body),
            [Op.set("a", b"v").to_json(), Op.get("a").to_json()],
        )

    def test_txn_lane(self) -> None:
        """
        A transaction may go with the session's requests, under their deadline.
        """
        api = self.api(ok({"Results": None}))

        self.successResultOf(
            api.txn([Op.delete("a")], lane=Lane.SESSION, consistent=True)
        )

        self.assertIs(self.sent.lane, Lane.SESSION)
        self.assertEqual(self.sent.deadline, 2.0)
        self.assertEqual(self.sent.params, (("consistent", None),))

    def test_txn_refused(self) -> None:
        """
        A refusal names the key of each operation; a position out of range
        breaks nothing.
        """
        errors = [{"OpIndex": 1, "What": "no"}, {"OpIndex": 9, "What": "what"}]
        api = self.api(said(409, json.dumps({"Errors": errors})))

        failure = self.failureResultOf(
            api.txn([Op.get("a"), Op.get("b")]), TransactionRefused
        )

        self.assertEqual(
            [(r.position, r.key, r.what) for r in failure.value.refusals],
            [(1, "b", "no"), (9, "", "what")],
        )

    def test_create_session(self) -> None:
        """
        Everything that has a default in Consul is sent.
        """
        api = self.api(ok({"ID": "s"}))

        session_id = self.successResultOf(
            api.create_session(
                SessionSpec("n", 15.0, 1.0, service_checks=("c",), node="here")
            )
        )

        self.assertEqual(session_id, "s")
        self.assertEqual(
            json.loads(self.sent.body),
            {
                "Name": "n",
                "Node": "here",
                "TTL": "15s",
                "LockDelay": "1s",
                "Behavior": "delete",
                "NodeChecks": [],
                "ServiceChecks": [{"ID": "c"}],
            },
        )
        self.assertIs(self.sent.lane, Lane.SESSION)
        self.assertEqual(self.sent.deadline, 2.0)

    def test_renew(self) -> None:
        """
        A renewal tells the session, also of a Consul that writes durations as
        texts and calls node checks otherwise.
        """
        row = {
            "ID": "s",
            "Name": "n",
            "Node": "here",
            "TTL": "30s",
            "LockDelay": 1500000000,
            "Behavior": "delete",
            "CreateIndex": 4,
            "NodeChecks": None,
            "ServiceChecks": [{"ID": "c", "Namespace": ""}],
        }
        info = SessionInfo("s", "n", "here", 30.0, 1.5, "delete", 4, ("c",))
        other = {**row, "LockDelay": "1.5s", "NodeChecks": ["n"]}

        got = self.successResultOf(self.api(ok([row])).renew_session("s", timeout=0.5))
        self.assertEqual(self.sent.deadline, 0.5)
        got_other = self.successResultOf(self.api(ok([other])).renew_session("s"))

        self.assertEqual(got, info)
        self.assertEqual(got_other.node_checks, ("n",))

    def test_renew_gone(self) -> None:
        """
        Only Consul's own 404 says that a session is gone.
        """
        gone = said(404, "Session id 's' not found")
        self.failureResultOf(self.api(gone).renew_session("s"), InvalidSession)
        for answer in (
            said(404),
            said(404, "<html>not found</html>"),
            said(404, "no such route"),
        ):
            self.failureResultOf(self.api(answer).renew_session("s"), ConsulUnavailable)

    def test_destroy(self) -> None:
        """
        A session is ended.
        """
        self.assertIsNone(self.successResultOf(self.api(ok(True)).destroy_session("s")))
        self.assertEqual(self.sent.path, "/v1/session/destroy/s")

    def test_session(self) -> None:
        """
        A session is read consistently; one that is gone is ``None``.
        """
        for answer, found in ((ok([]), None), (ok(None), None)):
            self.assertIs(self.successResultOf(self.api(answer).session("s")), found)
        info = self.successResultOf(self.api(ok([{"ID": "s"}])).session("s"))
        self.assertEqual(info, SessionInfo("s"))
        self.assertEqual(self.sent.params, (("consistent", None),))

    def test_sessions(self) -> None:
        """
        All sessions are read.
        """
        api = self.api(ok([{"ID": "s"}, {"ID": "t"}]))
        self.assertEqual(
            self.successResultOf(api.sessions(consistent=False)),
            (SessionInfo("s"), SessionInfo("t")),
        )
        self.assertEqual(self.sent.params, ())

    def test_register(self) -> None:
        """
        The check of a service begins passing.
        """
        spec = ServiceSpec(
            "id", "name", "check", 3.0, "10.0.0.1", 8880, 60.0, ("t",), {"k": "v"}
        )

        self.successResultOf(self.api(said(200)).register_service(spec))

        self.assertEqual(
            json.loads(self.sent.body),
            {
                "ID": "id",
                "Name": "name",
                "Address": "10.0.0.1",
                "Port": 8880,
                "Tags": ["t"],
                "Meta": {"k": "v"},
                "Check": {
                    "CheckID": "check",
                    "Name": "name liveness",
                    "TTL": "3s",
                    "Status": "passing",
                    "DeregisterCriticalServiceAfter": "60s",
                },
            },
        )

    def test_deregister(self) -> None:
        """
        A service that is gone already is no error, in any version.
        """
        for answer in (
            said(200),
            said(404, 'Unknown service ID "id"'),
            said(500, 'Unknown service {"id" {}}'),
        ):
            self.assertIsNone(
                self.successResultOf(self.api(answer).deregister_service("id"))
            )

    def test_pass(self) -> None:
        """
        A check is passed, with a note if there is one.
        """
        self.successResultOf(self.api(said(200)).pass_check("c"))
        self.assertEqual(self.sent.params, ())
        self.successResultOf(self.api(said(200)).pass_check("c", "fine", timeout=0.3))
        self.assertEqual(self.sent.params, (("note", "fine"),))
        self.assertEqual(self.sent.deadline, 0.3)
        self.assertIs(self.sent.lane, Lane.SESSION)

    def test_pass_lost(self) -> None:
        """
        A check the agent does not know is lost: 500 in 1.8, 404 in newer ones.
        """
        for answer in (
            said(500, 'CheckID "c" does not have associated TTL'),
            said(404, 'Unknown check ID "c". Ensure that the check ID is passed'),
        ):
            self.failureResultOf(self.api(answer).pass_check("c"), CheckLost)

    def test_node_checks(self) -> None:
        """
        The checks of a node are read consistently.
        """
        row = {
            "Node": "n",
            "CheckID": "c",
            "Status": "critical",
            "Output": "TTL expired",
            "ServiceID": "s",
        }
        self.assertEqual(
            self.successResultOf(self.api(ok([row])).node_checks("n")),
            (CheckState("n", "c", "critical", "TTL expired", "s"),),
        )
        self.assertEqual(self.sent.params, (("consistent", None),))

    def test_agent(self) -> None:
        """
        The agent's own record and the servers' leader are read.
        """
        self.assertEqual(
            self.successResultOf(self.api(ok({"Config": {}})).agent_self()),
            {"Config": {}},
        )
        self.assertEqual(
            self.successResultOf(self.api(ok("10.0.0.1:8300")).status_leader()),
            "10.0.0.1:8300",
        )

    def test_endpoint_missing(self) -> None:
        """
        A 404 of an endpoint that always exists is not Consul's.
        """
        self.failureResultOf(self.api(said(404)).status_leader(), ConsulUnavailable)
        self.failureResultOf(self.api(said(404)).put("a", b""), ConsulUnavailable)
        self.failureResultOf(self.api(said(404)).txn([Op.get("a")]), ConsulUnavailable)
