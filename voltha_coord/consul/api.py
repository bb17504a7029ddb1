"""
Consul's verbs, typed: what the rest of this package calls.

Nothing here holds state.  Every method returns a Deferred that fails with a
:class:`~voltha_coord.errors.ConsulError` and with nothing else (but
``CancelledError``, when it was cancelled).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.python.failure import Failure

from .._types import Steps
from ..errors import (
    AccessDenied,
    CheckLost,
    ConsulUnavailable,
    InvalidSession,
    KeyNotFound,
    TransactionRefused,
)
from .classify import excerpt, index_of
from .durations import to_go
from .encoding import encode_body
from .model import (
    CheckState,
    Entry,
    KeyNames,
    Op,
    Reading,
    ServiceSpec,
    SessionInfo,
    SessionSpec,
)
from .requester import Requester
from .rows import (
    check_state,
    entries_of,
    service_body,
    session_body,
    session_info,
    txn_entries,
)
from .shapes import record_of, rows_of, shaped, text_of, truth
from .transport import Lane, Request, Response

#: One query parameter; ``None`` is a bare flag.
Param = tuple[str, str | None]

#: Consul adds up to a sixteenth of the wait, so that watchers do not wake
#: all at once.
WAIT_JITTER = 17 / 16


def watch_deadline(wait: float, margin: float) -> float:
    """
    Give the seconds after which a blocking query is lost.  Never less than
    Consul may take: an abandoned query keeps its connection on the agent until
    the wait is over (defects B10 and V7).
    """
    return wait * WAIT_JITTER + margin


def _consistency(consistent: bool, stale: bool = False) -> tuple[Param, ...]:
    if consistent:
        return (("consistent", None),)
    return (("stale", None),) if stale else ()


class ConsulApi:
    """
    Consul's verbs over a :class:`~voltha_coord.consul.requester.Requester`.

    :param command_timeout: deadline of reads and writes, in seconds.
    :param session_timeout: deadline of the session's own requests, in seconds.
    :param watch_margin: how long after its wait a blocking query is given up,
        in seconds.
    """

    def __init__(
        self,
        requester: Requester,
        *,
        command_timeout: float = 10.0,
        session_timeout: float = 2.0,
        watch_margin: float = 5.0,
    ) -> None:
        self.requester = requester
        self.command_timeout = command_timeout
        self.session_timeout = session_timeout
        self.watch_margin = watch_margin

    def _deadline(self, lane: Lane) -> float:
        """
        Give the seconds a request may take that answers at once.
        """
        return self.session_timeout if lane is Lane.SESSION else self.command_timeout

    # -- Keys ---------------------------------------------------------------

    def _read_request(
        self,
        key: str,
        params: tuple[Param, ...],
        index: int,
        wait: float,
        consistent: bool,
        stale: bool,
        lane: Lane = Lane.COMMAND,
    ) -> Request:
        params += _consistency(consistent, stale)
        if index <= 0:
            deadline = self._deadline(lane)
            return Request("GET", f"/v1/kv/{key}", params, deadline=deadline, lane=lane)
        params += (("index", str(index)), ("wait", to_go(wait)))
        return Request(
            "GET",
            f"/v1/kv/{key}",
            params,
            deadline=watch_deadline(wait, self.watch_margin),
            lane=Lane.WATCH,
        )

    def _read(
        self,
        key: str,
        params: tuple[Param, ...],
        index: int,
        wait: float,
        consistent: bool,
        stale: bool,
        lane: Lane = Lane.COMMAND,
    ) -> Deferred[Reading]:
        return self.requester.request(
            self._read_request(key, params, index, wait, consistent, stale, lane)
        ).addCallback(_reading)

    def get(
        self,
        key: str,
        *,
        index: int = 0,
        wait: float = 30.0,
        consistent: bool = False,
        stale: bool = False,
        lane: Lane = Lane.COMMAND,
    ) -> Deferred[Reading]:
        """
        Read one key; with an ``index``, once it may have changed since.

        :param wait: seconds a blocking query waits at most.
        :param lane: what a read goes with that answers at once.
        :raises AccessDenied: when this token may not read the key.
        """
        return self._read(key, (), index, wait, consistent, stale, lane)

    def list(
        self,
        prefix: str,
        *,
        index: int = 0,
        wait: float = 30.0,
        consistent: bool = False,
        stale: bool = False,
    ) -> Deferred[Reading]:
        """
        Read all keys that begin with ``prefix``.  A denied prefix reads as an
        empty one: see :meth:`denied`.
        """
        return self._read(prefix, (("recurse", None),), index, wait, consistent, stale)

    def keys(
        self,
        prefix: str,
        *,
        separator: str | None = None,
        index: int = 0,
        wait: float = 30.0,
        consistent: bool = False,
        stale: bool = False,
    ) -> Deferred[KeyNames]:
        """
        Read the names of all keys that begin with ``prefix``, up to the next
        ``separator`` if there is one.
        """
        params: tuple[Param, ...] = (("keys", None),)
        if separator is not None:
            params += (("separator", separator),)
        return self.requester.request(
            self._read_request(prefix, params, index, wait, consistent, stale)
        ).addCallback(_key_names)

    @inlineCallbacks
    def denied(self, probe_key: str) -> Steps[bool]:
        """
        Whether this token may not read the key: what an empty listing is
        checked against before it is believed.
        """
        try:
            yield self.get(probe_key)
        except AccessDenied:
            return True
        return False

    def put(
        self,
        key: str,
        value: bytes,
        *,
        cas: int | None = None,
        acquire: str | None = None,
        release: str | None = None,
        flags: int = 0,
    ) -> Deferred[bool]:
        """
        Write one key; say whether it was written.

        At most one of ``cas``, ``acquire`` and ``release``.

        :raises InvalidSession: when the session to acquire for is no more.
        """
        params: list[Param] = []
        if cas is not None:
            params.append(("cas", str(cas)))
        if acquire is not None:
            params.append(("acquire", acquire))
        if release is not None:
            params.append(("release", release))
        if flags:
            params.append(("flags", str(flags)))
        return self._command("PUT", f"/v1/kv/{key}", *params, body=value).addCallback(
            shaped, truth
        )

    def delete(
        self, key: str, *, cas: int | None = None, recurse: bool = False
    ) -> Deferred[bool]:
        """
        Delete a key, or with ``recurse`` all that begin with it; say whether
        nothing stood in the way (a missing key does not).
        """
        params: list[Param] = []
        if cas is not None:
            params.append(("cas", str(cas)))
        if recurse:
            params.append(("recurse", None))
        return self._command("DELETE", f"/v1/kv/{key}", *params).addCallback(
            shaped, truth
        )

    def txn(
        self,
        ops: Sequence[Op],
        *,
        consistent: bool = False,
        lane: Lane = Lane.COMMAND,
    ) -> Deferred[tuple[Entry, ...]]:
        """
        Apply operations all together or not at all; give their results in
        order (one each, except that ``get-tree`` gives as many as there are
        keys, and deletes and ``check-not-exists`` none).

        :raises TransactionRefused: naming each operation that was refused.
        """

        def name_keys(failure: Failure) -> Failure:
            error = failure.value
            if not isinstance(error, TransactionRefused):
                return failure
            raise TransactionRefused(
                [
                    evolve(refusal, key=ops[refusal.position].key)
                    if 0 <= refusal.position < len(ops)
                    else refusal
                    for refusal in error.refusals
                ]
            ) from error

        request = Request(
            "PUT",
            "/v1/txn",
            _consistency(consistent),
            encode_body(ops),
            deadline=self._deadline(lane),
            lane=lane,
        )
        return self.requester.request(request).addCallbacks(_results, name_keys)

    # -- Sessions -----------------------------------------------------------

    @inlineCallbacks
    def create_session(self, spec: SessionSpec) -> Steps[str]:
        """
        Make a session; give its id.

        :raises CheckLost: when a check to bind is missing or critical.
        :raises InvalidSessionTTL: when the servers refuse the TTL.
        """
        response = yield self._session(
            "PUT", "/v1/session/create", body=session_body(spec)
        )
        return shaped(response, lambda data: text_of(data["ID"]))

    def renew_session(
        self, session_id: str, *, timeout: float | None = None
    ) -> Deferred[SessionInfo]:
        """
        Extend a session by its TTL.

        :param timeout: deadline in seconds, the session timeout by default.
        :raises InvalidSession: when there is no such session any more.
        """
        request = self._session_request(
            "PUT", f"/v1/session/renew/{session_id}", timeout=timeout
        )
        return self.requester.request(request).addCallback(_renewed)

    @inlineCallbacks
    def destroy_session(self, session_id: str) -> Steps[None]:
        """
        End a session; one that is gone already is no error.
        """
        yield self._session("PUT", f"/v1/session/destroy/{session_id}")

    @inlineCallbacks
    def session(
        self, session_id: str, *, consistent: bool = True
    ) -> Steps[SessionInfo | None]:
        """
        Read a session, ``None`` when it is gone.
        """
        response = yield self._session(
            "GET", f"/v1/session/info/{session_id}", *_consistency(consistent)
        )
        return shaped(response, lambda rows: session_info(rows[0]) if rows else None)

    @inlineCallbacks
    def sessions(self, *, consistent: bool = True) -> Steps[tuple[SessionInfo, ...]]:
        """
        Read all sessions.
        """
        response = yield self._session(
            "GET", "/v1/session/list", *_consistency(consistent)
        )
        return shaped(response, lambda rows: tuple(map(session_info, rows or ())))

    # -- The agent, health, status ------------------------------------------

    @inlineCallbacks
    def register_service(self, spec: ServiceSpec) -> Steps[None]:
        """
        Register a service with its TTL check, passing from the start.
        """
        yield self._session(
            "PUT", "/v1/agent/service/register", body=service_body(spec)
        )

    @inlineCallbacks
    def deregister_service(self, service_id: str) -> Steps[None]:
        """
        Remove a service and its checks; one that is gone is no error.
        """
        request = self._session_request(
            "PUT", f"/v1/agent/service/deregister/{service_id}"
        )
        # Of a service that is gone 1.8 says 200, with ACLs 500, and newer
        # versions 404.
        with suppress(KeyNotFound):
            yield self.requester.request(request)

    def pass_check(
        self, check_id: str, note: str = "", *, timeout: float | None = None
    ) -> Deferred[None]:
        """
        Say that a TTL check passes.  Keep the note constant: another one is
        written through to the servers.

        :param timeout: deadline in seconds, the session timeout by default.
        :raises CheckLost: when the agent does not know the check.
        """
        params: tuple[Param, ...] = (("note", note),) if note else ()
        request = self._session_request(
            "PUT", f"/v1/agent/check/pass/{check_id}", *params, timeout=timeout
        )
        return self.requester.request(request).addCallback(_passed)

    @inlineCallbacks
    def node_checks(
        self, node: str, *, consistent: bool = True
    ) -> Steps[tuple[CheckState, ...]]:
        """
        Read the health checks of a node as the catalog has them.
        """
        response = yield self._session(
            "GET", f"/v1/health/node/{node}", *_consistency(consistent)
        )
        return shaped(response, lambda rows: tuple(map(check_state, rows or ())))

    @inlineCallbacks
    def agent_self(self) -> Steps[dict[str, Any]]:
        """
        Read the agent's own configuration and member record.
        """
        response = yield self._command("GET", "/v1/agent/self")
        return shaped(response, record_of)

    @inlineCallbacks
    def status_leader(self) -> Steps[str]:
        """
        Read the address of the servers' leader; empty when there is none.
        """
        response = yield self._command("GET", "/v1/status/leader")
        return shaped(response, text_of)

    # -- Requests -----------------------------------------------------------

    def _command(
        self, method: str, path: str, *params: Param, body: bytes = b""
    ) -> Deferred[Response]:
        return self.requester.request(
            Request(method, path, params, body, deadline=self.command_timeout)
        ).addCallback(_expected)

    def _session_request(
        self,
        method: str,
        path: str,
        *params: Param,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Request:
        deadline = self.session_timeout if timeout is None else timeout
        return Request(method, path, params, body, deadline=deadline, lane=Lane.SESSION)

    def _session(
        self, method: str, path: str, *params: Param, body: bytes = b""
    ) -> Deferred[Response]:
        return self.requester.request(
            self._session_request(method, path, *params, body=body)
        ).addCallback(_expected)


# -- What the answers come to -----------------------------------------------


def _expected(response: Response) -> Response:
    """
    Refuse a 404 of an endpoint that always exists.
    """
    if response.status == 404:
        raise ConsulUnavailable(f"404 {excerpt(response.body)}".rstrip())
    return response


def _reading(response: Response) -> Reading:
    found = index_of(response)
    if response.status == 404:
        return Reading(found)
    return Reading(found, shaped(response, entries_of))


def _key_names(response: Response) -> KeyNames:
    found = index_of(response)
    if response.status == 404:
        return KeyNames(found)
    return KeyNames(
        found, shaped(response, lambda rows: tuple(map(text_of, rows_of(rows))))
    )


def _results(response: Response) -> tuple[Entry, ...]:
    return shaped(_expected(response), lambda data: txn_entries(data["Results"]))


def _renewed(response: Response) -> SessionInfo:
    # Only Consul's own words end a session: a 404 of whatever stands in between
    # must not.
    if response.status == 404 and b"not found" in response.body.lower():
        raise InvalidSession(excerpt(response.body))
    return shaped(_expected(response), lambda rows: session_info(rows[0]))


def _passed(response: Response) -> None:
    if response.status == 404:
        raise CheckLost(f"404 {excerpt(response.body)}".rstrip())
