"""
Plugins that lead and that work: how they are written down, and found by name.

A plugin is an object in a module of ``twisted.plugins`` with a ``name``; it
provides :class:`~voltha_coord.interfaces.ILeaderPlugin` or
:class:`~voltha_coord.interfaces.IWorkerPlugin` and is called with the
Coordinator.  Any object that does will do; :class:`LeaderPlugin` and
:class:`WorkerPlugin` hold dotted names, so that a plugin can be listed without
anything of what it stands for being imported.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from twisted.plugin import IPlugin, getPlugins
from twisted.python.reflect import namedAny
from zope.interface import implementer

from .interfaces import ILeader, ILeaderPlugin, IPlanner, IWorker, IWorkerPlugin


@implementer(IPlugin, ILeaderPlugin)
class LeaderPlugin:
    """
    A leader, and what plans for it, by their dotted names.

    :ivar name: what ``--leader`` calls it.
    :ivar leader: is called with the Coordinator, and with what ``planner``
        gives where there is one.
    :ivar planner: is called without arguments.
    :ivar emergency: makes what plans for a member that is cut off, called
        without arguments; by default that is ``planner``.
    :ivar by_resources: whether it plans by what the members have and use, so
        that they are to measure and to tell it.
    """

    def __init__(
        self,
        name: str,
        leader: str,
        planner: str | None = None,
        *,
        emergency: str | None = None,
        by_resources: bool = False,
    ) -> None:
        self.name = name
        self.leader = leader
        self.planner = planner
        self.emergency = emergency
        self.by_resources = by_resources

    def resolve(self) -> None:
        """
        Import what the names stand for.

        :raises ConfigurationError: naming the one that stands for nothing.
        """
        _import(self.leader, self.planner, self.emergency)

    def __call__(self, coordinator: Any) -> ILeader:
        """
        Make the leader of a new term of this Coordinator.
        """
        make = namedAny(self.leader)
        if self.planner is None:
            return make(coordinator)  # type: ignore[no-any-return]  # by name
        planner = namedAny(self.planner)()
        return make(coordinator, planner)  # type: ignore[no-any-return]  # by name

    def emergency_planner(self) -> IPlanner:
        """
        Make what plans for a member that is cut off: what is named for that, or
        else the leader's own planner, where there is one.
        """
        name = self.emergency or self.planner
        if name is not None:
            return namedAny(name)()  # type: ignore[no-any-return]  # by name
        return make_emergency_planner(namedAny(self.leader))


@implementer(IPlugin, IWorkerPlugin)
class WorkerPlugin:
    """
    A worker, and what runs its items, by their dotted names.

    :ivar name: what ``--worker`` calls it.
    :ivar worker: is called with the instance id, the Coordinator, and with what
        ``runner`` gives where there is one.
    :ivar runner: is called without arguments.
    :ivar runner_of: is called with the Coordinator, and gives the runner where
        ``runner`` is not named.
    """

    def __init__(
        self,
        name: str,
        worker: str,
        runner: str | None = None,
        *,
        runner_of: str | None = None,
    ) -> None:
        self.name = name
        self.worker = worker
        self.runner = runner
        self.runner_of = runner_of

    def resolve(self) -> None:
        """
        Import what the names stand for.

        :raises ConfigurationError: naming the one that stands for nothing.
        """
        _import(self.worker, self.runner, self.runner_of)

    def __call__(self, coordinator: Any) -> IWorker:
        """
        Make the worker of this Coordinator.
        """
        given = [coordinator.instance_id, coordinator]
        if self.runner is not None:
            given.append(namedAny(self.runner)())
        elif self.runner_of is not None:
            given.append(namedAny(self.runner_of)(coordinator))
        return namedAny(self.worker)(*given)  # type: ignore[no-any-return]  # by name


def _import(*names: str | None) -> None:
    from .errors import ConfigurationError

    for name in filter(None, names):
        try:
            found = namedAny(name)
        except Exception as error:
            # Somebody's module may fail in any way when it is imported.
            why = f"{type(error).__name__}: {error}"
            raise ConfigurationError(f"{name!r} cannot be imported: {why}") from error
        if not callable(found):
            raise ConfigurationError(f"{name!r} cannot be called")


def make_emergency_planner(leader: object) -> IPlanner:
    """
    Make what plans for a member that is cut off and takes over the work of the
    others: what the leader class or plugin names as ``emergency_planner``, which
    is called without arguments; the balanced planner where it names none.
    """
    from .planning.balanced import BalancedPlanner

    planner: IPlanner = getattr(leader, "emergency_planner", BalancedPlanner)()
    return planner


def wants_measures(leader: object) -> bool:
    """
    Whether the members are to measure what they have and use for a leader class or
    plugin: it says so itself, as ``by_resources``.
    """
    return bool(getattr(leader, "by_resources", False))


def find_leader(name: str, package: ModuleType | None = None) -> ILeaderPlugin:
    """
    Give the leader plugin of that name.

    :param package: where to look, ``twisted.plugins`` when not given.
    :raises ConfigurationError: when there is none, or more than one, or what it
        stands for cannot be imported.
    """
    plugin: ILeaderPlugin = _find("leader", ILeaderPlugin, name, package)
    return plugin


def find_worker(name: str, package: ModuleType | None = None) -> IWorkerPlugin:
    """
    Give the worker plugin of that name.

    :param package: where to look, ``twisted.plugins`` when not given.
    :raises ConfigurationError: when there is none, or more than one, or what it
        stands for cannot be imported.
    """
    plugin: IWorkerPlugin = _find("worker", IWorkerPlugin, name, package)
    return plugin


def as_worker_class(plugin: IWorkerPlugin) -> Callable[[str, Any], IWorker]:
    """
    Give a worker plugin the shape of a worker class, which a Coordinator calls
    with the instance id too.
    """

    def make_worker(instance_id: str, coordinator: Any) -> IWorker:
        return plugin(coordinator)

    return make_worker


def _find(what: str, interface: Any, name: str, package: ModuleType | None) -> Any:
    # Imported here: it brings Consul's client along, which a list of plugins
    # does not need.
    from .errors import ConfigurationError

    places = () if package is None else (package,)
    plugins: list[Any] = list(getPlugins(interface, *places))
    found = [plugin for plugin in plugins if plugin.name == name]
    if len(found) == 1:
        if isinstance(found[0], LeaderPlugin | WorkerPlugin):
            # Now, and not when it is first to lead or to work.
            try:
                found[0].resolve()
            except ConfigurationError as error:
                raise ConfigurationError(f"{what} {name!r}: {error}") from error
        return found[0]
    if found:
        kinds = ", ".join(sorted(repr(plugin) for plugin in found))
        raise ConfigurationError(f"{len(found)} plugins are a {what} {name!r}: {kinds}")
    known = ", ".join(sorted(plugin.name for plugin in plugins)) or "no plugin"
    raise ConfigurationError(f"{name!r} is no {what}: there is {known}")
