"""
The commands by which an operator says how the cluster is to be run.

As in :mod:`.commands`, nothing that is slow to import is imported before it is
needed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import click

from . import parameters
from .invocation import Invocation

if TYPE_CHECKING:
    from .drain import Drained

_F = TypeVar("_F", bound=Callable[..., Any])

#: What can be wanted of a member.
_WISHES = ("maintenance", "leave", "online")


class NodeCommand(click.Command):
    """
    ``node``, which takes its wish after the id, or before it.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """
        Bring the words into their order; ``list`` alone stands for none.
        """
        at = [place for place, text in enumerate(args) if not text.startswith("-")]
        if len(at) == 1 and args[at[0]] == "list":
            args = [text for place, text in enumerate(args) if place != at[0]]
        elif len(at) == 2:
            first, second = (args[place] for place in at)
            if first in _WISHES and second not in _WISHES:
                args = list(args)
                args[at[0]], args[at[1]] = second, first
        return super().parse_args(ctx, args)


_force_option = click.option(
    "--force", is_flag=True, help="Also a member that nothing is known of."
)


def _timeout_option(seconds: float) -> Callable[[_F], _F]:
    return click.option(
        "--timeout",
        default=seconds,
        show_default=True,
        metavar="S",
        type=click.FloatRange(0, 86_400),
        help="Seconds to wait at most.",
    )


@click.command(cls=NodeCommand)
@parameters.json_option
@click.argument("id", required=False, callback=parameters.instance_id)
@click.argument("wish", required=False, type=click.Choice(_WISHES))
@_force_option
@click.pass_obj
def node(invocation: Invocation, id: str | None, wish: str | None, force: bool) -> None:
    """
    Want a member in maintenance, emptied, or online.

    maintenance: it is given no new work, and keeps what it has.

    leave: it is given no work, and what it has moves away.

    online: nothing is wanted of it; it is given work again.

    A wish stays until it is changed, also while the member is away.  Without
    one, or with list, those that there are are listed.  The wish may stand before
    the ID as well.
    """
    from . import actions, documents, intents, outcomes

    if id is None or wish is None:
        view = invocation.do(actions.look)
        invocation.answer(documents.nodes(view, id), outcomes.show_nodes)
        return
    intent = None if wish == intents.ONLINE else wish
    change = invocation.do(lambda api, keys: intents.want(api, keys, id, intent, force))
    document = {
        "id": id,
        "intent": change.intent,
        "before": change.before,
        "written": change.written,
        "follows": list(intents.follows(change)),
    }
    invocation.answer(document, outcomes.show_node_change)


@click.command()
@parameters.json_option
@click.argument("id", callback=parameters.instance_id)
@_timeout_option(300.0)
@_force_option
@click.pass_obj
def drain(invocation: Invocation, id: str, timeout: float, force: bool) -> None:
    """
    Empty a member, and wait until it is.

    As node ID leave, and then it is waited until nothing is assigned to it, owned
    by it, or running on it.  Exit status 1 when the time is over before; its
    items go on moving then.  The wish stays, until node ID online.
    """
    from .drain import Drain

    draining = Drain(
        invocation.clock(), id, timeout=timeout, force=force, tell=invocation.progress
    )
    try:
        drained = invocation.do(draining.run)
    except click.Abort:
        if draining.wanted:
            _answer_drained(invocation, draining.report())
        raise
    _answer_drained(invocation, drained)
    if not drained.done:
        sys.exit(1)


def _answer_drained(invocation: Invocation, drained: Drained) -> None:
    from . import outcomes

    invocation.answer(drained.to_json(), outcomes.show_drained)


@click.command()
@parameters.json_option
@click.option(
    "--reason",
    metavar="TEXT",
    callback=parameters.reason,
    help="Why, for whoever asks what is the matter.",
)
@click.pass_obj
def freeze(invocation: Invocation, reason: str | None) -> None:
    """
    Let nothing be planned: work stays where it is.

    Leadership, locks and the work that runs go on.  New work waits, and so does
    the work of a member that dies, until voltha-coordctl unfreeze.
    """
    from . import intents, outcomes

    change = invocation.do(lambda api, keys: intents.freeze(api, keys, reason))
    invocation.answer(change.to_json(), outcomes.show_freeze_change)


@click.command()
@parameters.json_option
@click.pass_obj
def unfreeze(invocation: Invocation) -> None:
    """
    Let planning go on.
    """
    from . import intents, outcomes

    change = invocation.do(intents.unfreeze)
    invocation.answer(change.to_json(), outcomes.show_freeze_change)


@click.command()
@parameters.json_option
@click.argument("id", required=False, callback=parameters.instance_id)
@_timeout_option(10.0)
@click.pass_obj
def transfer(invocation: Invocation, id: str | None, timeout: float) -> None:
    """
    Hand leadership over to a member, or to any other.

    Done once that one leads.  Exit status 1 when it is refused, by the leader or
    because it cannot be as things are.
    """
    from . import outcomes
    from .transfer import Transfer

    asking = Transfer(invocation.clock(), id or "", timeout=timeout, id=uuid4().hex)
    transferred = invocation.do(asking.run)
    invocation.answer(transferred.to_json(), outcomes.show_transferred)


#: All of them.
COMMANDS: tuple[click.Command, ...] = (node, drain, freeze, unfreeze, transfer)
