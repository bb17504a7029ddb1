"""
The history of a simulated run: everything that happened, in order.

It is written down as it happens and put into words only when somebody wants to
read it, or to know whether two histories are the same.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, NoReturn

import structlog
from attrs import frozen
from twisted.python.failure import Failure

from voltha_coord.consul.transport import Request, Response

#: From this level on what the members log belongs to the history.
LEAST_LEVEL = 20

#: Who is told what is logged.
Heard = Callable[[str, str, Mapping[str, Any]], None]

#: What is only worth reading by who looks for the cause of something.
TRAFFIC = frozenset({"asks", "reaches", "is-answered", "hears"})


@frozen
class Happening:
    """
    Something that happened.

    :ivar at: when, in seconds of the world.
    :ivar who: a member's process, ``consul``, ``operator`` or ``world``.
    :ivar what: its kind.
    :ivar about: what else there is to say, by kind.
    """

    at: float
    who: str
    what: str
    about: tuple[Any, ...]

    @property
    def text(self) -> str:
        """
        What there is to say, in words.
        """
        return " ".join(filter(None, map(_told, self.about)))

    def __str__(self) -> str:
        return f"{self.at:9.3f}  {self.who:<8} {self.what:<12} {self.text}".rstrip()


def _told(part: object) -> str:
    match part:
        case Request():
            return _request(part)
        case Response():
            return _response(part)
        case Failure():
            return str(part.value and _error(part.value))
        case BaseException():
            return _error(part)
        case Mapping():
            return " ".join(f"{name}={part[name]!r}" for name in sorted(part))
    return str(part)


def _error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _request(request: Request) -> str:
    query = "&".join(
        name if value is None else f"{name}={value}" for name, value in request.params
    )
    text = f"{request.method} {request.path}{'?' if query else ''}{query}"
    return f"{text} {request.body.decode('utf-8', 'backslashreplace')}".rstrip()


def _response(response: Response) -> str:
    index = response.headers.get("x-consul-index", "")
    body = response.body.decode("utf-8", "backslashreplace")
    return f"{response.status} {f'[{index}] ' if index else ''}{body}".rstrip()


def _traceback(raised: Any) -> list[str]:
    if isinstance(raised, BaseException):
        return traceback.format_exception(raised)
    if not isinstance(raised, tuple):
        raised = sys.exc_info()
    return traceback.format_exception(*raised)


class History:
    """
    Takes down what happens.

    :ivar happenings: all of it, oldest first.

    :param now: the time of the world, in seconds.
    :param heard: called with what a member logs: who, the event, its fields.
    """

    def __init__(self, now: Callable[[], float], heard: Heard) -> None:
        self._now = now
        self._heard = heard
        self._taken: list[tuple[float, str, str, tuple[Any, ...]]] = []
        self._take: Callable[[tuple[float, str, str, tuple[Any, ...]]], None] = (
            self._taken.append
        )

    def note(self, who: str, what: str, *about: Any) -> None:
        """
        Something happens now.
        """
        self._take((self._now(), who, what, about))

    def end(self) -> None:
        """
        Take nothing down any more.
        """
        self._take = lambda taken: None
        self._heard = lambda who, event, fields: None

    def __len__(self) -> int:
        return len(self._taken)

    def __iter__(self) -> Iterator[Happening]:
        return (Happening(*taken) for taken in self._taken)

    def digest(self) -> str:
        """
        Give what two histories have in common only if they are the same, to the
        byte.
        """
        found = hashlib.sha256()
        for happening in self:
            found.update(f"{happening.at!r} {happening}\n".encode())
        return found.hexdigest()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """
        Take down what the members log, and let it go nowhere else.
        """
        before = structlog.get_config()
        structlog.configure(
            processors=[self._logged],
            wrapper_class=structlog.make_filtering_bound_logger(LEAST_LEVEL),
            context_class=dict,
            logger_factory=structlog.ReturnLoggerFactory(),
            cache_logger_on_first_use=False,
        )
        try:
            yield
        finally:
            structlog.configure(**before)

    def _logged(
        self, logger: Any, level: str, fields: MutableMapping[str, Any]
    ) -> NoReturn:
        who = fields.pop("instance_id", "-")
        event = fields.pop("event")
        raised = fields.pop("exc_info", None)
        if raised:
            # The traceback is gone by the time this is read.
            fields["raised"] = "".join(_traceback(raised))
        self.note(who, level, event, fields)
        self._heard(who, event, fields)
        raise structlog.DropEvent
