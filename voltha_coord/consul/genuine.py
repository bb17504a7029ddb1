"""
Whether Consul itself has answered.  Pure.

# Note [Whose answer]

Whatever stands between us and the agent may answer in its place: a proxy that
lost its backend, a load balancer's default, a captive portal.  Most of what
they say is no answer of Consul's by its status or its content.  One is: an
empty 200.  That is how an agent acknowledges a pass, and a proxy that says it
to everything would have us count passes while the check runs out.  So

- an empty answer is none where Consul always says something;
- HTML is none of Consul's, though a key may hold some;
- where an agent's answers to reads, which nobody else can give, name what they
  vary by, as all answers of Consul do, an empty answer that names none of it is
  somebody else's.

What is left is found out by the next renewal, whose answer has content.
"""

from __future__ import annotations

from .classify import is_html
from .transport import Request, Response

#: Where Consul answers a success with content.
_NEVER_EMPTY = ("/v1/kv/", "/v1/txn", "/v1/session/", "/v1/health/", "/v1/status/")


class Genuine:
    """
    Knows the answers of one agent; see Note [Whose answer].
    """

    def __init__(self) -> None:
        self._vary: frozenset[str] = frozenset()

    def fault(self, request: Request, response: Response) -> str | None:
        """
        Say why a successful answer is not Consul's; ``None`` when it may be.
        """
        if not 200 <= response.status < 300:
            return None
        if "x-consul-index" in response.headers:
            self._vary = _vary(response)
            return None
        if response.body:
            keys = request.path.startswith("/v1/kv/")
            return "HTML" if is_html(response) and not keys else None
        if request.path.startswith(_NEVER_EMPTY):
            return "nothing"
        if self._vary and self._vary.isdisjoint(_vary(response)):
            return "nothing, and not in the way this agent does"
        return None


def _vary(response: Response) -> frozenset[str]:
    """
    Give the names of what an answer varies by.  Proxies on the way may add some.
    """
    names = response.headers.get("vary", "").lower().split(",")
    return frozenset(filter(None, map(str.strip, names)))
