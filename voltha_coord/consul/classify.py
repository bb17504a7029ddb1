"""
What an answer of Consul means.  Pure.

The status comes first and the body second (field report 97): the body of an
error is plain text, and nothing here tries to find JSON where there is none.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ..errors import (
    AccessDenied,
    BadRequest,
    CheckLost,
    ConsulError,
    ConsulUnavailable,
    ForeignAnswer,
    InvalidSession,
    InvalidSessionTTL,
    KeyNotFound,
    NoClusterLeader,
    NodeMissing,
    RateLimited,
    Refusal,
    TransactionRefused,
    ValueTooLarge,
)
from .durations import from_go
from .transport import Response

#: Of a body, no more than this goes into an error's text.
EXCERPT_CHARACTERS = 300

_MINIMUM_TTL = re.compile(r"Invalid Session TTL.*between \[([^=\]]+)=", re.DOTALL)

#: Consul's words inside a 500 (or 404), in lower case, and what they mean.
#: The first that fits counts.  An RPC between agents wraps them: "rpc error
#: making call: …", so they are looked for anywhere.
_WORDS: tuple[tuple[str, type[ConsulError]], ...] = (
    ("permission denied", AccessDenied),
    ("no path to datacenter", BadRequest),
    ("acl not found", AccessDenied),
    ("no cluster leader", NoClusterLeader),
    ("no known consul servers", NoClusterLeader),
    ("not ready to serve consistent reads", NoClusterLeader),
    ("leadership lost", NoClusterLeader),
    ("node is not the leader", NoClusterLeader),
    ("too many requests", RateLimited),
    ("rate limit", RateLimited),
    ("does not have associated ttl", CheckLost),
    ("missing check", CheckLost),
    ("missing node registration", NodeMissing),
    ("is in critical state", CheckLost),
    ("unknown check", CheckLost),
    ("unknown service", KeyNotFound),
    ("invalid session", InvalidSession),
    ("missing session", InvalidSession),
    ("failed session lookup", InvalidSession),
)


def excerpt(body: bytes) -> str:
    """
    Give the beginning of a body as one line of text, for an error or a log.
    """
    text = " ".join(body[: EXCERPT_CHARACTERS * 4].decode("utf-8", "replace").split())
    if len(text) > EXCERPT_CHARACTERS:
        return text[: EXCERPT_CHARACTERS - 1] + "…"
    return text


def is_html(response: Response) -> bool:
    """
    Whether a proxy, and not Consul, wrote this answer.
    """
    if response.headers.get("content-type", "").lower().startswith("text/html"):
        return True
    return response.body[:64].lstrip()[:1] == b"<"


def error_of(response: Response) -> ConsulError | None:
    """
    Give the error an answer stands for.

    ``None`` for 2xx and for 404, of which the verb knows the meaning.
    """
    status = response.status
    if 200 <= status < 300:
        return None
    words = f"{status} {excerpt(response.body)}".rstrip()
    if status == 404:
        return _not_found(response, words)
    if 300 <= status < 400:
        return _redirected(response, words)
    if status == 409:
        return _refused(response, words)
    if status in (401, 403):
        return AccessDenied(_denied(words))
    if status == 413:
        return ValueTooLarge(words)
    if status in (429, 503):
        return RateLimited(words, _retry_after(response))
    if status in (400, 500):
        found = _spoken(response, words)
        if found is not None:
            return found
    if 400 <= status < 500 and status != 408 and not is_html(response):
        return BadRequest(words)
    return ConsulUnavailable(words)


def _retry_after(response: Response) -> float:
    """
    Give the seconds of ``Retry-After``; a date is of no use without its clock.
    """
    text = response.headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _not_found(response: Response, words: str) -> ConsulError | None:
    if is_html(response):
        # A proxy that lost its backend must not be taken for a missing key,
        # still less for a missing session.
        return ConsulUnavailable(words)
    return None


def _redirected(response: Response, words: str) -> ConsulError:
    target = response.headers.get("location", "")
    if target.startswith("/v1/"):
        return BadRequest(
            f"{response.status} Consul would clean this path to {target!r}:"
            " no '//', '/./' or '/../' in a key"
        )
    return ConsulUnavailable(f"{words} (redirected to {target!r})")


def _spoken(response: Response, words: str) -> ConsulError | None:
    text = response.body[:4096].decode("utf-8", "replace")
    ttl = _MINIMUM_TTL.search(text)
    if ttl is not None:
        try:
            minimum = from_go(ttl.group(1))
        except ValueError:
            return InvalidSessionTTL(words)
        return InvalidSessionTTL(words, minimum)
    if is_html(response):
        return None
    lowered = text.lower()
    if "invalid session ttl" in lowered:
        return InvalidSessionTTL(words)
    for phrase, kind in _WORDS:
        if phrase in lowered:
            return kind(words)
    return None


def _refused(response: Response, words: str) -> ConsulError:
    try:
        rows = json.loads(response.body)["Errors"]
        refusals = [Refusal(int(row["OpIndex"]), "", str(row["What"])) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ConsulUnavailable(words)
    if any("permission denied" in refusal.what.lower() for refusal in refusals):
        # Refused for good, and not because something has moved on meanwhile.
        return AccessDenied(words)
    return TransactionRefused(refusals)


def _denied(words: str) -> str:
    if "acl not found" in words.lower():
        return f"{words} (the token is unknown, or has expired)"
    return words


def decode(response: Response) -> Any:
    """
    Give the JSON of an answer.

    :raises ForeignAnswer: when it is not JSON, and so not Consul's.
    """
    try:
        return json.loads(response.body)
    except (ValueError, RecursionError) as error:
        raise ForeignAnswer(
            f"{response.status} with a body that is not JSON: {excerpt(response.body)}"
        ) from error


def index_of(response: Response) -> int:
    """
    Give ``X-Consul-Index``, at least 1: 0 would turn the next watch into a
    read that answers at once.

    :raises ForeignAnswer: when the answer has none: it is not Consul's.
    """
    text = response.headers.get("x-consul-index", "")
    if not (text.isascii() and text.isdigit()):
        raise ForeignAnswer(
            f"{response.status} without an X-Consul-Index: {excerpt(response.body)}"
        )
    return max(1, int(text))
