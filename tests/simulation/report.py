"""
What is told of a run: the schedule, the history for people, a breach.

Lines are made for a terminal: what matters is in the first hundred columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import click

from voltha_coord.consul.transport import Request, Response

from .cast import BALANCED
from .history import TRAFFIC, Happening
from .laws import Breach
from .play import Outcome
from .schedule import Schedule

#: So many of the last happenings are shown with a breach.
LAST = 45

#: How happenings look, by kind.
_STYLES: dict[str, dict[str, Any]] = {
    "fault": {"fg": "yellow"},
    "over": {"fg": "yellow", "dim": True},
    "BREACH": {"fg": "red", "bold": True},
    "excused": {"fg": "magenta"},
    "warning": {"fg": "cyan"},
    "error": {"fg": "red"},
    "critical": {"fg": "red", "bold": True},
    "starts": {"fg": "green"},
    "stops": {"fg": "green"},
    "stopped": {"fg": "green", "dim": True},
    "killed": {"fg": "green", "bold": True},
    **{what: {"dim": True} for what in TRAFFIC},
    "applies": {"dim": True},
}

#: Of a member's log these fields say what is known already.
_KNOWN = frozenset({"effect", "action", "consul", "prefix"})


def schedule_lines(schedule: Schedule) -> list[str]:
    """
    Put a schedule into words, a line each.
    """
    return schedule.lines


def happening_line(happening: Happening) -> str:
    """
    Put something that happened into one line.
    """
    text = " ".join(filter(None, map(_short, happening.about)))
    line = f"{happening.at:9.3f}  {happening.who:<7} {happening.what:<11} {text}"
    return click.style(line.rstrip(), **_STYLES.get(happening.what, {}))


def _short(part: Any) -> str:
    if isinstance(part, Request):
        return _request(part)
    if isinstance(part, Response):
        return f"{part.status}{_index(part)} {_brief(part.body)}".rstrip()
    if isinstance(part, dict):
        return " ".join(
            f"{name}={_value(value)}"
            for name, value in part.items()
            if name not in _KNOWN
        )
    return str(part).replace("service/voltha/", "")


def _value(value: Any) -> str:
    text = str(value).replace("service/voltha/", "")
    return text if len(text) < 60 else text[:57] + "…"


def _index(response: Response) -> str:
    index = response.headers.get("x-consul-index")
    return f" [{index}]" if index else ""


def _brief(body: bytes) -> str:
    text = body.decode("utf-8", "backslashreplace")
    return text if len(text) <= 60 else f"{len(body)} bytes"


def _request(request: Request) -> str:
    path = request.path.removeprefix("/v1/").replace("service/voltha/", "")
    if path == "txn":
        rows = [row["KV"] for row in json.loads(request.body)]
        return ", ".join(
            f"{row['Verb']} {row['Key'].replace('service/voltha/', '')}" for row in rows
        )
    query = "&".join(
        name if value is None else f"{name}={value}" for name, value in request.params
    )
    return f"{request.method} {path}{'?' if query else ''}{query}"


def history_lines(happenings: Iterable[Happening], traffic: bool) -> Iterator[str]:
    """
    Give the lines of a history.

    :param traffic: whether every request and answer is shown.
    """
    for happening in happenings:
        if traffic or happening.what not in TRAFFIC:
            yield happening_line(happening)


def breach_lines(failed: Outcome, short: Outcome, plays: int) -> Iterator[str]:
    """
    Tell of a breach: what, when, the way there, and how to see it again.

    :param failed: the run that was played.
    :param short: the shortest one found that breaks the same law.
    :param plays: how many were tried for that.
    """
    breach = short.breach
    assert breach is not None
    seed = failed.schedule.seed
    kept = short.schedule.numbers
    yield ""
    yield click.style(f"seed {seed}: {failed.breach}", fg="red", bold=True)
    yield ""
    yield (
        f"{len(kept)} of {len(failed.schedule.faults)} faults lead to "
        f"{'it' if str(breach) == str(failed.breach) else breach} "
        f"(the fewest found in {plays} tries):"
    )
    yield ""
    yield from (f"  {line}" for line in schedule_lines(short.schedule))
    yield ""
    yield from who_held_what(short, breach)
    yield "what happened last:"
    yield ""
    told = [one for one in short.world.history if one.what not in TRAFFIC]
    ends = [n for n, one in enumerate(told) if one.what == "BREACH"]
    end = ends[0] + 1 if ends else len(told)
    yield from history_lines(told[max(0, end - LAST) : end], traffic=False)
    yield ""
    only = ",".join(map(str, kept)) or "none"
    what = f"{seed} --only {only}"
    if short.schedule.leader != BALANCED:
        what += f" --leader {short.schedule.leader}"
    yield f"again:  python -m tests.simulation show {what}"
    yield f"kept:   python -m tests.simulation save {what} > FILE.json"


def who_held_what(outcome: Outcome, breach: Breach) -> Iterator[str]:
    """
    Tell who led and what ran where at the time of a breach, as far as it was
    written down.
    """
    if not outcome.standing:
        return
    yield f"at {breach.at:.3f} s:"
    yield ""
    yield from (f"  {line}" for line in outcome.standing)
    yield ""
