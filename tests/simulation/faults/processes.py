"""
What may happen to the process of a member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from .fault import End, MemberFault, choice, kind, seconds

if TYPE_CHECKING:
    from ..life import Life
    from ..world import World


@kind("pause", weight=3)
@frozen(kw_only=True)
class Pause(MemberFault):
    """
    It stands still, as SIGSTOP does.

    :ivar first: what it takes first when it goes on: ``timers`` or
        ``arrivals``.
    """

    lasts: float = seconds(0.3, 25)
    first: str = choice("timers", "arrivals")

    def hit(self, world: World, life: Life) -> End:
        """
        Let it happen.
        """
        life.pauses += 1
        life.clock.pause()

        def end() -> None:
            life.pauses -= 1
            if not life.pauses and not life.gone:
                life.clock.resume(self.first == "arrivals")
                world.laws.woken(life)

        return end


@kind("crash", weight=2)
@frozen(kw_only=True)
class Crash(MemberFault):
    """
    It is killed, and started again.

    :ivar lands: whether what it had sent arrives.
    """

    lasts: float = seconds(0.1, 20)
    lands: bool = choice(True, False)

    def hit(self, world: World, life: Life) -> End:
        """
        Let it happen.
        """
        life.process.network.lands_late = lambda request: self.lands
        world.kill(life)
        return lambda: world.start(life.name)


@kind("shutdown")
@frozen(kw_only=True)
class ShutDown(MemberFault):
    """
    It is shut down in order, and started again.
    """

    lasts: float = seconds(1, 20)

    def hit(self, world: World, life: Life) -> End | None:
        """
        Let it happen.
        """
        if life.shutting_down_since is not None:
            return None
        stopped = world.stop(life)

        def end() -> None:
            # Whoever started it waits for the end before it is started again.
            stopped.addCallback(lambda _: world.start(life.name))

        return end


@kind("weight", weight=0.5)
@frozen(kw_only=True)
class Weigh(MemberFault):
    """
    It is given another weight.
    """

    lasts: float = seconds(1, 20)
    weight_now: float = choice(0.0, 1.0, 3.0)

    def hit(self, world: World, life: Life) -> End:
        """
        Let it happen.
        """
        life.member.set_weight(self.weight_now)

        def end() -> None:
            if not life.gone:
                life.member.set_weight(life.actor.weight)

        return end
