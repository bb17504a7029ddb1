"""
``/health``, ``/ready``, ``/status`` and ``/metrics``.
"""

# Note [How long an answer takes]
#
# Whoever asks these pages gives up after a second or two, and asks most when
# Consul is away: that must not be when it gets no answer (field report 104).
# Only ``/status`` asks Consul at all, for the members; it waits for less than
# any sensible deadline, and not at all while it is known that nothing comes.
# Then what was known last is shown, with its age.

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog
from klein import Klein
from prometheus_client import CollectorRegistry
from twisted.internet.defer import Deferred, TimeoutError, inlineCallbacks
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure
from twisted.web.http import (
    INTERNAL_SERVER_ERROR,
    NOT_FOUND,
    OK,
    SERVICE_UNAVAILABLE,
)
from twisted.web.iweb import IRequest
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from .._types import Steps
from ..events import Connection
from .exposing import exposition

log = structlog.get_logger(__name__)

#: No answer waits longer for Consul, in seconds.
ANSWER_SECONDS = 0.5

#: What there is to be asked.
PATHS = ("/health", "/ready", "/status", "/metrics")


class Shown(Protocol):
    """
    What the face needs of a Coordinator.
    """

    @property
    def connection(self) -> Connection:
        """
        How it stands with Consul.
        """

    @property
    def is_ready(self) -> bool:
        """
        Whether it is a member, with a leader known.
        """

    def status(self) -> dict[str, Any]:
        """
        Give what is known, at once.
        """

    def refresh_status(self) -> Deferred[dict[str, Any]]:
        """
        Give what is known once Consul has been asked, or has not answered;
        may be cancelled.
        """


class Face:
    """
    Answers questions about one member.

    :param clock: bounds the time a question may take.
    :param shown: gives the Coordinator, ``None`` while there is none.
    :param registry: what ``/metrics`` tells.
    """

    app = Klein()

    def __init__(
        self,
        clock: IReactorTime,
        shown: Callable[[], Shown | None],
        registry: CollectorRegistry,
    ) -> None:
        self._clock = clock
        self._shown = shown
        self._registry = registry

    @app.route("/health", methods=["GET"])
    def health(self, request: IRequest) -> bytes:
        """
        Say that this process serves.
        """
        return _answer(request, OK, {"healthy": True})

    @app.route("/ready", methods=["GET"])
    def ready(self, request: IRequest) -> bytes:
        """
        Say whether this is a member that knows its leader, and if not, why.
        """
        shown = self._shown()
        if shown is not None and shown.is_ready:
            leader = shown.status().get("leader_id")
            return _answer(request, OK, {"ready": True, "leader_id": leader})
        why = "starting" if shown is None else unready_reason(shown.status())
        return _answer(request, SERVICE_UNAVAILABLE, {"ready": False, "reason": why})

    @app.route("/status", methods=["GET"])
    @inlineCallbacks
    def status(self, request: IRequest) -> Steps[bytes]:
        """
        Show the cluster as this member sees it, fresh if Consul answers in
        time, and else as last known: the status says how old it is.  See Note
        [How long an answer takes].
        """
        shown = self._shown()
        if shown is None:
            return _answer(request, SERVICE_UNAVAILABLE, {"error": "starting"})
        if shown.connection is not Connection.CONNECTED:
            return _answer(request, OK, shown.status())
        # An asker that goes away cancels it: Klein sees to that.
        asking = shown.refresh_status()
        asking.addTimeout(ANSWER_SECONDS, self._clock)
        try:
            status = yield asking
        except TimeoutError:
            status = shown.status()
        return _answer(request, OK, status)

    @app.route("/metrics", methods=["GET"])
    def metrics(self, request: IRequest) -> bytes:
        """
        Tell what is counted, in the form the asker prefers.
        """
        text, content_type = exposition(
            self._registry, request.getHeader("Accept") or ""
        )
        request.setResponseCode(OK)
        request.setHeader("Content-Type", content_type)
        request.setHeader("Cache-Control", "no-store")
        return text

    @app.handle_errors(NotFound)
    def not_found(self, request: IRequest, failure: Failure) -> bytes:
        """
        Say what there is.
        """
        told = {"error": "not found", "paths": PATHS}
        return _answer(request, NOT_FOUND, told)

    @app.handle_errors(MethodNotAllowed)
    def not_allowed(self, request: IRequest, failure: Failure) -> bytes:
        """
        Say that all of this is for reading only.
        """
        request.setHeader("Allow", "GET, HEAD")
        return _answer(request, MethodNotAllowed.code, {"error": "method not allowed"})

    @app.handle_errors(HTTPException)
    def refused(self, request: IRequest, failure: Failure) -> bytes:
        """
        Say what is wrong with a request that is none.
        """
        error: Any = failure.value
        return _answer(request, error.code or 400, {"error": error.name.lower()})

    @app.handle_errors(Exception)
    def failed(self, request: IRequest, failure: Failure) -> bytes:
        """
        Log an error of our own; the asker learns only that there was one.
        """
        log.error("web-request-failed", path=request.path, exc_info=failure.value)
        return _answer(request, INTERNAL_SERVER_ERROR, {"error": "internal error"})


def unready_reason(status: Mapping[str, Any]) -> str:
    """
    Say in words why a member with this status is not ready.
    """
    consul = status.get("consul") or {}
    if status.get("role") in ("draining", "stopped"):
        return "shutting down"
    if status.get("role") == "emergency":
        return f"in an emergency: Consul does not answer at {consul.get('address')}"
    if consul.get("connection") != "connected":
        return f"Consul does not answer at {consul.get('address')}"
    if not status.get("session_id"):
        return "no Consul session yet"
    if not status.get("leader_id"):
        return "no leader is known"
    return "the member record is not in Consul yet"


def _answer(request: IRequest, code: int, told: Mapping[str, Any]) -> bytes:
    request.setResponseCode(code)
    request.setHeader("Content-Type", "application/json; charset=utf-8")
    request.setHeader("Cache-Control", "no-store")
    return json.dumps(told, default=str).encode() + b"\n"
