"""
What operators may do, on purpose or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from voltha_coord.consul.model import SessionSpec
from voltha_coord.records import TransferRequest

from .fault import End, Fault, MemberFault, choice, drawn, kind, seconds

if TYPE_CHECKING:
    from random import Random

    from ..cast import Cast
    from ..life import Life
    from ..world import World


def _draw_heir(random: Random, cast: Cast) -> str:
    """
    Draw to whom leadership is to go: a member, any, or none there is.
    """
    return random.choice((*cast.names, "", "", "nobody"))


_ITEMS = tuple(f"w{number}" for number in range(9))

#: What somebody may write over a key.
_JUNK = {"x": b"x", "empty": b"", "alive": b"alive", "binary": b"\xff", "[]": b"[]"}


@kind("add-work", weight=1.5)
@frozen(kw_only=True)
class AddWork(Fault):
    """
    Work is added, or given another value.
    """

    item: str = choice(*_ITEMS)
    value: str = choice("", "x", '{"config": 1}')

    def strike(self, world: World) -> None:
        """
        Let it happen.
        """
        key = world.keys.work_item(self.item)
        world.by_hand(world.api.put(key, self.value.encode()))


@kind("remove-work", weight=1)
@frozen(kw_only=True)
class RemoveWork(Fault):
    """
    Work is removed.
    """

    item: str = choice(*_ITEMS)

    def strike(self, world: World) -> None:
        """
        Let it happen.
        """
        world.by_hand(world.api.delete(world.keys.work_item(self.item)))


@kind("delete-key", weight=3)
@frozen(kw_only=True)
class DeleteKey(MemberFault):
    """
    A key is deleted by hand: the leader key, a member's, or all it has
    assigned.
    """

    key: str = choice("leader", "leader", "member", "assignments")

    def hit(self, world: World, life: Life) -> None:
        """
        Let it happen.
        """
        keys, api = world.keys, world.api
        if self.key == "assignments":
            prefix = keys.assignments_of(life.name)
            world.by_hand(api.delete(prefix, recurse=True))
        else:
            key = keys.leader if self.key == "leader" else keys.member(life.name)
            world.by_hand(api.delete(key))


@kind("overwrite-key", weight=1.5)
@frozen(kw_only=True)
class OverwriteKey(MemberFault):
    """
    A key is overwritten by hand.
    """

    key: str = choice("leader", "member", "term", "work", "assignment", "status")
    junk: str = choice(*_JUNK)

    def hit(self, world: World, life: Life) -> None:
        """
        Let it happen.
        """
        keys = world.keys
        names = {
            "leader": keys.leader,
            "member": keys.member(life.name),
            "term": keys.term,
            "work": keys.work_item("w0"),
            "assignment": keys.assignment(life.name, "w0"),
            "status": keys.status(life.name, 0),
        }
        world.by_hand(world.api.put(names[self.key], _JUNK[self.junk]))


@kind("assign", weight=0.7)
@frozen(kw_only=True)
class Assign(MemberFault):
    """
    Somebody assigns an item by hand, whoever has it.
    """

    item: str = choice(*_ITEMS)

    def hit(self, world: World, life: Life) -> None:
        """
        Let it happen.
        """
        world.by_hand(world.api.put(world.keys.assignment(life.name, self.item), b""))


@kind("stranger", weight=0.7)
@frozen(kw_only=True)
class Stranger(Fault):
    """
    A stranger tries to hold the leader key, and lets go later.
    """

    lasts: float = seconds(0.3, 12)

    def strike(self, world: World) -> End:
        """
        Let it happen.
        """
        api, key = world.api, world.keys.leader
        made = api.create_session(SessionSpec("stranger", ttl=60, lock_delay=0))

        def hold(session: str) -> str:
            world.by_hand(api.put(key, b"stranger", acquire=session))
            return session

        world.by_hand(made.addCallback(hold))

        def let_go(session: str | None) -> None:
            if session is not None:
                world.consul.destroy_session(session)

        def end() -> None:
            # Where Consul has no leader, it is made only later, if at all.
            made.addCallback(let_go)

        return end


@kind("freeze", weight=0.7)
@frozen(kw_only=True)
class Freeze(Fault):
    """
    Planning is frozen for a while.
    """

    lasts: float = seconds(0.5, 15)

    def strike(self, world: World) -> End:
        """
        Let it happen.
        """
        api, key = world.api, world.keys.freeze
        world.by_hand(api.put(key, b"maintenance window"))
        return lambda: world.by_hand(api.delete(key))


@kind("intend", weight=1)
@frozen(kw_only=True)
class Intend(MemberFault):
    """
    A member is to take nothing more, or to give up all it has.
    """

    lasts: float = seconds(1, 20)
    what: str = choice("maintenance", "leave")

    def hit(self, world: World, life: Life) -> End:
        """
        Let it happen.
        """
        api, key = world.api, world.keys.node_intent(life.name)
        world.by_hand(api.put(key, self.what.encode()))
        return lambda: world.by_hand(api.delete(key))


@kind("transfer", weight=1.5)
@frozen(kw_only=True)
class Transfer(Fault):
    """
    The application of whoever leads hands leadership over.

    :ivar to: to which member; empty for any.
    """

    to: str = drawn(_draw_heir, "")

    def strike(self, world: World) -> None:
        """
        Let it happen.
        """
        leader = world.target("leader")
        if leader is not None and leader.awake:
            world.by_hand(leader.member.transfer_leadership(self.to or None))


@kind("ask-transfer", weight=1)
@frozen(kw_only=True)
class AskTransfer(Fault):
    """
    An operator asks whoever leads to hand leadership over.

    :ivar to: to which member; empty for any.
    """

    to: str = drawn(_draw_heir, "")

    def strike(self, world: World) -> None:
        """
        Let it happen.
        """
        leader = world.target("leader")
        token = None if leader is None else leader.member.lease.token
        if token is not None:
            request = TransferRequest(self.to, token, f"fault-{self.number}")
            world.by_hand(world.api.put(world.keys.transfer, request.encode()))
