"""
Registries of metrics, and what is handed to whoever scrapes.

# Note [Whose metrics]

Every sample is labelled with the prefix of its cluster and the id of its member.
So the members of a cluster can be told from those of another whatever scrapes
them, and one process may run several Coordinators, in one registry: hand them
all to one :class:`MemberCollector`.

What only the leader knows, the state of the whole cluster, only the leader
tells, and only while it leads and has made a pass: no sample is better than an
old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from .families import Family
from .metrics import METRICS

if TYPE_CHECKING:
    from ..coordinator import Coordinator


class MemberCollector(Collector):
    """
    Tells the metrics of some Coordinators, for a registry of one's own::

        REGISTRY.register(MemberCollector(coordinator))

    A registry takes one of them: give it all Coordinators of the process.

    :param coordinators: whose metrics.
    """

    def __init__(self, *coordinators: Coordinator) -> None:
        self._coordinators = coordinators

    def members(self) -> Iterable[Coordinator]:
        """
        Give those there are at the moment.
        """
        return self._coordinators

    def describe(self) -> Iterator[Family]:
        """
        Give every metric without its samples: its name is taken.
        """
        return (metric.family(()) for metric in METRICS)

    def collect(self) -> Iterator[Family]:
        """
        Give every metric as it is now.
        """
        members = tuple(self.members())
        return (metric.family(members) for metric in METRICS)


class _ServedMember(MemberCollector):
    """
    Tells the metrics of the Coordinator a service runs, while there is one.
    """

    def __init__(self, served: Callable[[], Coordinator | None]) -> None:
        super().__init__()
        self._served = served

    def members(self) -> Iterable[Coordinator]:
        """
        Give the one there is, or none.
        """
        member = self._served()
        return () if member is None else (member,)


def service_registry(served: Callable[[], Coordinator | None]) -> CollectorRegistry:
    """
    Make the registry of a service: its member, and its process.

    :param served: gives the Coordinator, ``None`` while there is none.
    """
    registry = CollectorRegistry()
    registry.register(_ServedMember(served))
    ProcessCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry, accepted: str) -> tuple[bytes, str]:
    """
    Write down what a registry holds at this moment.

    :param accepted: the ``Accept`` header of whoever asks.
    :return: the text, and its content type.
    """
    encode, content_type = choose_encoder(accepted)
    return encode(registry), content_type
