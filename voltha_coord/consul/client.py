"""
python-consul2's endpoints over our transport: what ``coordinator.consul`` is.

Its endpoint methods and their results are the original coordinator's public
contract.  Its transport is broken on Twisted and is not used; nothing else of
this package imports it, but for the errors' base classes.
"""

# Note [What is mended]
#
# * python-consul2 reads CONSUL_HTTP_* when it is constructed, and badly: IPv6,
#   ``unix://`` and URLs without a port fail, and a token there wins over one
#   given.  The variables are kept from it; ``consul.address`` reads them.
# * Its ``session.create(checks=[c])`` binds ``serfHealth`` as well, a
#   lock-delay of 15 is left to Consul, a TTL out of bounds is an
#   AssertionError.  Ours says exactly what it wants, and Consul judges.
# * A GET's parameters went out twice, ``dc`` twice on a renewal.
# * A blocking query had no deadline, and waited 5 minutes on the agent when
#   the client had long gone (defects B10, V7).
# * Errors are ours, typed, and still ``ConsulException``.

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from consul import base
from twisted.internet.defer import Deferred, inlineCallbacks

from .._types import Steps
from ..errors import BadRequest, ConsulError, ConsulUnavailable, KeyNotFound
from .api import watch_deadline
from .classify import excerpt
from .durations import from_go, to_go
from .requester import Requester
from .transport import Lane, Request, Response

#: How long a blocking query waits when its caller does not say, in seconds.
DEFAULT_WAIT = 30.0

#: Consul waits no longer than this, whatever it is asked, in seconds.
MAX_WAIT = 600.0

#: What a callback of python-consul2 makes of a response.
Callback: TypeAlias = Callable[[base.Response], Any]
Params: TypeAlias = Sequence[tuple[str, object]] | Mapping[str, object] | None

#: These keep a member alive, and go where nothing can hold them up.
_SESSION_PATHS = ("/v1/session/", "/v1/agent/check/", "/v1/agent/service/")


@contextmanager
def _without_consul_variables() -> Iterator[None]:
    """
    Hide CONSUL_HTTP_* for the moment of a constructor.
    """
    hidden = {
        name: os.environ.pop(name)
        for name in tuple(os.environ)
        if name.startswith("CONSUL_HTTP_")
    }
    try:
        yield
    finally:
        os.environ.update(hidden)


def _texts(params: Params) -> tuple[tuple[str, str], ...]:
    """
    Give query parameters as texts, each pair once.
    """
    pairs = params.items() if isinstance(params, Mapping) else params or ()
    return tuple(dict.fromkeys((name, str(value)) for name, value in pairs))


def _body(data: Any) -> bytes:
    if data is None:
        return b""
    if isinstance(data, bytes):
        return data
    return str(data).encode("utf-8")


class _Endpoint(base.HTTPClient):
    """
    What python-consul2 calls its HTTP client.
    """

    def __init__(
        self, requester: Requester, command_timeout: float, watch_margin: float
    ) -> None:
        super().__init__()
        self._requester = requester
        self._command_timeout = command_timeout
        self._watch_margin = watch_margin

    def get(
        self,
        callback: Callback,
        path: str,
        params: Params = None,
        headers: Mapping[str, str] | None = None,
    ) -> Deferred[Any]:
        """
        Send a GET.
        """
        return self._send(callback, "GET", path, params, b"", headers)

    def put(
        self,
        callback: Callback,
        path: str,
        params: Params = None,
        data: Any = "",
        headers: Mapping[str, str] | None = None,
    ) -> Deferred[Any]:
        """
        Send a PUT.
        """
        return self._send(callback, "PUT", path, params, _body(data), headers)

    def post(
        self,
        callback: Callback,
        path: str,
        params: Params = None,
        data: Any = "",
        headers: Mapping[str, str] | None = None,
    ) -> Deferred[Any]:
        """
        Send a POST.
        """
        return self._send(callback, "POST", path, params, _body(data), headers)

    def delete(
        self,
        callback: Callback,
        path: str,
        params: Params = None,
        data: Any = "",
        headers: Mapping[str, str] | None = None,
    ) -> Deferred[Any]:
        """
        Send a DELETE.
        """
        return self._send(callback, "DELETE", path, params, _body(data), headers)

    @inlineCallbacks
    def _send(
        self,
        callback: Callback,
        method: str,
        path: str,
        params: Params,
        body: bytes,
        headers: Mapping[str, str] | None,
    ) -> Steps[Any]:
        request = self._request(method, path, _texts(params), body, headers or {})
        response: Response = yield self._requester.request(request)
        return _result(callback, response)

    def _request(
        self,
        method: str,
        path: str,
        params: tuple[tuple[str, str], ...],
        body: bytes,
        headers: Mapping[str, str],
    ) -> Request:
        asked = dict(params)
        if method != "GET" or not asked.get("index", "0").strip("0"):
            lane = Lane.SESSION if path.startswith(_SESSION_PATHS) else Lane.COMMAND
            return Request(
                method, path, params, body, headers, self._command_timeout, lane
            )
        wait = DEFAULT_WAIT
        if "wait" in asked:
            try:
                wait = from_go(asked["wait"])
            except ValueError as error:
                raise BadRequest(f"wait: {error}") from error
        else:
            params += (("wait", to_go(wait)),)
        if not 0 < wait <= MAX_WAIT:
            wait = MAX_WAIT
        deadline = watch_deadline(wait, self._watch_margin)
        return Request(method, path, params, body, headers, deadline, Lane.APPLICATION)


