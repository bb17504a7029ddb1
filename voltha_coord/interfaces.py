"""
The contracts of what can be plugged into a Coordinator.

This module imports nothing that talks to anything: a plugin's module may
import it and still be cheap to find.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from .condition import Condition
    from .planning.operations import Plan
    from .planning.state import ClusterState
    from .records import WorkItem


class ILeader(Interface):
    """
    What a member does while it leads.  Made anew for each term.
    """

    def start() -> Deferred[None] | None:
        """
        Begin to lead.

        Called once, right after the term began.  When the Deferred fails the
        Coordinator gives the term up, offers leadership to others and is no
        candidate for ``Settings.candidate_pause`` seconds.
        """

    def halt() -> Deferred[None] | None:
        """
        Lead no more.

        Called once, also when ``start`` has not finished.  Once it was called
        nothing more may be sent on behalf of the term; the Deferred fires when
        all is at rest, and does not fail.
        """


class IWorker(Interface):
    """
    What a member does with the work that is assigned to it.
    """

    my_workload = Attribute(
        """
        The set of the ids of the work items that run here now.
        """
    )

    def start() -> Deferred[None] | None:
        """
        Begin to look after the member's assignments.

        Called once the member's record is in Consul for the first time.
        """

    def halt() -> Deferred[None] | None:
        """
        Stop all work, release it, and look after nothing any more.

        Called once, also when ``start`` has not finished.  The Deferred fires
        when everything has stopped, and does not fail.

        A worker may also have ``drain()``, called before: take nothing new, and
        go on with what is here.  Its Deferred fires once nothing is assigned to
        the member any more and all that ran here is released.  And it may have
        ``lease_changed()`` and ``emergency_changed()``, called whenever there is
        a lease or none, and whenever what goes on without one has changed; and
        ``press()``, called while ``halt`` goes on and most of the time for it is
        over: what has not stopped is to be killed.
        """


class IPlanner(Interface):
    """
    Decides where work items go.
    """

    def plan(state: ClusterState) -> Plan:
        """
        Give what is to be done in this state.

        A pure function: equal states give equal plans, nothing is read or
        written, the time is ``state.now``.  In the state that its own plan
        leads to, a planner plans nothing.  It does not raise, whatever the
        state holds: an item that cannot be placed is named in ``Plan.errors``.
        """


class ISteppedPlanner(IPlanner):
    """
    One that may take long, and can be interrupted.
    """

    def steps(state: ClusterState) -> Generator[None, None, Plan]:
        """
        Do what :meth:`plan` does, one step after the other: whoever goes through
        them may do something else in between.  The last one gives the plan.
        """


class ILeaderPlugin(Interface):
    """
    A way to lead, found by ``twisted.plugin.getPlugins`` and chosen by name.

    It may have an ``emergency_planner``: called without arguments, gives the
    :class:`IPlanner` for a member that is cut off and takes over what others
    ran (``Settings.isolation`` ``takeover``).  The balanced one plans without.
    And it may have a true ``by_resources``: then it plans by what the members have
    and use, and they measure that.
    """

    name = Attribute(
        """
        What ``--leader`` calls it: lower case, words joined by ``-``.
        """
    )

    def __call__(coordinator: Any) -> ILeader:
        """
        Make the leader of a new term of this Coordinator.
        """


class IMeter(Interface):
    """
    What measures this member: its machine, or whatever its work is done with.

    CPU is in percent of one core, memory in bytes, what a GPU does in percent.
    What is not known is left out.  A meter may have a ``follow(used)``; it is
    called once, with a function that gives what the items of this member use all
    together: ``cpu`` and ``memory``.  Both methods return at once; one that fails
    is logged, and told to the leader, which starts nothing new here meanwhile.
    """

    def capacity() -> Mapping[str, Any]:
        """
        Give what there is, which is asked once: ``ncpu``, ``cpu_limit`` (how much
        of it may be in use: 0 to 100 times ``ncpu``), ``memory_total``,
        ``memory_limit``, and ``gpus``: for each its ``memory_limit`` and
        ``usage_limit``.
        """

    def measure() -> Mapping[str, Any]:
        """
        Give what is in use now, every ``Settings.sync_interval`` seconds: ``cpu``,
        ``memory``, ``gpus`` (for each, in the order of its capacity, ``memory``,
        ``usage``, ``encoder``, ``decoder``), and ``error``: why something could
        not be measured.  It may tell ``throttling``: whether the work is held back
        at present; by default that is so at a limit.
        """


class IWorkerPlugin(Interface):
    """
    A way to work, found by ``twisted.plugin.getPlugins`` and chosen by name.
    """

    name = Attribute(
        """
        What ``--worker`` calls it: lower case, words joined by ``-``.
        """
    )

    def __call__(coordinator: Any) -> IWorker:
        """
        Make the worker of this Coordinator.
        """


class IRunner(Interface):
    """
    What running a work item means.

    The worker calls a runner about one item strictly one call after another,
    about different items at the same time, ``Settings.concurrent_work`` of them
    (stops are not counted).  Every method may return a Deferred, or be a
    coroutine.

    A call that fails is tried again with growing pauses, and its text stands
    meanwhile with the item: under ``errors/``, in the status report and in
    ``/status``.  One that takes longer than ``Settings.work_timeout`` is
    cancelled and counts as failed; if it goes on all the same, the next call
    about that item waits for its end.  No item ever waits for another one's
    call.

    A call has ended when its Deferred has fired, also when it did because it was
    cancelled: what it was doing is taken to be over then, and the item may be
    started again, or be said to have stopped.  A Deferred without a canceller of
    its own fires as soon as it is cancelled, whatever it stands for: that of
    ``deferToThread`` does, and the thread goes on.  Return one that fires when
    the thread has ended, and not before (docs/embedding.md shows one).

    A runner that is given to a Coordinator needs ``start_work`` and
    ``stop_work``; what else it leaves out does nothing.  It may also have a
    ``kill_work(item)``: stop the item at once, whatever is lost.  That is called
    when ``stop_work`` has not finished shortly before the member's lease ends, or
    before the time to shut down is over, and when it takes longer than
    ``Settings.stop_timeout``; once it has
    succeeded the item has stopped, whatever becomes of ``stop_work``, and hands
    nothing over.

    The worker heeds the order of an item by itself, whatever the runner: one that
    is to be stopped (``WorkItem.order`` ``stop``) stays with this member, and is
    stopped with ``stop_work``; once it is to run again ``start_work`` is called.
    So it is for one that is to be started anew.
    """

    def listen(changed: Callable[[str], None]) -> None:
        """
        Say from now on when an item changes by itself.

        Called once, before anything else.  A runner whose items can end by
        themselves keeps ``changed`` and calls it, in the reactor's thread, with
        the id of each item of which :meth:`condition` would say something new.
        """

    def condition(item: WorkItem) -> Condition | None:
        """
        Give how an item fares that was started; ``None`` when there is nothing
        to say but that it runs.  Returns at once.

        Asked after ``start_work`` and ``update_work`` have succeeded, and
        whenever the runner has said that it changed.  State, error and details
        are shown with the item; where it runs is not touched by them, and
        ``stop_work`` is still what ends it.
        """

    def prepare_work(item: WorkItem) -> Deferred[None] | None:
        """
        Make ready what ``start_work`` will need, without running the item:
        another member still does.

        Called before ``start_work``, and only by leaders that prepare moves;
        again if the item changes before it runs.  ``stop_work`` may follow
        instead; it undoes this.
        """

    def start_work(item: WorkItem, report: bytes | None) -> Deferred[None] | None:
        """
        Run the item.  No other member runs it now.

        The item counts as running from before this is called.

        :param report: what the member that ran it before handed over with
            :meth:`report`; ``None`` when there is nothing.
        """

    def stop_work(item: WorkItem) -> Deferred[None] | None:
        """
        Stop the item.

        Until the Deferred has fired the item counts as running, and no other
        member starts it, for as long as the member's lease lasts.  One that
        fails has not stopped the item.

        May be called while another call about the item has not finished; that
        one is cancelled before, and if it goes on all the same, ``stop_work`` is
        called once more after its end.  May be called for an item that does not
        run, which is no error.  ``Settings.stop_grace`` seconds before the
        member's lease ends is the latest moment at which it is first called.
        """

    def update_work(item: WorkItem) -> Deferred[None] | None:
        """
        Go on with a changed description of an item that runs.

        Called when the value under ``work/`` has changed, or when the leader
        hands a changed item to the member that runs it.  Only the newest
        description counts: one that could not be handed on yet is superseded.
        A runner without this method goes on with what the item was when it
        started.
        """

    def report(item: WorkItem) -> Deferred[bytes | None] | bytes | None:
        """
        Give what the next member that runs the item should know.

        Called after ``stop_work``, before the item is released; ``None`` hands
        over nothing.  A failure hands over nothing either, and is logged; so
        does one that takes too long.
        """

    def usage(item: WorkItem) -> Mapping[str, Any]:
        """
        Give what an item that runs uses now, by resource; empty when that is not
        known.  Returns at once.

        Asked about each item every ``Settings.sync_interval`` seconds.  A leader
        that plans by resources reads ``cpu`` (percent of one core), ``memory``
        (bytes) and ``gpu``: of that ``memory``, ``usage``, ``encoder``,
        ``decoder`` and ``index``.  Without ``cpu`` and ``memory`` it counts the
        item with its limits.
        """
