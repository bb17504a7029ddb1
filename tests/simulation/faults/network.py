"""
What may happen between a member and its agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import frozen

from voltha_coord.consul.transport import Lane, Request, Response
from voltha_coord.embedded.memory import Way
from voltha_coord.errors import ConsulUnavailable

from ..weather import Disturbance
from .fault import End, MemberFault, choice, kind, seconds

if TYPE_CHECKING:
    from ..life import Life
    from ..world import World

_WAYS = {"both": (), "out": (Way.OUT,), "home": (Way.HOME,)}

#: Which requests a fault may be about.
_ABOUT: dict[str, Callable[[Request], bool]] = {
    "all": lambda request: True,
    "writes": lambda request: request.path == "/v1/txn",
    "watches": lambda request: request.lane is Lane.WATCH,
    "commands": lambda request: request.lane is not Lane.SESSION,
    "reads": lambda request: request.method == "GET",
    "session": lambda request: request.lane is Lane.SESSION,
    "passes": lambda request: request.path.startswith("/v1/agent/check/pass/"),
}

_ANSWERS = {
    429: b"Your IP is issuing too many concurrent connections",
    500: b"rpc error making call: EOF",
    503: b"",
}


@kind("cut", weight=3)
@frozen(kw_only=True)
class Cut(MemberFault):
    """
    Nothing passes, or nothing passes in one direction.

    :ivar late: whether what was sent meanwhile arrives when it is over.
    :ivar given_up_lands: whether that is so also of what was given up.
    """

    lasts: float = seconds(0.3, 40)
    way: str = choice("both", "both", "out", "home")
    late: bool = choice(True, False)
    given_up_lands: bool = choice(False, True)

    def hit(self, world: World, life: Life) -> End:
        """
        Let it happen.
        """
        mend = life.weather.cut(_WAYS[self.way] or tuple(Way))
        lands = life.weather.disturb(
            Disturbance(lands_late=lambda request: self.given_up_lands)
        )

        def end() -> None:
            if not life.gone:
                mend(self.late)
            lands()

        return end


@kind("drop", weight=2)
@frozen(kw_only=True)
class Drop(MemberFault):
    """
    Requests are lost: a check lapses for want of passes, a session of renewals.
    """

    lasts: float = seconds(0.5, 30)
    about: str = choice("passes", "passes", "session", "writes", "commands", "watches")
    share: float = choice(0.5, 1.0)

    def hit(self, world: World, life: Life) -> End:
        """
        Let it happen.
        """
        random, about = self.random(world), _ABOUT[self.about]
        return life.weather.disturb(
            Disturbance(
                loses_request=lambda request: (
                    about(request) and random.random() < self.share
                )
            )
        )


@kind("lose", weight=2)
@frozen(kw_only=True)
class Lose(MemberFault):
    """
    Answers are lost of what was done all the same.
    """

    lasts: float = seconds(0.5, 30)
    about: str = choice(
        "all", "writes", "watches", "commands", "reads", "session", "passes"
    )
    share: float = choice(0.3, 0.8, 1.0)

    def hit(self, world: World, life: Life) -> End:
        """
        Let it happen.
        """
        random, about = self.random(world), _ABOUT[self.about]
        return life.weather.disturb(
            Disturbance(
                loses_reply=lambda request: (
                    about(request) and random.random() < self.share
                )
            )
        )


@kind("slow", weight=2)
@frozen(kw_only=True)
class Slow(MemberFault):
    """
    Requests, or answers, take their time.

    :ivar out, home: how long at most, in seconds.
    :ivar even: whether all take that long; or else half are as quick as ever,
        and some overtake others.
    :ivar given_up_lands: whether what was given up on its way arrives.
    """

    lasts: float = seconds(0.5, 20)
    about: str = choice("all", "all", "writes", "reads", "session", "passes")
    out: float = choice(0.0, 0.0, 0.2, 1.4, 4.0)
    home: float = choice(0.0, 0.2, 1.4, 1.9)
    even: bool = choice(False, True)
    given_up_lands: bool = choice(True, False)

    def hit(self, world: World, life: Life) -> End:
        """
        Let it happen.
        """
        random, about = self.random(world), _ABOUT[self.about]

        def take(most: float) -> Callable[[Request], float]:
            least = most if self.even else -most
            return lambda request: (
                max(0.0, random.uniform(least, most)) if about(request) else 0.0
            )

        return life.weather.disturb(
            Disturbance(
                latency=take(self.out),
                reply_latency=take(self.home),
                lands_late=lambda request: self.given_up_lands,
            )
        )


@kind("fade", weight=2)
@frozen(kw_only=True)
class Fade(MemberFault):
    """
    Answers take ever the same time, and then nothing arrives any more: a link
    is congested, and breaks.

    :ivar home: how long answers take, in seconds.
    :ivar breaks: after how many seconds it breaks.
    """

    lasts: float = seconds(6, 30)
    home: float = choice(0.3, 0.9, 1.4, 1.4)
    breaks: float = seconds(1.5, 5)

    def hit(self, world: World, life: Life) -> End:
        """
        Let it happen.
        """
        end = world.clock.seconds() + self.breaks
        return life.weather.disturb(
            Disturbance(
                reply_latency=lambda request: self.home,
                loses_request=lambda request: world.clock.seconds() >= end,
            )
        )


@kind("refuse")
@frozen(kw_only=True)
class Refuse(MemberFault):
    """
    No connection is taken.
    """

    lasts: float = seconds(0.3, 10)

    def hit(self, world: World, life: Life) -> End:
        """
        Let it happen.
        """
        return life.weather.disturb(Disturbance(refuses=True))


@kind("answer")
@frozen(kw_only=True)
class Answer(MemberFault):
    """
    Somebody answers in Consul's place, or the connection is reset (status 0).

    :ivar done: whether what was asked for is done all the same.
    """

    lasts: float = seconds(0.3, 15)
    status: int = choice(0, 429, 500, 503)
    done: bool = choice(True, False)
    share: float = choice(0.3, 1.0)

    def hit(self, world: World, life: Life) -> End:
        """
        Let it happen.
        """
        random = self.random(world)

        def answer(request: Request) -> Response | Exception | None:
            if random.random() >= self.share:
                return None
            if not self.status:
                return ConsulUnavailable("connection reset by peer")
            return Response(self.status, {}, _ANSWERS[self.status])

        return life.weather.disturb(
            Disturbance(garbled=answer) if self.done else Disturbance(instead=answer)
        )
