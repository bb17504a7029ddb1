"""
Host names that go on working when DNS does not (field reports 144, 145).

# Note [Threads nobody waits for]

``getaddrinfo`` blocks, for half a minute where DNS is dead, so it is called in a
thread.  Twisted's resolver takes one of the reactor's pool, and the end of a
process waits for those: it would end half a minute after it has shut down.
The threads of lookups are therefore our own, and daemons.  A resolver that an
application has installed is used as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any

from twisted.internet._resolver import GAIResolver
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IAddress,
    IDelayedCall,
    IHostnameResolver,
    IHostResolution,
    IReactorPluggableNameResolver,
    IResolutionReceiver,
)
from twisted.python.failure import Failure
from zope.interface import implementer


class _Threads:
    """
    What Twisted's resolver calls its thread pool: a thread for each call, for
    which nobody waits; see Note [Threads nobody waits for].
    """

    def callInThreadWithCallback(  # noqa: N802 (Twisted's name)
        self,
        onResult: Callable[[bool, Any], None],  # noqa: N803 (Twisted's name)
        call: Callable[..., Any],
        *args: Any,
        **kw: Any,
    ) -> None:
        """
        Call, and tell whether that went well and what it gave.
        """

        def run() -> None:
            try:
                result = call(*args, **kw)
            except BaseException:
                onResult(False, Failure())
            else:
                onResult(True, result)

        Thread(target=run, name="name-lookup", daemon=True).start()


def resolver_of(reactor: Any) -> IHostnameResolver:
    """
    Give the reactor's resolver, or one like Twisted's own in the place of that.
    """
    installed: IHostnameResolver = reactor.nameResolver
    if type(installed) is GAIResolver:
        pool: Any = _Threads()
        return GAIResolver(reactor, lambda: pool)
    return installed


@implementer(IResolutionReceiver)
class _Gathering:
    """
    Takes the addresses of one lookup.
    """

    def __init__(self, done: Callable[[tuple[IAddress, ...]], None]) -> None:
        self._done = done
        self._found: list[IAddress] = []

    def resolutionBegan(self, resolutionInProgress: IHostResolution) -> None:  # noqa: N802, N803 (Twisted's names)
        """
        Nothing is done yet.
        """

    def addressResolved(self, address: IAddress) -> None:  # noqa: N802 (Twisted's name)
        """
        Keep an address.
        """
        self._found.append(address)

    def resolutionComplete(self) -> None:  # noqa: N802 (Twisted's name)
        """
        Hand over what was found: nothing at all when the name is not known.
        """
        self._done(tuple(self._found))


@implementer(IHostResolution)
class _Resolution:
    """
    One request for addresses, which may be given up.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.cancelled = False

    def cancel(self) -> None:
        """
        Give up; the lookup goes on for whoever asks next.
        """
        self.cancelled = True


@implementer(IHostnameResolver)
class RememberingResolver:
    """
    Resolves one host name.  At most one lookup is under way, however many
    connections are wanted: lookups occupy threads, and a dead DNS holds each
    for half a minute.  When a lookup fails, or takes longer than ``patience``,
    the addresses of the last good one serve.

    :param reactor: has the real resolver, and measures ``patience``.
    :param port: put into the addresses.
    :param patience: in seconds.
    """

    def __init__(self, reactor: Any, port: int, patience: float) -> None:
        self._reactor = reactor
        self._port = port
        self._patience = patience
        self._good: tuple[IAddress, ...] = ()
        self._waiting: list[Deferred[tuple[IAddress, ...]]] | None = None

    def resolveHostName(  # noqa: N802 (Twisted's name)
        self,
        resolutionReceiver: IResolutionReceiver,  # noqa: N803 (Twisted's name)
        hostName: str,  # noqa: N803 (Twisted's name)
        portNumber: int = 0,  # noqa: N803 (Twisted's name)
        addressTypes: Sequence[type[IAddress]] | None = None,  # noqa: N803 (Twisted's name)
        transportSemantics: str = "TCP",  # noqa: N803 (Twisted's name)
    ) -> IHostResolution:
        """
        Give the addresses of the name, or the last good ones.
        """
        resolution = _Resolution(hostName)
        resolutionReceiver.resolutionBegan(resolution)

        def deliver(addresses: tuple[IAddress, ...]) -> None:
            if resolution.cancelled:
                return
            for address in addresses:
                resolutionReceiver.addressResolved(address)
            resolutionReceiver.resolutionComplete()

        self._addresses(hostName).addCallback(deliver)
        return resolution

    def _addresses(self, name: str) -> Deferred[tuple[IAddress, ...]]:
        found: Deferred[tuple[IAddress, ...]] = Deferred()
        if self._waiting is None:
            self._waiting = [found]
            resolver_of(self._reactor).resolveHostName(
                _Gathering(self._looked_up), name, self._port
            )
        else:
            self._waiting.append(found)
        if found.called:
            return found
        if self._good:
            self._lose_patience_with(found)
        return found

    def _lose_patience_with(self, found: Deferred[tuple[IAddress, ...]]) -> None:
        def lose_patience() -> None:
            if self._waiting is not None and found in self._waiting:
                self._waiting.remove(found)
            found.callback(self._good)

        timer: IDelayedCall = self._reactor.callLater(self._patience, lose_patience)

        def calm(addresses: tuple[IAddress, ...]) -> tuple[IAddress, ...]:
            if timer.active():
                timer.cancel()
            return addresses

        found.addCallback(calm)

    def _looked_up(self, addresses: tuple[IAddress, ...]) -> None:
        self._good = addresses or self._good
        waiting, self._waiting = self._waiting or [], None
        for found in waiting:
            found.callback(self._good)


@implementer(IReactorPluggableNameResolver)
class ResolvingReactor:
    """
    A reactor with a resolver of its own, for ``HostnameEndpoint``, which takes
    one from nowhere else.
    """

    def __init__(self, reactor: Any, resolver: IHostnameResolver) -> None:
        self._reactor = reactor
        self.nameResolver = resolver

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)
