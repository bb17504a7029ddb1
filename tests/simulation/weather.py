"""
What the network between one member and its agent is like at the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from attrs import frozen

from voltha_coord.consul.transport import Request, Response
from voltha_coord.embedded.memory import Network, Way

#: What a request, or its answer, takes in fair weather at most, in seconds.
FAIR_SECONDS = 0.003


def _never(request: Request) -> bool:
    return False


def _no_time(request: Request) -> float:
    return 0.0


def _nothing(request: Request) -> None:
    return None


@frozen(kw_only=True, eq=False)
class Disturbance:
    """
    Something that lies over the network for a while; what it leaves out is as
    ever.  See :class:`~voltha_coord.embedded.memory.Network`.
    """

    latency: Callable[[Request], float] = _no_time
    reply_latency: Callable[[Request], float] = _no_time
    loses_request: Callable[[Request], bool] = _never
    loses_reply: Callable[[Request], bool] = _never
    lands_late: Callable[[Request], bool] = _never
    instead: Callable[[Request], Response | Exception | None] = _nothing
    garbled: Callable[[Request], Response | Exception | None] = _nothing
    refuses: bool = False


class Weather:
    """
    Any number of disturbances at once, over one network.

    :param random: how long fair-weather requests take.
    """

    def __init__(self, network: Network, random: Random) -> None:
        self._network = network
        self._random = random
        self._disturbances: list[Disturbance] = []
        self._cuts: list[frozenset[Way]] = []
        self._settle()

    def disturb(self, disturbance: Disturbance) -> Callable[[], None]:
        """
        Let a disturbance begin.

        :return: what ends it.
        """
        self._disturbances.append(disturbance)
        self._settle()

        def end() -> None:
            self._disturbances.remove(disturbance)
            self._settle()

        return end

    def cut(self, ways: Iterable[Way]) -> Callable[[bool], None]:
        """
        Let nothing pass in some directions.

        :return: what ends it; the last one to end says whether what was sent
            meanwhile arrives.
        """
        shut = frozenset(ways)
        self._cuts.append(shut)
        self._network.partition(*frozenset().union(*self._cuts))

        def end(deliver: bool) -> None:
            self._cuts.remove(shut)
            if self._cuts:
                self._network.partition(*frozenset().union(*self._cuts))
            else:
                self._network.heal(deliver)

        return end

    def _settle(self) -> None:
        network, fair, now = self._network, self._fair, self._disturbances
        network.refuses = any(one.refuses for one in now)
        if not now:
            network.latency = network.reply_latency = fair
            network.loses_request = network.loses_reply = _never
            network.lands_late = _never
            network.instead = network.garbled = _nothing
            return
        network.latency = lambda r: fair(r) + sum(d.latency(r) for d in now)
        network.reply_latency = lambda r: fair(r) + sum(d.reply_latency(r) for d in now)
        network.loses_request = lambda r: any(d.loses_request(r) for d in now)
        network.loses_reply = lambda r: any(d.loses_reply(r) for d in now)
        network.lands_late = lambda r: any(d.lands_late(r) for d in now)
        network.instead = lambda r: _first(d.instead(r) for d in now)
        network.garbled = lambda r: _first(d.garbled(r) for d in now)

    def _fair(self, request: Request) -> float:
        return self._random.random() * FAIR_SECONDS


def _first(
    found: Iterable[Response | Exception | None],
) -> Response | Exception | None:
    return next((one for one in found if one is not None), None)
