"""
Host names that go on working when DNS does not (field reports 144, 145).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IAddress,
    IDelayedCall,
    IHostnameResolver,
    IHostResolution,
    IReactorPluggableNameResolver,
    IResolutionReceiver,
)
from zope.interface import implementer


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
            self._reactor.nameResolver.resolveHostName(
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