def _result(callback: Callback, response: Response) -> Any:
    """
    Let python-consul2 read an answer, and make its errors ours.
    """
    answer = base.Response(
        response.status,
        # It looks for X-Consul-Index with exactly these capitals.
        {name.title(): value for name, value in response.headers.items()},
        response.body.decode("utf-8", "replace"),
        response.body,
    )
    try:
        return callback(answer)
    except ConsulError:
        raise
    except base.NotFound as error:
        raise KeyNotFound(f"404 {excerpt(response.body)}".rstrip()) from error
    except (
        base.ConsulException,
        AttributeError,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:
        raise ConsulUnavailable(
            f"{response.status} with an answer of an unknown shape ({error!r}):"
            f" {excerpt(response.body)}"
        ) from error


class _Session(base.Consul.Session):
    """
    The session endpoints, with a ``create`` that says what it means.
    """

    def create(
        self,
        name: str | None = None,
        node: str | None = None,
        checks: Sequence[str] | None = None,
        lock_delay: float = 15,
        behavior: str = "release",
        ttl: float | None = None,
        dc: str | None = None,
        token: str | None = None,
    ) -> Deferred[str]:
        """
        Make a session; give its id.

        :param checks: the node checks to bind, these and no others; none by
            default.  ``["serfHealth"]`` is Consul's own default.
        :param lock_delay: in seconds, always sent.
        :param ttl: in seconds; none by default.
        """
        data: dict[str, Any] = {
            "LockDelay": to_go(lock_delay),
            "Behavior": behavior,
            "NodeChecks": list(checks or ()),
            "ServiceChecks": [],
        }
        if name:
            data["Name"] = name
        if node:
            data["Node"] = node
        if ttl:
            data["TTL"] = to_go(ttl)
        dc = dc or self.agent.dc
        token = token or self.agent.token
        created: Deferred[str] = self.agent.http.put(
            base.CB.json(is_id=True),
            path="/v1/session/create",
            params=[("dc", dc)] if dc else [],
            headers={"X-Consul-Token": token} if token else {},
            data=json.dumps(data),
        )
        return created


class Consul(base.Consul):
    """
    All of python-consul2's endpoints, each method giving a Deferred that fails
    with a :class:`~voltha_coord.errors.ConsulError`.

    :param requester: sends the requests; token, datacenter and namespace are
        its affair, unless a call names others.
    :param consistency: ``default``, ``consistent`` or ``stale``.
    :param command_timeout: deadline of a request that does not block, seconds.
    :param watch_margin: how long after its wait a blocking query is given up,
        in seconds.
    """

    def __init__(
        self,
        requester: Requester,
        *,
        consistency: str = "default",
        command_timeout: float = 10.0,
        watch_margin: float = 5.0,
    ) -> None:
        self._endpoint = _Endpoint(requester, command_timeout, watch_margin)
        with _without_consul_variables():
            super().__init__(consistency=consistency)
        self.session = _Session(self)

    def http_connect(self, *args: object, **kwargs: object) -> _Endpoint:
        """
        Give python-consul2 our transport in the place of its own.
        """
        return self._endpoint
