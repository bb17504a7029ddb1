"""
One process of a member, from its start to its end.
"""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred

from voltha_coord.consul.transport import Request, Response
from voltha_coord.coordinator import Coordinator
from voltha_coord.embedded.memory import MemoryTransport
from voltha_coord.embedded.state import Agent
from voltha_coord.embedded.timeline import ProcessClock
from voltha_coord.plugins import find_leader
from voltha_coord.testing import FixedMeter, Process

from .cast import BALANCED
from .floor import FloorRunner
from .weather import Weather

if TYPE_CHECKING:
    from .cast import Actor
    from .world import World


class Life:
    """
    A process; see the head of the module.

    :ivar name: the member's instance id.
    :ivar title: that and which life of it this is, for the history.
    :ivar process: where it lives.
    :ivar weather: what its network is like.
    :ivar sessions: those it has made.
    :ivar pauses: how many reasons there are for it to stand still.
    :ivar meter: what its machine has, and is busy with; heeded where the leader
        looks at resources.
    :ivar gone: whether it is over.
    """

    def __init__(self, world: World, actor: Actor, number: int) -> None:
        self.world = world
        self.actor = actor
        self._note = world.history.note
        self.name = actor.name
        self.title = actor.name if number == 1 else f"{actor.name}.{number}"
        self.sessions: set[str] = set()
        self.pauses = 0
        self.meter = FixedMeter()
        self.gone = False
        self.shutting_down_since: float | None = None
        self.process: Process
        self.weather: Weather
        self.settings = world.schedule.cast.settings_of(actor)

    def begin(self) -> None:
        """
        Let the process start.
        """
        world, actor = self.world, self.actor
        world.coming = self
        chosen: dict[str, Any] = {}
        if world.schedule.leader != BALANCED:
            leader = find_leader(world.schedule.leader)
            chosen = {"leader_class": leader, "meter": self.meter}
        member = world.add(
            actor.name,
            clock_rate=actor.rate,
            clock_ahead=actor.ahead,
            settings=self.settings,
            weight=actor.weight,
            can_lead=actor.can_lead,
            worker_class=self._make_worker,
            **chosen,
        )
        self.process = world.process(member)
        self.weather = Weather(self.process.network, self.random("weather"))
        self.note("is-started")

    def _make_worker(self, instance_id: str, coordinator: Coordinator) -> Any:
        from voltha_coord.worker import Worker

        runner = FloorRunner(
            self,
            self.world.floor,
            coordinator.steady,
            self.random("floor"),
            fails=self.world.schedule.cast.fails,
            grace=self.settings.grace,
        )
        return Worker(instance_id, coordinator, runner)

    def random(self, what: str) -> Random:
        """
        Give randomness that nothing else draws from.
        """
        return Random(f"{self.world.schedule.seed} {self.title} {what}")

    def note(self, what: str, *about: Any) -> None:
        """
        Something happens here.
        """
        self._note(self.title, what, *about)

    def made_ready(self, item: str) -> None:
        """
        An item has been made ready here.
        """
        self.note("has-ready", item)
        self.world.floor.ready[self.name, item] = self.world.clock.seconds()

    @property
    def member(self) -> Coordinator:
        """
        The Coordinator.
        """
        return self.process.member

    @property
    def clock(self) -> ProcessClock:
        """
        The clock of the process.
        """
        return self.process.clock

    @property
    def awake(self) -> bool:
        """
        Whether it is there, and does not stand still.
        """
        return not self.gone and not self.pauses

    @property
    def agent(self) -> Agent:
        """
        Its agent.
        """
        return self.world.consul.agent(f"node-of-{self.name}")

    @property
    def may_act(self) -> bool:
        """
        Whether its lease has not run out, whatever it has been told since: what
        it does at this very instant it may do.
        """
        lease = self.member.session.lease
        return lease is not None and self.clock.seconds() < lease.deadline

    def __str__(self) -> str:
        return self.title


class Door:
    """
    The door of an agent that one process knocks at.
    """

    def __init__(self, agent: Agent, life: Life) -> None:
        self._agent = agent
        self._life = life

    def handle(self, request: Request) -> Deferred[Response]:
        """
        Let the agent answer.
        """
        life = self._life
        number = life.world.number_of(request)
        life.note("reaches", number, request)
        answering = self._agent.handle(request)
        return answering.addBoth(self._answered, number, request)

    def _answered(self, outcome: Any, number: str, request: Request) -> Any:
        self._life.note("is-answered", number, outcome)
        made = request.path == "/v1/session/create" and isinstance(outcome, Response)
        if made and outcome.status == 200:
            self._life.sessions.add(json.loads(outcome.body)["ID"])
        return outcome


class Line(MemoryTransport):
    """
    Carries the requests of one process, and takes them down.
    """

    def __init__(self, agent: Agent, clock: ProcessClock, life: Life) -> None:
        super().__init__(Door(agent, life), clock)
        self._life = life
        self._node = agent.node

    def __str__(self) -> str:
        return f"http://{self._node}:8500"

    def request(self, request: Request) -> Deferred[Response]:
        """
        Send a request.
        """
        number = self._life.world.sent(self._life, request)
        self._life.note("asks", number, request)
        return super().request(request).addBoth(self._ended, number)

    def _ended(self, outcome: Any, number: str) -> Any:
        self._life.note("hears", number, outcome)
        return outcome
