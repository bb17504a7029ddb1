"""
What may happen to Consul: its servers, its agents, and what they keep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import frozen

from .fault import End, Fault, MemberFault, choice, kind, seconds

if TYPE_CHECKING:
    from ..life import Life
    from ..world import World


def _work_brought_back(world: World) -> End:
    """
    Give what adds the work again that there is now.
    """
    work = [(entry.key, entry.value) for entry in world.consul.kv.walk(world.keys.work)]

    def bring_back() -> None:
        for key, value in work:
            if world.consul.kv.get(key) is None:
                world.by_hand(world.api.put(key, value))

    return bring_back


@kind("leaderless", weight=2)
@frozen(kw_only=True)
class Leaderless(Fault):
    """
    The servers have no leader.
    """

    lasts: float = seconds(0.1, 25)

    def strike(self, world: World) -> End:
        """
        Let it happen.
        """
        world.consul.lose_leader()
        return world.consul.elect_leader


@kind("restart")
@frozen(kw_only=True)
class Restart(Fault):
    """
    Everything is restarted; it has its state on disk.
    """

    def strike(self, world: World) -> None:
        """
        Let it happen.
        """
        world.consul.restart()


@kind("empty", weight=0.7, disaster=True)
@frozen(kw_only=True)
class Empty(Fault):
    """
    The servers lose everything; after a while operators add the work again.
    """

    lasts: float = seconds(0.5, 20)

    def strike(self, world: World) -> End:
        """
        Let it happen.
        """
        bring_back = _work_brought_back(world)
        world.consul.empty()
        world.laws.disaster()
        return bring_back


@kind("restore", weight=1, disaster=True)
@frozen(kw_only=True)
class Restore(Fault):
    """
    The servers go back to what they knew a while ago; after a while operators
    add the work again that they forgot.

    :ivar age: how long ago, in seconds, or a little longer; the oldest snapshot
        is taken where there is none of that age.
    :ivar rewind: whether their indexes go back as well.
    """

    lasts: float = seconds(0.5, 20)
    age: float = seconds(1, 40)
    rewind: bool = choice(True, True, False)

    def strike(self, world: World) -> End | None:
        """
        Let it happen.
        """
        before = world.clock.seconds() - self.age
        taken = [snapshot for when, snapshot in world.snapshots if when <= before]
        snapshot = taken[-1] if taken else world.snapshots[0][1]
        bring_back = _work_brought_back(world)
        world.busy = False
        world.consul.restore(snapshot, self.rewind)
        world.laws.disaster()
        return bring_back


class _Liveness(MemberFault):
    """
    Something that happens to a member's liveness check.
    """

    def hit(self, world: World, life: Life) -> None:
        """
        Let it happen, if there is one.
        """
        check = life.member.session.check_id
        if check and check in life.agent.checks:
            self.befall(world, life, check)

    def befall(self, world: World, life: Life, check: str) -> None:
        """
        Let it happen to this check.
        """
        raise NotImplementedError


@kind("fail-check")
@frozen(kw_only=True)
class FailCheck(_Liveness):
    """
    Somebody sets the check critical by hand; the next pass is answered 200.
    """

    def befall(self, world: World, life: Life, check: str) -> None:
        """
        Let it happen.
        """
        life.agent.update(check, "critical", "by hand")


@kind("forget-check")
@frozen(kw_only=True)
class ForgetCheck(_Liveness):
    """
    The check vanishes from the catalog alone; passes are answered 200.
    """

    def befall(self, world: World, life: Life, check: str) -> None:
        """
        Let it happen.
        """
        world.consul.remove_check(check, life.agent.node)


@kind("deregister")
@frozen(kw_only=True)
class Deregister(_Liveness):
    """
    Somebody deregisters the service that carries the check.
    """

    def befall(self, world: World, life: Life, check: str) -> None:
        """
        Let it happen.
        """
        life.agent.remove_service(life.agent.checks[check].check.service_id)


@kind("destroy", weight=3)
@frozen(kw_only=True)
class Destroy(MemberFault):
    """
    Somebody destroys its session.
    """

    def hit(self, world: World, life: Life) -> None:
        """
        Let it happen.
        """
        if life.member.session_id is not None:
            world.consul.destroy_session(life.member.session_id)


@kind("stop-agent", weight=2)
@frozen(kw_only=True)
class StopAgent(MemberFault):
    """
    Its agent stops, and is started again.

    :ivar how: ``kill``, or ``leave`` as SIGTERM makes it.
    """

    lasts: float = seconds(0.3, 25)
    how: str = choice("kill", "leave")

    def hit(self, world: World, life: Life) -> End | None:
        """
        Let it happen.
        """
        agent = life.agent
        if not agent.running:
            return None
        stop: Callable[[], None] = getattr(agent, self.how)
        stop()
        return agent.start


@kind("cut-agent", weight=1.5)
@frozen(kw_only=True)
class CutAgent(MemberFault):
    """
    Its agent reaches no server.
    """

    lasts: float = seconds(0.3, 30)

    def hit(self, world: World, life: Life) -> End:
        """
        Let it happen.
        """
        agent = life.agent
        agent.cut_off()
        return agent.reconnect


@kind("reload-agent")
@frozen(kw_only=True)
class ReloadAgent(MemberFault):
    """
    Its agent forgets what is registered with it.
    """

    def hit(self, world: World, life: Life) -> None:
        """
        Let it happen.
        """
        life.agent.reload()


@kind("reap-node")
@frozen(kw_only=True)
class ReapNode(MemberFault):
    """
    Its node is taken out of the catalog; later its agent joins again.
    """

    lasts: float = seconds(0.3, 10)

    def hit(self, world: World, life: Life) -> End:
        """
        Let it happen.
        """
        agent = life.agent
        world.consul.deregister_node(agent.node)

        def end() -> None:
            if agent.running:
                agent.join()

        return end


@kind("gossip", weight=0.5)
@frozen(kw_only=True)
class Gossip(MemberFault):
    """
    Gossip takes its node for dead.
    """

    lasts: float = seconds(0.3, 10)

    def hit(self, world: World, life: Life) -> End | None:
        """
        Let it happen.
        """
        node = life.agent.node
        if node not in world.consul.catalog.nodes:
            return None
        world.consul.fail_node(node)

        def end() -> None:
            if node in world.consul.catalog.nodes:
                world.consul.fail_node(node, critical=False)

        return end
