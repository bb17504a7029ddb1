"""
What may happen to Consul, to an agent, to a key, to a process: each kind of
outage with its beginning and its end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import partial

from attrs import frozen

from voltha_coord.clock import LOOK_SECONDS
from voltha_coord.consul.model import Op
from voltha_coord.consul.transport import Request, Response
from voltha_coord.coordinator import Coordinator
from voltha_coord.errors import ConsulUnavailable, TransactionRefused

from .scene import Scene

#: To whom an outage happens that happens to everybody: the test looks on as one.
EVERYBODY = ("leader",)

#: To one of each.
BOTH = ("leader", "follower")

#: Makes something happen: to Consul as a whole, or to one member.
Lever = Callable[[Scene, Coordinator], object]


def _nothing(scene: Scene, member: Coordinator) -> None:
    """
    It ends by itself.
    """


@frozen(kw_only=True)
class Outage:
    """
    One kind of outage.

    :ivar name: what it is called, and how long it lasts.
    :ivar begin: makes it happen.
    :ivar end: ends it.
    :ivar seconds: how long it lasts.
    :ivar within: seconds from its end until all is well again, at most.
    :ivar moves: whether items may be elsewhere afterwards: somebody was gone
        for longer than it takes to notice.
    :ivar unnoticed: whether no item stops, and nobody leads in another's place.
    :ivar roles: to whom it happens, by what they are.
    :ivar forgetful: whether Consul forgets.
    :ivar excepted: whether two may lead, or run an item, until the loss is
        noticed: the guarantees say that this is no part of them.
    :ivar said: the events that tell operators what they have to know.
    :ivar possible: whether it can begin now, beside others.
    """

    name: str
    begin: Lever
    end: Lever = _nothing
    seconds: float = 0.0
    within: float = 10.0
    moves: bool = False
    unnoticed: bool = False
    roles: tuple[str, ...] = BOTH
    forgetful: bool = False
    excepted: bool = False
    said: tuple[str, ...] = ()
    possible: Lever = lambda scene, member: True


def _somebody_hands_over(scene: Scene, member: Coordinator) -> bool:
    return len(scene.cluster.leaders) == 1 and not scene.paused


def _writes_are_possible(scene: Scene, member: Coordinator) -> bool:
    return scene.cluster.consul.has_leader


def _has_a_session(scene: Scene, member: Coordinator) -> bool:
    checks = scene.agent(member).checks
    return member.session_id is not None and member.session.check_id in checks


# Consul as a whole.


def stop_consul(scene: Scene, member: Coordinator) -> None:
    """
    Every agent and every server is killed.
    """
    for agent in scene.agents:
        agent.kill()
    scene.cluster.consul.lose_leader()


def start_consul(scene: Scene, member: Coordinator) -> None:
    """
    They start again, with what they have on disk.
    """
    scene.cluster.consul.restart()
    for agent in scene.agents:
        agent.start()


def lose_leader(scene: Scene, member: Coordinator) -> None:
    """
    The servers have no leader.
    """
    scene.cluster.consul.lose_leader()


def elect_leader(scene: Scene, member: Coordinator) -> None:
    """
    They have one again.
    """
    scene.cluster.consul.elect_leader()


def empty(scene: Scene, member: Coordinator) -> None:
    """
    The servers come back without their data.
    """
    scene.cluster.consul.empty()
    for agent in scene.agents:
        agent.start()


def take_snapshot(scene: Scene, member: Coordinator) -> None:
    """
    Somebody keeps a snapshot.
    """
    scene.snapshot = scene.cluster.consul.snapshot()


def take_snapshot_and_go_on(scene: Scene, member: Coordinator) -> None:
    """
    Somebody keeps a snapshot; later there is another session, and other work.
    """
    take_snapshot(scene, member)
    destroy_session(scene, member)


def take_snapshot_and_hand_over(scene: Scene, member: Coordinator) -> None:
    """
    Somebody keeps a snapshot; later somebody else leads.
    """
    take_snapshot(scene, member)
    scene.leader.transfer_leadership().addErrback(lambda failure: None)


def restore(scene: Scene, member: Coordinator, *, rewind: bool) -> None:
    """
    The snapshot is restored, or the disks it lay on.
    """
    scene.cluster.consul.restore(scene.snapshot, rewind)


# Between a member and its agent.


def answer(
    scene: Scene, member: Coordinator, *, response: Response | Exception
) -> None:
    """
    Everything is answered in the same way, and nothing is done.
    """
    scene.cluster.network(member).instead = lambda request: _once(response)


def _once(response: Response | Exception) -> Response | Exception:
    """
    Give an answer, or an error of its own: one that is raised keeps where.
    """
    return response if isinstance(response, Response) else copy(response)


def answer_all(
    scene: Scene, member: Coordinator, *, response: Response | Exception
) -> None:
    """
    The same for everybody.
    """
    for one in scene.cluster.members.values():
        answer(scene, one, response=response)


def restore_network(scene: Scene, member: Coordinator) -> None:
    """
    Whatever was between the members and their agents is so no more.
    """
    for one in scene.cluster.members.values():
        network = scene.cluster.network(one)
        network.instead = network.garbled = lambda request: None
        network.loses_request = network.loses_reply = lambda request: False
        network.latency = network.reply_latency = lambda request: 0.0
        network.lands_late = lambda request: False
        network.refuses = False
        network.heal(deliver=False)


def hang(scene: Scene, member: Coordinator) -> None:
    """
    Nothing is answered, and nothing done.
    """
    scene.cluster.network(member).loses_request = lambda request: True


def answer_too_late(scene: Scene, member: Coordinator) -> None:
    """
    Everything is done, and answered when nobody waits for it any more.
    """
    scene.cluster.network(member).reply_latency = lambda request: 3 * request.deadline


def do_too_late(scene: Scene, member: Coordinator) -> None:
    """
    Everything arrives, and is done, when nobody waits for it any more.
    """
    network = scene.cluster.network(member)
    network.lands_late = lambda request: True
    network.latency = lambda request: 1.5 * request.deadline


def lose_replies(scene: Scene, member: Coordinator) -> None:
    """
    Writes are done, and their connections reset before they are answered.
    """

    def garbled(request: Request) -> Exception | None:
        reset = ConsulUnavailable("connection reset")
        return None if request.method == "GET" else reset

    scene.cluster.network(member).garbled = garbled


def refuse(scene: Scene, member: Coordinator) -> None:
    """
    No connection is taken.
    """
    scene.cluster.network(member).refuses = True


# The agent.


def kill_agent(scene: Scene, member: Coordinator) -> None:
    """
    The agent is killed.
    """
    scene.agent(member).kill()


def start_agent(scene: Scene, member: Coordinator) -> None:
    """
    The agent starts again.
    """
    scene.agent(member).start()


def stop_agent(scene: Scene, member: Coordinator) -> None:
    """
    The agent is stopped with SIGTERM, and its node leaves.
    """
    scene.agent(member).leave()


def reload_agent(scene: Scene, member: Coordinator) -> None:
    """
    The agent forgets what was registered with it.
    """
    scene.agent(member).reload()


def cut_agent_off(scene: Scene, member: Coordinator) -> None:
    """
    The agent reaches no server.
    """
    scene.agent(member).cut_off()


def reconnect_agent(scene: Scene, member: Coordinator) -> None:
    """
    The agent reaches them again.
    """
    scene.agent(member).reconnect()


def reap_node(scene: Scene, member: Coordinator) -> None:
    """
    The node is forced out, or reaped, though its agent lives.
    """
    scene.cluster.consul.deregister_node(scene.agent(member).node)


# What is done by hand.


def destroy_session(scene: Scene, member: Coordinator) -> None:
    """
    The session is destroyed.
    """
    scene.cluster.consul.destroy_session(member.session_id or "")


def fail_check(scene: Scene, member: Coordinator) -> None:
    """
    The check is made critical.
    """
    scene.agent(member).update(member.session.check_id, "critical", "")


def deregister_check(scene: Scene, member: Coordinator) -> None:
    """
    The check is deregistered with its agent.
    """
    scene.agent(member).remove_check(member.session.check_id)


def deregister_service(scene: Scene, member: Coordinator) -> None:
    """
    The service of the check is deregistered with its agent.
    """
    service, _, _ = member.session.check_id.rpartition(":")
    scene.agent(member).remove_service(service)


def drop_check(scene: Scene, member: Coordinator) -> None:
    """
    The check is removed from the catalog alone.
    """
    scene.cluster.consul.remove_check(member.session.check_id, scene.agent(member).node)


def delete(scene: Scene, member: Coordinator, *, key: str) -> None:
    """
    A key is deleted.
    """
    scene.do(Op.delete(key_of(scene, member, key)))


def overwrite(scene: Scene, member: Coordinator, *, key: str) -> None:
    """
    A key is written over.
    """
    scene.do(Op.set(key_of(scene, member, key), b"\xffnonsense"))


def seize(scene: Scene, member: Coordinator, *, key: str) -> None:
    """
    A key is taken by a stranger's session, whose TTL ends it.
    """
    name = key_of(scene, member, key)
    # A lock-delay keeps strangers away, too.
    with suppress(TransactionRefused):
        scene.do(Op.delete(name), Op.lock(name, b"stranger", scene.stranger()))


def key_of(scene: Scene, member: Coordinator, key: str) -> str:
    """
    Give the leader key, or the member's own.
    """
    keys = scene.cluster.keys
    return keys.leader if key == "leader" else keys.member(member.instance_id)


# The process, and its machine.


def fall_asleep(scene: Scene, member: Coordinator) -> None:
    """
    The machine sleeps: the process and its agent stand still.
    """
    pause(scene, member)
    cut_agent_off(scene, member)


def wake_up(scene: Scene, member: Coordinator) -> None:
    """
    The machine wakes up.
    """
    reconnect_agent(scene, member)
    resume(scene, member)


def pause(scene: Scene, member: Coordinator) -> None:
    """
    The process is stopped with SIGSTOP.
    """
    scene.paused.add(member.instance_id)
    scene.cluster.pause(member)


def resume(scene: Scene, member: Coordinator) -> None:
    """
    The process goes on.
    """
    scene.cluster.resume(member)
    scene.paused.discard(member.instance_id)
    # What the others took over meanwhile was no clash.
    scene.floor.clashes.clear()


def set_clock(scene: Scene, member: Coordinator, *, seconds: float) -> None:
    """
    Somebody sets the wall clock of its machine.  In a real process a thread
    notices, and wakes the reactor.
    """
    scene.clocks[member.instance_id].step(seconds)
    clock = scene.cluster.process(member).clock
    clock.callLater(LOOK_SECONDS, member.steady.resync)


#: Events that tell of a defect of ours.
DEFECTS = frozenset(
    {"task-failed", "watch-died", "watch-observer-failed", "session-loop-failed"}
)

#: What a proxy, or a Consul in trouble, may say to everything.
ANSWERS: dict[str, Response | Exception] = {
    "429": Response(429, {"retry-after": "3600"}, b"Too Many Requests"),
    "500": Response(500, {}, b"rpc error making call: EOF"),
    "503": Response(503, {}, b"try another server"),
    "502 of a proxy": Response(502, {"content-type": "text/html"}, b"<html>"),
    "an empty 200": Response(200, {}, b""),
    "a reset": ConsulUnavailable("connection reset"),
}


def _answers() -> list[Outage]:
    found = []
    for what, response in ANSWERS.items():
        for seconds in (1.5, 20.0):
            brief = seconds < 2 and what != "an empty 200"
            for everybody in (False, True):
                lever = answer_all if everybody else answer
                found.append(
                    Outage(
                        name=f"{what} to {'all' if everybody else 'one'}, {seconds} s",
                        begin=partial(lever, response=response),
                        end=restore_network,
                        seconds=seconds,
                        unnoticed=brief,
                        moves=not brief and not everybody,
                        roles=EVERYBODY if brief or everybody else BOTH,
                    )
                )
    return found


def _losses() -> list[Outage]:
    found = [
        Outage(
            name=f"emptied after {seconds} s",
            begin=stop_consul if seconds else _nothing,
            end=empty,
            seconds=seconds,
            # What has stopped waits for whoever may run it elsewhere.
            within=10.0 if seconds < 2 else 20.0,
            roles=EVERYBODY,
            forgetful=True,
            said=("consul-forgot-the-work",),
        )
        for seconds in (0.0, 1.0, 5.0, 60.0)
    ]
    for rewind in (False, True):
        end = partial(restore, rewind=rewind)
        how = "with its log" if rewind else "by command"
        found += [
            Outage(
                name=f"restored to a minute ago {how}",
                begin=take_snapshot,
                end=end,
                seconds=60.0,
                roles=EVERYBODY,
                forgetful=True,
            ),
            Outage(
                name=f"restored with an old session {how}",
                begin=take_snapshot_and_go_on,
                possible=_has_a_session,
                end=end,
                seconds=20.0,
                forgetful=True,
                said=("old-session-came-back",),
            ),
            Outage(
                name=f"restored to an earlier leader {how}",
                begin=take_snapshot_and_hand_over,
                possible=_somebody_hands_over,
                end=end,
                seconds=20.0,
                roles=EVERYBODY,
                forgetful=True,
                excepted=True,
                said=("fencing-token-went-back",),
            ),
            Outage(
                name=f"restored to nothing but work {how}",
                begin=_nothing,
                end=end,
                roles=EVERYBODY,
                forgetful=True,
                # The term record is gone, and with it whom to wait for.
                excepted=True,
                moves=True,
            ),
        ]
    return found


OUTAGES: tuple[Outage, ...] = (
    Outage(
        name="restarted at once",
        begin=lambda scene, member: scene.cluster.consul.restart(),
        roles=EVERYBODY,
        unnoticed=True,
    ),
    Outage(
        name="down 1 s",
        begin=stop_consul,
        end=start_consul,
        seconds=1.0,
        roles=EVERYBODY,
        unnoticed=True,
    ),
    *(
        Outage(
            name=f"down {seconds} s",
            begin=stop_consul,
            end=start_consul,
            seconds=seconds,
            within=3.0,
            roles=EVERYBODY,
        )
        for seconds in (5.0, 60.0, 600.0)
    ),
    *(
        Outage(
            name=f"without a leader {seconds} s",
            begin=lose_leader,
            end=elect_leader,
            seconds=seconds,
            roles=EVERYBODY,
            unnoticed=seconds < 10,
        )
        for seconds in (1.0, 2.0, 5.0, 9.0, 20.0, 60.0)
    ),
    *_losses(),
    *_answers(),
    Outage(
        name="hangs 1 s",
        begin=hang,
        end=restore_network,
        seconds=1.0,
        unnoticed=True,
    ),
    Outage(
        name="hangs 20 s", begin=hang, end=restore_network, seconds=20.0, moves=True
    ),
    Outage(
        name="refuses 20 s", begin=refuse, end=restore_network, seconds=20.0, moves=True
    ),
    Outage(
        name="answers too late 20 s",
        begin=answer_too_late,
        end=restore_network,
        seconds=20.0,
        moves=True,
    ),
    Outage(
        name="does everything too late 20 s",
        begin=do_too_late,
        end=restore_network,
        seconds=20.0,
        moves=True,
        within=40.0,
    ),
    Outage(
        name="resets after writing 20 s",
        begin=lose_replies,
        end=restore_network,
        seconds=20.0,
        moves=True,
    ),
    Outage(
        name="agent restarted within 1 s",
        begin=kill_agent,
        end=start_agent,
        seconds=1.0,
        unnoticed=True,
    ),
    Outage(
        name="agent down 20 s",
        begin=kill_agent,
        end=start_agent,
        seconds=20.0,
        moves=True,
    ),
    Outage(
        name="agent down 60 s",
        begin=kill_agent,
        end=start_agent,
        seconds=60.0,
        moves=True,
    ),
    Outage(
        name="agent stopped with SIGTERM 1 s",
        begin=stop_agent,
        end=start_agent,
        seconds=1.0,
    ),
    Outage(
        name="agent stopped with SIGTERM 20 s",
        begin=stop_agent,
        end=start_agent,
        seconds=20.0,
        moves=True,
    ),
    Outage(name="agent reloaded", begin=reload_agent),
    Outage(
        name="agent cut off 1 s",
        begin=cut_agent_off,
        end=reconnect_agent,
        seconds=1.0,
        unnoticed=True,
    ),
    Outage(
        name="agent cut off 20 s",
        begin=cut_agent_off,
        end=reconnect_agent,
        seconds=20.0,
        moves=True,
    ),
    Outage(
        name="agent cut off 60 s",
        begin=cut_agent_off,
        end=reconnect_agent,
        seconds=60.0,
        moves=True,
    ),
    Outage(name="node reaped", begin=reap_node),
    Outage(name="session destroyed", begin=destroy_session, possible=_has_a_session),
    Outage(name="check failed by hand", begin=fail_check, possible=_has_a_session),
    Outage(
        name="check deregistered by hand",
        begin=deregister_check,
        possible=_has_a_session,
    ),
    Outage(
        name="service deregistered by hand",
        begin=deregister_service,
        possible=_has_a_session,
    ),
    Outage(
        name="check removed from the catalog", begin=drop_check, possible=_has_a_session
    ),
    *(
        Outage(
            name=f"{key} key deleted",
            begin=partial(delete, key=key),
            possible=_writes_are_possible,
            roles=EVERYBODY if key == "leader" else BOTH,
        )
        for key in ("leader", "member")
    ),
    *(
        Outage(
            name=f"{key} key overwritten",
            begin=partial(overwrite, key=key),
            possible=_writes_are_possible,
            roles=EVERYBODY if key == "leader" else BOTH,
        )
        for key in ("leader", "member")
    ),
    *(
        Outage(
            name=f"{key} key held by a stranger",
            begin=partial(seize, key=key),
            possible=_writes_are_possible,
            within=35.0,
            roles=EVERYBODY if key == "leader" else BOTH,
        )
        for key in ("leader", "member")
    ),
    *(
        Outage(
            name=f"clock set {'ahead' if hours > 0 else 'back'}",
            begin=partial(set_clock, seconds=3600.0 * hours),
            unnoticed=True,
        )
        for hours in (1, -1)
    ),
    Outage(
        name="machine asleep 60 s",
        begin=fall_asleep,
        end=wake_up,
        seconds=60.0,
        moves=True,
    ),
    Outage(name="stopped 1 s", begin=pause, end=resume, seconds=1.0, unnoticed=True),
    Outage(name="stopped 60 s", begin=pause, end=resume, seconds=60.0, moves=True),
)
