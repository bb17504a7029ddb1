"""
The contracts of what can be plugged into a Coordinator.

This module imports nothing that talks to anything: a plugin's module may
import it and still be cheap to find.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

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


class ILeaderPlugin(Interface):
    """
    A way to lead, found by ``twisted.plugin.getPlugins`` and chosen by name.

    It may have an ``emergency_planner``: called without arguments, gives the
    :class:`IPlanner` for a member that is cut off and takes over what others
    ran (``Settings.isolation`` ``takeover``).  The balanced one plans without.
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
    about different items at the same time.  Every method may return a
    Deferred.  When ``start_work`` or ``update_work`` fails, the failure's text
    is reported as the reason why the item does not run, and the call is tried
    again later.

    A runner that is given to a Coordinator needs ``start_work`` and
    ``stop_work``; what else it leaves out does nothing.
    """

    def prepare_work(item: WorkItem) -> Deferred[None] | None:
        """
        Make ready what ``start_work`` will need, without running the item:
        another member still does.

        Called at most once before ``start_work``, and only by leaders that
        prepare moves.  ``stop_work`` may follow instead; it undoes this.
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
        member starts it.  May be called while ``start_work`` has not finished;
        that Deferred is cancelled before.  May be called for an item that does
        not run, which is no error.  ``Settings.stop_grace`` seconds before the
        member's lease ends is the latest moment at which it is called.
        """

    def update_work(item: WorkItem) -> Deferred[None] | None:
        """
        Go on with a changed description of an item that runs.

        Called when the leader hands a changed item to the member that runs it.
        The shipped leaders assign ids alone: with them a changed value takes
        effect when the item is next started, and this is not called.
        """

    def report(item: WorkItem) -> Deferred[bytes | None] | bytes | None:
        """
        Give what the next member that runs the item should know.

        Called after ``stop_work``, before the item is released; ``None`` hands
        over nothing.  A failure hands over nothing either, and is logged.
        """

    def usage(item: WorkItem) -> Mapping[str, Any]:
        """
        Give what an item that runs uses now, by resource; empty when that is
        not known.  Returns at once.
        """
