"""
Requests in few words, for the contract suite alone.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, inlineCallbacks

from voltha_coord._types import Steps
from voltha_coord.consul.transport import Lane, Request, Response

from .backends import Backend

#: The service whose check the minimal policy allows.
SERVICE = "voltha-coord"


@frozen
class Answer:
    """
    An answer, with its JSON taken apart where it has any.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """
        The body as JSON.
        """
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """
        The body as text, without the line ending some versions add.
        """
        return self.body.decode().strip()

    @property
    def index(self) -> int:
        """
        The index of a read.
        """
        return int(self.headers["x-consul-index"])

    @property
    def entry(self) -> dict[str, Any]:
        """
        The one entry of a read of one key.
        """
        (entry,) = self.json
        assert isinstance(entry, dict)
        return entry


def op(verb: str, key: str, value: bytes | None = None, **more: Any) -> dict[str, Any]:
    """
    Give one operation of a transaction.
    """
    kv: dict[str, Any] = {"Verb": verb, "Key": key}
    if value is not None:
        kv["Value"] = base64.b64encode(value).decode()
    return {"KV": kv | {name.title(): item for name, item in more.items()}}


def value_of(entry: dict[str, Any]) -> bytes:
    """
    Give the value of an entry.
    """
    return base64.b64decode(entry["Value"] or "")


class Calls:
    """
    What the suite asks of a backend.

    :param token: what the requests carry; the backend's by default.
    :param headers: what they carry instead of a token.
    """

    def __init__(
        self,
        backend: Backend,
        token: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self._backend = backend
        token = token or backend.token
        if headers is None:
            headers = {"X-Consul-Token": token} if token else {}
        self._headers = headers

    @inlineCallbacks
    def ask(
        self, method: str, path: str, body: object = b"", **params: object
    ) -> Steps[Answer]:
        """
        Make a request.  A parameter that is ``True`` is a bare flag.
        """
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        response: Response = yield self._backend.request(
            Request(
                method,
                path,
                tuple((k, None if v is True else str(v)) for k, v in params.items()),
                body,
                self._headers,
                deadline=60.0,
                lane=Lane.WATCH if "index" in params else Lane.COMMAND,
            )
        )
        return Answer(response.status, dict(response.headers), response.body)

    def get(self, key: str, **params: object) -> Deferred[Answer]:
        """
        Read.
        """
        return self.ask("GET", f"/v1/kv/{key}", **params)

    def put(self, key: str, value: bytes = b"", **params: object) -> Deferred[Answer]:
        """
        Write.
        """
        return self.ask("PUT", f"/v1/kv/{key}", value, **params)

    def delete(self, key: str, **params: object) -> Deferred[Answer]:
        """
        Delete.
        """
        return self.ask("DELETE", f"/v1/kv/{key}", **params)

    def txn(self, *operations: dict[str, Any], **params: object) -> Deferred[Answer]:
        """
        Do several operations.
        """
        return self.ask("PUT", "/v1/txn", list(operations), **params)

    def try_session(self, **fields: object) -> Deferred[Answer]:
        """
        Ask for a session, bound to nothing unless the fields say so.
        """
        wanted = {"NodeChecks": [], "TTL": "10s", "LockDelay": 0} | fields
        return self.ask("PUT", "/v1/session/create", wanted)

    @inlineCallbacks
    def session(self, **fields: object) -> Steps[str]:
        """
        Create a session and give its id.
        """
        answer: Answer = yield self.try_session(**fields)
        assert answer.status == 200, answer
        session_id = answer.json["ID"]
        assert isinstance(session_id, str)
        return session_id

    @inlineCallbacks
    def alive(self, session_id: str) -> Steps[bool]:
        """
        Whether a session exists.
        """
        answer: Answer = yield self.ask("GET", f"/v1/session/info/{session_id}")
        return bool(answer.json)

    def destroy(self, session_id: str) -> Deferred[Answer]:
        """
        End a session.
        """
        return self.ask("PUT", f"/v1/session/destroy/{session_id}")

    def register(self, service_id: str, **check: object) -> Deferred[Answer]:
        """
        Register the liveness service with a TTL check of the same id.
        """
        wanted = {"CheckID": service_id, "TTL": "30s", "Status": "passing"} | check
        return self.ask(
            "PUT",
            "/v1/agent/service/register",
            {
                "ID": service_id,
                "Name": SERVICE,
                "Check": {name: item for name, item in wanted.items() if item},
            },
        )

    def deregister(self, service_id: str) -> Deferred[Answer]:
        """
        Deregister the liveness service.
        """
        return self.ask("PUT", f"/v1/agent/service/deregister/{service_id}")

    def report(self, verb: str, check_id: str, **params: object) -> Deferred[Answer]:
        """
        Let a check pass, warn or fail.
        """
        return self.ask("PUT", f"/v1/agent/check/{verb}/{check_id}", **params)

    @inlineCallbacks
    def check(self, check_id: str) -> Steps[dict[str, Any] | None]:
        """
        Give a check as the catalog has it.
        """
        answer: Answer = yield self.ask(
            "GET", f"/v1/health/checks/{SERVICE}", consistent=True
        )
        for found in answer.json:
            if found["CheckID"] == check_id:
                assert isinstance(found, dict)
                return found
        return None
