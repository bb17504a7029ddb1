"""
The simulator, by hand: many seeds, one seed, and the hunt for deliberate bugs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import process_time

import click
from attrs import evolve

from .bugs import BUGS
from .cast import BALANCED, LEADERS
from .play import Outcome, play
from .report import breach_lines, history_lines, schedule_lines
from .schedule import Schedule
from .shorten import Shortener

#: So many seeds are tried for a bug before it counts as not found.
MOST_SEEDS = 1000


@contextmanager
def _planted(bug: str | None) -> Iterator[None]:
    with nullcontext() if bug is None else BUGS[bug].planted():
        yield


def _numbers(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> frozenset[int] | None:
    if text is None:
        return None
    if text == "none":
        return frozenset()
    try:
        return frozenset(map(int, text.split(",")))
    except ValueError:
        raise click.BadParameter("numbers of faults, with commas: 3,17,18") from None


def _schedule(
    what: str, only: frozenset[int] | None, leader: str = BALANCED
) -> Schedule:
    """
    Give the schedule of a seed, or the one that a file holds.
    """
    if what.isdigit():
        schedule = Schedule.of(int(what), leader)
    else:
        try:
            schedule = Schedule.from_json(Path(what).read_text())
        except OSError as error:
            raise click.UsageError(
                f"{what!r} is no seed, and no file: {error}"
            ) from None
    return schedule if only is None else schedule.only(only)


_bug = click.option(
    "--bug", type=click.Choice(list(BUGS)), help="with this deliberate bug in it"
)
_leader = click.option(
    "--leader",
    type=click.Choice(LEADERS),
    default=BALANCED,
    show_default=True,
    help="who leads; a file says so itself",
)
_only = click.option(
    "--only",
    metavar="N,N,…",
    callback=_numbers,
    help="with no other faults than these, by number; 'none' for none",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """
    Plays clusters under seeded faults, and looks whether everything holds.

    WHAT is a seed, or a file that `save` has written.
    """


@main.command()
@click.option("--seeds", default=200, show_default=True, help="how many to play")
@click.option("--base", default=0, show_default=True, help="the first one")
@click.option(
    "--most", default=5, show_default=True, help="stop after so many breaches"
)
@_leader
@_bug
def run(seeds: int, base: int, most: int, leader: str, bug: str | None) -> None:
    """
    Play many seeds.  The last line is `seeds=N violations=N`.
    """
    virtual = cost = 0.0
    broken = played = 0
    happened: Counter[str] = Counter()
    for seed in range(base, base + seeds):
        with _planted(bug):
            outcome = play(Schedule.of(seed, leader))
        played += 1
        virtual += outcome.seconds
        cost += outcome.cost
        happened.update(one.what for one in outcome.world.history)
        happened.update(_told(outcome))
        if outcome.breach is not None:
            broken += 1
            _tell(outcome, bug)
        if sys.stderr.isatty():
            rate = virtual / 60 / cost
            text = f"\r{played}/{seeds}  {broken} broken  {rate:.1f} virtual min/CPU s "
            click.echo(text, err=True, nl=False)
        if broken >= most:
            break
    if sys.stderr.isatty():
        click.echo("\r\033[K", err=True, nl=False)
    click.echo(
        f"{virtual / 60:.0f} virtual minutes in {cost:.0f} CPU seconds: "
        f"{virtual / 60 / cost:.2f} virtual minutes per CPU second"
    )
    click.echo(
        f"{happened['fault']} faults, {happened['became-leader']} terms, "
        f"{happened['created-consul-session']} sessions, {happened['starts']} starts, "
        f"{happened['asks']} requests"
    )
    click.echo(f"seeds={played} violations={broken}")
    sys.exit(1 if broken else 0)


def _told(outcome: Outcome) -> Iterator[str]:
    wanted = {"became-leader", "created-consul-session"}
    for one in outcome.world.history:
        if one.what == "info" and one.about[0] in wanted:
            yield one.about[0]


def _tell(failed: Outcome, bug: str | None) -> None:
    def again(schedule: Schedule) -> Outcome:
        with _planted(bug):
            return play(schedule)

    shortener = Shortener(again)
    short = shortener.shorten(failed)
    for line in breach_lines(failed, short, shortener.plays):
        click.echo(line)


@main.command()
@click.argument("what")
@_leader
@_only
@_bug
@click.option("--from", "since", default=0.0, help="only what happens after so many s")
@click.option("--to", "until", default=1e9, help="only what happens before so many s")
@click.option("--traffic", is_flag=True, help="with every request and answer")
def show(
    what: str,
    leader: str,
    only: frozenset[int] | None,
    bug: str | None,
    since: float,
    until: float,
    traffic: bool,
) -> None:
    """
    Play one schedule, and show its history.
    """
    schedule = _schedule(what, only, leader)
    for line in schedule_lines(evolve(schedule, faults=())):
        click.echo(line)
    click.echo()
    with _planted(bug):
        outcome = play(schedule)
    wanted = (one for one in outcome.world.history if since <= one.at <= until)
    for line in history_lines(wanted, traffic):
        click.echo(line)
    click.echo()
    click.echo(outcome.breach or "everything holds")
    sys.exit(0 if outcome.breach is None else 1)


@main.command()
@click.argument("what")
@_leader
@_only
def save(what: str, leader: str, only: frozenset[int] | None) -> None:
    """
    Write a schedule down, to be played again whatever becomes of seeds.
    """
    click.echo(_schedule(what, only, leader).to_json(), nl=False)


@main.command()
@click.argument("what")
@_leader
@_only
@_bug
def shorten(
    what: str, leader: str, only: frozenset[int] | None, bug: str | None
) -> None:
    """
    Play one schedule, and if it fails, look for the shortest one that does.
    """
    with _planted(bug):
        outcome = play(_schedule(what, only, leader))
    if outcome.breach is None:
        click.echo("everything holds")
        return
    _tell(outcome, bug)
    sys.exit(1)


@main.command()
@click.argument("what")
@_leader
def digest(what: str, leader: str) -> None:
    """
    Play one schedule, and give the digest of everything that happened.
    """
    outcome = play(_schedule(what, None, leader))
    click.echo(f"{len(outcome.world.history)} {outcome.world.history.digest()}")


@main.command()
@click.option("--base", default=0, show_default=True, help="the first seed")
@click.option(
    "--most", default=MOST_SEEDS, show_default=True, help="seeds for each bug"
)
@click.argument("bugs", nargs=-1, type=click.Choice(list(BUGS)))
def hunt(base: int, most: int, bugs: tuple[str, ...]) -> None:
    """
    Look for each deliberate bug, or for those named.

    The last line is `bugs=N found=N`.
    """
    found = 0
    names = bugs or tuple(BUGS)
    for name in names:
        began = process_time()
        seed = next((s for s in range(base, base + most) if _finds(name, s)), None)
        took = process_time() - began
        if seed is None:
            text = click.style(f"not found in {most} seeds", fg="red", bold=True)
        else:
            found += 1
            text = f"found by seed {seed}, {seed - base + 1} tried"
        click.echo(f"{name:<21} {text} ({took:.0f} CPU s)")
    click.echo(f"bugs={len(names)} found={found}")
    sys.exit(0 if found == len(names) else 1)


def _finds(bug: str, seed: int) -> bool:
    schedule = Schedule.of(seed, BUGS[bug].leader)
    with BUGS[bug].planted():
        breach = play(schedule).breach
    # An exception would be found by anybody; and what breaks without the bug as
    # well is something else.
    return (
        breach is not None and breach.law != "defect" and play(schedule).breach is None
    )


if __name__ == "__main__":
    main()
