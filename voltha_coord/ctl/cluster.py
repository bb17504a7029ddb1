"""
What the doctor thinks of the keys of a cluster.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ..keys import Keys, shown
from .agent import numbers
from .findings import Finding, named, ok, one_line, warn, wrong
from .view import RUNNING, View
from .wanted import of_intents

#: What Consul 1.21.5 took as the name of a key; later ones take more again.
_NAMES_OF_1_21_5 = re.compile(r"[a-zA-Z0-9,_./\-?&=]+")
_STRICT_VERSION = (1, 21, 5)

#: The names under the prefix that this package knows.
_KNOWN = (
    "leader",
    "term",
    "members",
    "work",
    "assignments",
    "owners",
    "status",
    "reports",
    "errors",
    "lost",
    "intent",
    "locks",
    "applease",
)


#: What becomes of a value that cannot be read, by the name it is under.
_VALUE_ADVICE = {
    "members": "defaults stand in; the member writes it again, if it is one of ours",
    "owners": "the leader removes it after a session TTL; if it stays, see its log",
    "status": "the member writes it again with its next report",
    "term": "the next leader waits a session TTL, and writes it again",
    "intent": "it has no effect: write it again, or delete it",
}


def of_cluster(
    view: View, names: Iterable[str], version: str | None = None
) -> Iterator[Finding]:
    """
    Give the findings about the keys.

    :param names: all keys under the prefix.
    :param version: Consul's, when known.
    """
    names = tuple(names)
    if not names:
        yield warn(
            "keys",
            f"nothing under {view.keys.prefix}/",
            "is --prefix (VOLTHA_COORD_PREFIX) right?  Else no member has been there",
        )
        return
    yield from _members(view)
    yield from of_intents(view)
    yield _leader(view)
    yield from _term(view)
    yield from _owners(view)
    yield _work(view)
    yield from _commands(view)
    yield from _values(view)
    yield from _strays(view)
    yield from _names(view.keys, names, version)


def _members(view: View) -> Iterator[Finding]:
    dead = [id for id, member in view.members.items() if not member.live]
    foreign = [id for id, member in view.live.items() if member.foreign]
    wanted = sum(item.wanted for item in view.items.values())
    if wanted and not view.live:
        yield wrong(
            "members",
            f"none, and {wanted} work items wait for one",
            "start members with this --prefix; if they run, see their logs",
        )
    else:
        yield ok("members", f"{len(view.live)}: {named(view.live) or 'none'}")
    if dead:
        yield wrong(
            "members",
            f"no session holds {named(dead)}: nobody is there",
            f"consul kv delete {view.keys.members}{min(dead)}",
        )
    if foreign:
        yield warn(
            "members",
            f"of the 2016 original: {named(foreign)}",
            "they own nothing and write unfenced: no guarantee covers them; upgrade",
        )


def _leader(view: View) -> Finding:
    if view.leader_id is not None:
        return ok("leader", view.leader_id)
    if view.leader is not None:
        value = view.leader.value.decode("utf-8", "replace")
        return wrong(
            "leader",
            f"the leader key says {one_line(value)}, but no session holds it",
            f"candidates take it; if not: consul kv delete {view.keys.leader}",
        )
    if not view.live:
        return ok("leader", "none, and nobody who could be")
    if not any(m.can_lead and not m.leaving for m in view.live.values()):
        return wrong(
            "leader",
            "none, and no member that may lead: nothing is planned",
            "start one without --no-lead",
        )
    return wrong(
        "leader",
        "none, though there are members",
        "look again in some seconds; then see the members' logs",
    )


def _term(view: View) -> Iterator[Finding]:
    leader, term = view.leader, view.term
    if leader is None or leader.session is None:
        if term is not None and not term.released:
            yield ok("term", f"{term.holder} led last, and has not released it")
        return
    if term is not None and term.session == leader.session:
        yield ok("term", f"fencing token {term.token}, {term.seq} transactions")
        return
    member = view.members.get(view.leader_id or "")
    if member is not None and member.foreign:
        yield warn(
            "term",
            f"the leader {member.id} is an original: it writes no term, no fence",
            "upgrade it; until then its writes may land late",
        )
        return
    holder = "nobody" if term is None else term.holder
    yield wrong(
        "term",
        f"{view.leader_id} holds the leader key, the term is {holder}'s",
        "a new leader waits for the old session's end, a session TTL at most; "
        "then see its log",
    )


def _owners(view: View) -> Iterator[Finding]:
    owned = {i.id: i.owner for i in view.items.values() if i.owner is not None}
    lost = {id: owner for id, owner in owned.items() if not view.answers(owner)}
    kept = [id for id, owner in lost.items() if owner.owner in view.missed]
    lost_for_good = [id for id in lost if id not in kept]
    if not lost:
        yield ok("owners", f"{len(owned)}")
    if kept:
        members = sorted({lost[id].owner for id in kept})
        yield warn(
            "owners",
            f"{len(kept)} kept for members that are gone ({named(members)}): "
            f"{named(kept)}",
            "bring these back; or wait for node_recover_timeout, and they are placed "
            "anew",
        )
    if lost_for_good:
        yield wrong(
            "owners",
            f"nobody answers for {len(lost_for_good)}: {named(lost_for_good)}",
            "the leader clears them a session TTL after their owner; if they stay, "
            "see the leader's log",
        )


def _commands(view: View) -> Iterator[Finding]:
    """
    Find commands that run only in name: their members do not run commands.
    """
    tracked = [
        item.id
        for item in view.items.values()
        if item.wanted
        and item.work is not None
        and isinstance(item.work.config, Mapping)
        and "command" in item.work.config
        and item.report is not None
        and item.report.state == RUNNING
        and not item.report.details
    ]
    if tracked:
        yield warn(
            "commands",
            f"{len(tracked)} run in name only, as their members run no commands: "
            f"{named(tracked)}",
            "start these members with --worker process --allow-command PATTERN",
        )


def _work(view: View) -> Finding:
    wanted = [item for item in view.items.values() if item.wanted]
    running = sum(map(view.running, wanted))
    found = f"{len(wanted)} wanted, {running} running"
    troubled = {item.id: view.trouble(item) for item in view.items.values()}
    troubled = {id: text for id, text in troubled.items() if text}
    if not troubled:
        return ok("work", found)
    first = min(troubled)
    return wrong(
        "work",
        f"{found}; {len(troubled)} in trouble: {first}: {troubled[first]}",
        "voltha-coordctl assignments --wrong lists them",
    )


def _values(view: View) -> Iterator[Finding]:
    place = shown(view.keys.prefix + "/")
    by_name: dict[str, dict[str, str]] = {}
    for key, reason in view.unreadable.items():
        name = key.removeprefix(place).split("/")[0]
        by_name.setdefault(name, {})[key] = reason
    for name, reasons in sorted(by_name.items()):
        yield warn(
            "values",
            f"{name}: {len(reasons)} unreadable: {_explained(reasons)}",
            _VALUE_ADVICE.get(name, "defaults stand in; write it again"),
        )


def _explained(reasons: Mapping[str, str]) -> str:
    return named([f"{key} ({reason})" for key, reason in reasons.items()])


def _names(
    keys: Keys, names: tuple[str, ...], version: str | None
) -> Iterator[Finding]:
    place = keys.prefix + "/"
    others = {
        name.removeprefix(place).split("/")[0]
        for name in names
        if name.removeprefix(place).split("/")[0] not in _KNOWN
    }
    if others:
        yield ok("other keys", f"left alone: {named({shown(n) for n in others})}")
    refused = [
        shown(name)
        for name in names
        if not _NAMES_OF_1_21_5.fullmatch(name) or ".." in name
    ]
    if refused:
        now = version is not None and numbers(version) == _STRICT_VERSION
        yield (wrong if now else warn)(
            "key names",
            f"Consul 1.21.5 refuses {len(refused)}: {named(refused)}",
            "skip that version (1.21.6 takes '@'), or rename them",
        )


def _strays(view: View) -> Iterator[Finding]:
    if view.strays:
        yield warn(
            "stray keys",
            f"{len(view.strays)}: {_explained(view.strays)}",
            "nobody reads them; delete them if they are a slip",
        )
