"""
A plugin of one's own: a way to work, and a way to lead.

Install it beside ``voltha_coord``, or put its folder on ``PYTHONPATH``::

    pip install examples/my_plugin
    twistd -n voltha_coord --worker heartbeat --leader standby

An item of the worker ``heartbeat`` appends a line to a file, again and again::

    voltha-coordctl work add beat --value '{"config": {"file": "/tmp/beat"}}'

When the value of an item that runs is changed, it goes on with that, by
``update_work``: another file, or another pace.

Under the leader ``standby`` one member runs everything, and the others are
there for when it ends.
"""

from __future__ import annotations

from pathlib import Path

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from zope.interface import implementer

from voltha_coord.interfaces import IPlanner
from voltha_coord.planning.operations import Assign, Move, Operation, Plan, Unassign
from voltha_coord.planning.state import ClusterState
from voltha_coord.records import WorkItem
from voltha_coord.runners.track import TrackRunner


class Heartbeat(TrackRunner):
    """
    Runs items that append a line to a file, and count their lines.

    :param clock: the global reactor by default.
    """

    def __init__(self, clock: IReactorTime | None = None) -> None:
        if clock is None:
            from twisted.internet import reactor

            clock = IReactorTime(reactor)
        self._clock = clock
        self._loops: dict[str, LoopingCall] = {}
        self._beats: dict[str, int] = {}

    def start_work(self, item: WorkItem, report: bytes | None) -> None:
        """
        Beat from now on, and count on from where the owner before stopped.

        :raises KeyError, TypeError: when the item names no file; the text is
            what ``voltha-coordctl assignments`` shows.
        """
        file = Path(item.config["file"])
        self._beats[item.id] = int(report or 0)
        loop = LoopingCall(self._beat, item.id, file)
        loop.clock = self._clock
        self._loops[item.id] = loop
        loop.start(float(item.config.get("every", 1.0))).addErrback(lambda _: None)

    def _beat(self, work_id: str, file: Path) -> None:
        self._beats[work_id] += 1
        with file.open("a") as lines:
            lines.write(f"{work_id} {self._beats[work_id]}\n")

    def stop_work(self, item: WorkItem) -> None:
        """
        Beat no more.
        """
        loop = self._loops.pop(item.id, None)
        if loop is not None and loop.running:
            loop.stop()

    def update_work(self, item: WorkItem) -> None:
        """
        Go on with another file or another pace.
        """
        beats = b"%d" % self._beats.get(item.id, 0)
        self.stop_work(item)
        self.start_work(item, beats)

    def report(self, item: WorkItem) -> bytes:
        """
        Hand the count over.
        """
        return b"%d" % self._beats.pop(item.id, 0)


@implementer(IPlanner)
class StandbyPlanner:
    """
    Gives everything to one member: to the one that has most of it already.
    What members in maintenance have stays with them.
    """

    def plan(self, state: ClusterState) -> Plan:
        """
        Give what is to be done; a pure function of the state.
        """
        if state.frozen:
            return Plan()
        held = {name: len(state.assignments.get(name, ())) for name in state.receivers}
        active = max(held, key=lambda name: held[name], default=None)
        placed: dict[str, str] = {}
        for member in (*sorted(state.keepers), *filter(None, [active])):
            mine = state.assignments.get(member, {})
            placed |= dict.fromkeys(mine.keys() & state.work.keys(), member)
        if active is None:
            homeless = state.work.keys() - placed.keys()
            return Plan(errors=dict.fromkeys(homeless, "no member to run it"))
        operations: list[Operation] = []
        for member, items in state.assignments.items():
            for work in items:
                if placed.get(work) == member:
                    continue
                if work in state.work and work not in placed:
                    operations.append(Move(work, member, active))
                    placed[work] = active
                else:
                    operations.append(Unassign(work, member))
        new = sorted(state.work.keys() - placed.keys())
        operations += [Assign(work, active) for work in new]
        return Plan(tuple(operations), placed | dict.fromkeys(new, active))
