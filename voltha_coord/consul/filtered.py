"""
Listings from which Consul has left out what the token may not read.

A newer Consul says so in a header (1.11, field report 106): the one hint there is
that a listing shows a part of the keys, which looks as if the others were gone.
Only listings of keys count.  The checks of a node are filtered as a rule: those of
other people's services are none of our business.
"""

from __future__ import annotations

import structlog

from .._recent import remember
from .transport import Request, Response

log = structlog.get_logger(__name__)

_HEADER = "x-consul-results-filtered-by-acls"

#: So many paths are remembered as said.
SAID = 100


class Filtered:
    """
    Counts the filtered listings of keys, and says each path once for as long as
    it is filtered.

    :ivar count: how many there were.
    """

    def __init__(self) -> None:
        self.count = 0
        self._said: dict[str, None] = {}

    def look(self, request: Request, response: Response) -> None:
        """
        Take note of an answer.
        """
        path = request.path
        if not path.startswith("/v1/kv/"):
            return
        if response.headers.get(_HEADER, "").lower() != "true":
            self._said.pop(path, None)
            return
        self.count += 1
        if path not in self._said:
            remember(self._said, path, None, SAID)
            log.warning(
                "listing-filtered",
                prefix=path.removeprefix("/v1/kv/"),
                effect="what the token may not read looks as if it were not there",
                action="grant it to read every key under the prefix",
            )
