"""
Listings whose emptiness has consequences.

# Note [Empty or denied]

Consul answers a listing that the token may not read like an empty one.  Only a
GET of a single key tells the two apart, and it tells what is allowed *now*: an
access that came back since the listing was made would make a denied listing
look like an empty one.  So an empty listing is believed if a key under it may
be read, and the listing, made once more after that, is still empty.
"""

from __future__ import annotations

from twisted.internet.defer import inlineCallbacks

from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Reading
from .errors import AccessDenied
from .keys import probe


class DeniedListing(AccessDenied):
    """
    A listing came back empty because the token may not read it.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__(
            f"the token may not read {prefix}: an empty listing of it means "
            f"nothing; grant key_prefix {prefix!r} the policy 'write'"
        )


@inlineCallbacks
def refuse_denied(api: ConsulApi, prefix: str) -> Steps[None]:
    """
    Check that the token may read what lies under a prefix.

    :return: a Deferred that fires when it may, or fails with
        :class:`DeniedListing` or another :class:`ConsulError`.
    """
    denied: bool = yield api.denied(probe(prefix))
    if denied:
        raise DeniedListing(prefix)


@inlineCallbacks
def list_again(api: ConsulApi, prefix: str) -> Steps[Reading]:
    """
    Make a listing that came back empty once more; see Note [Empty or denied].

    :return: a Deferred that fires with what may be believed, or fails as
        :func:`refuse_denied`.
    """
    yield refuse_denied(api, prefix)
    reading: Reading = yield api.list(prefix, consistent=True)
    return reading
