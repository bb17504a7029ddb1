"""
The main job, to look at: three processes elect a leader and divide 100 items.

Run it with ``make demo``.  It starts an embedded Consul and three ``twistd
voltha_coord`` processes, adds the work items ``device_group_0001`` to
``device_group_0100``, and shows who leads and who runs what.  Kill a member
with the command it shows, and watch the others take over.

Environment:

``DEMO_SECONDS``
    end by itself after so many seconds; without it, Ctrl-C ends it.
``CONSUL``
    use the Consul at this ``host:port`` instead of an embedded one, under a
    prefix of its own that is removed at the end.

Its logs are in a temporary folder, which stays only if something went wrong.

The last line is ``leader=<id> members=3 work=100 owned=100``; ``owned`` counts
the items with an owner record in Consul whose very owner reports to run them.
The exit status is 0 only if that is all of them.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import treq
from demo_process import EMBEDDED, TWISTD, Child
from demo_table import WORK, Counts, Row, count, last_event, plain, shown
from rich.console import Console
from rich.live import Live
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    gatherResults,
    inlineCallbacks,
)
from twisted.internet.task import deferLater
from twisted.web.client import Agent

from voltha_coord._types import Steps
from voltha_coord.consul.address import from_environment
from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.connect import connect
from voltha_coord.ctl.actions import look
from voltha_coord.ctl.changing import add_work
from voltha_coord.ctl.view import View
from voltha_coord.errors import ConfigurationError, ConsulError
from voltha_coord.keys import DEFAULT_PREFIX, Keys

MEMBERS = ("member-1", "member-2", "member-3")

LOOK_EVERY_SECONDS = 0.5
#: Where nobody looks at a terminal, a line so often.
PLAIN_EVERY_SECONDS = 2.0
#: … and so long after that if nothing has changed.
QUIET_EVERY_SECONDS = 6.0
START_SECONDS = 30.0
#: At its end the demo waits so long for a takeover that is under way.
COMPLETE_SECONDS = 15.0
#: What would change how a member is set up, and is not meant for the demo's.
OWN_VARIABLES = re.compile(
    "VOLTHA_COORD_.*|CONSUL|INSTANCE_ID|REST_PORT|.*TERNAL_HOST_ADDRESS"
)


class DemoFailed(Exception):
    """
    The demo cannot go on; the text says why.
    """


class Demo:
    """
    One run.

    :param seconds: when it ends by itself; ``None`` for never.
    :param folder: where logs go.
    """

    def __init__(
        self,
        reactor: Any,
        environ: Mapping[str, str],
        seconds: float | None,
        console: Console,
        folder: Path,
    ) -> None:
        self.reactor = reactor
        self.environ = environ
        self.seconds = seconds
        self.console = console
        self.folder = folder
        self.began = reactor.seconds()
        self.stopping = False
        self.children: list[Child] = []
        self.members: list[Child] = []
        self.api: ConsulApi | None = None
        self.consul = environ.get("CONSUL") or ""
        self.borrowed = bool(self.consul)
        own = f"demo/voltha-{os.getpid()}"
        self.keys = Keys(own if self.borrowed else DEFAULT_PREFIX)
        self.counts = Counts(None, 0, 0, 0)
        self.live: frozenset[str] = frozenset()
        self._pausing: Deferred[None] | None = None

    def stop(self) -> None:
        """
        End soon.
        """
        self.stopping = True
        if self._pausing is not None:
            self._pausing.cancel()

    @inlineCallbacks
    def run(self) -> Steps[int]:
        """
        Do it all, and give the exit status.
        """
        why = ""
        try:
            yield self._start()
            yield self._watch()
        except DemoFailed as error:
            why = str(error)
        except ConsulError as error:
            why = f"Consul at {self.consul}: {error}"
        finally:
            yield self._end()
        if why:
            self._say(f"demo failed: {why}")
        good = self.counts.complete and not why
        if good:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            self._say(f"logs are kept in {self.folder}")
        self._say(str(self.counts))
        return 0 if good else 1

    # Starting.

    @inlineCallbacks
    def _start(self) -> Steps[None]:
        self._say(f"logs in {self.folder}")
        if self.borrowed:
            self._say(f"Consul at {self.consul}, prefix {self.keys.prefix}")
        else:
            yield self._start_consul()
            self._say(f"embedded Consul at {self.consul}")
        self.api = ConsulApi(
            connect(self.reactor, from_environment(self.environ, [self.consul])),
            command_timeout=5.0,
        )
        if not (yield self.api.status_leader()):
            raise DemoFailed(f"the Consul servers behind {self.consul} have no leader")
        for name in MEMBERS:
            child = self._child(name)
            self.members.append(child)
            child.start(self.reactor, TWISTD, self._arguments(name), self._env())
        yield self._until(self._joined, self.members)
        yield add_work(self.api, self.keys, dict.fromkeys(WORK, b""), if_absent=True)

    def _arguments(self, name: str) -> list[str]:
        return [
            "-n", f"--pidfile={self.folder / name}.pid", "voltha_coord",
            "--instance-id", name, "--consul", self.consul,
            "--prefix", self.keys.prefix, "--rest-port", "0",
            "--log-format", "json",
        ]  # fmt: skip

    @inlineCallbacks
    def _start_consul(self) -> Steps[None]:
        child = self._child("consul")
        child.start(self.reactor, EMBEDDED, ["--port", "0"], self._env())

        def listening() -> bool:
            found = re.search(r"http://(127\.0\.0\.1:\d+)", "\n".join(child.lines()))
            self.consul = found.group(1) if found else ""
            return found is not None

        yield self._until(listening, [child])

    def _child(self, name: str) -> Child:
        child = Child(name, self.folder / f"{name}.log")
        self.children.append(child)
        return child

    def _env(self) -> dict[str, str]:
        return {k: v for k, v in self.environ.items() if not OWN_VARIABLES.fullmatch(k)}

    @inlineCallbacks
    def _joined(self) -> Steps[bool]:
        view: View = yield self._look()
        joined: bool = len(view.live) == len(MEMBERS) and view.leader_id is not None
        return joined

    @inlineCallbacks
    def _until(self, done: Callable[[], Any], children: Sequence[Child]) -> Steps[None]:
        """
        Wait for something of some processes that must not end meanwhile.
        """
        deadline = self.reactor.seconds() + START_SECONDS
        while True:
            found = done()
            if isinstance(found, Deferred):
                found = yield found
            if found or self.stopping:
                return
            for child in children:
                if child.end:
                    raise DemoFailed(f"{child.name} {child.end}; {child.tail()}")
            if self.reactor.seconds() > deadline:
                tails = "\n".join(child.tail() for child in children)
                raise DemoFailed(f"not ready after {START_SECONDS:g} s\n{tails}")
            yield self._pause(0.1)

    # Watching.

    @inlineCallbacks
    def _watch(self) -> Steps[None]:
        live = Live(console=self.console, auto_refresh=False)
        next_line = 0.0
        last = ""
        if self.console.is_terminal:
            live.start()
        try:
            while not self._over():
                try:
                    view: View = yield self._look()
                except ConsulError as error:
                    self._say(f"no answer from Consul: {error}")
                else:
                    rows: list[Row] = yield gatherResults(
                        [self._row(child, view) for child in self.members]
                    )
                    now = self.reactor.seconds() - self.began
                    if self.console.is_terminal:
                        live.update(
                            shown(rows, self.counts, self._hint()), refresh=True
                        )
                    elif now >= next_line:
                        line = plain(now, rows, self.counts)
                        changed = line[9:] != last
                        if changed or now >= next_line + QUIET_EVERY_SECONDS:
                            self._say(line)
                            next_line, last = now + PLAIN_EVERY_SECONDS, line[9:]
                yield self._pause(LOOK_EVERY_SECONDS)
        finally:
            live.stop()

    def _over(self) -> bool:
        if self.stopping:
            return True
        if self.seconds is None:
            return False
        over: float = self.reactor.seconds() - self.began - self.seconds
        # Consul has not noticed yet that a killed member is gone: wait for it.
        noticed = all(
            child.name not in self.live for child in self.members if child.end
        )
        return over >= (0.0 if self.counts.complete and noticed else COMPLETE_SECONDS)

    def _hint(self) -> str:
        where = f"--consul {self.consul}"
        if self.borrowed:
            where += f" --prefix {self.keys.prefix}"
        end = (
            "Ctrl-C ends it" if self.seconds is None else f"ends at {self.seconds:g} s"
        )
        return f"kill a member and watch; {end}\n{coordctl()} {where} status"

    @inlineCallbacks
    def _look(self) -> Steps[View]:
        assert self.api is not None
        view: View = yield look(self.api, self.keys)
        self.counts = count(view)
        self.live = frozenset(view.live)
        return view

    @inlineCallbacks
    def _row(self, child: Child, view: View) -> Steps[Row]:
        role = child.end
        if not role:
            role = yield self._role(child, view)
        items = sum(
            item.owner is not None
            and item.owner.owner == child.name
            and view.running(item)
            for item in view.items.values()
        )
        return Row(child.name, child.pid, role, items, last_event(child.lines()))

    @inlineCallbacks
    def _role(self, child: Child, view: View) -> Steps[str]:
        """
        Ask a member itself.
        """
        member = view.members.get(child.name)
        if member is None or not member.rest_port:
            return "joining"
        try:
            url = f"http://127.0.0.1:{member.rest_port}/status"
            agent = Agent(self.reactor, connectTimeout=1.0)
            response = yield treq.get(url, agent=agent, timeout=1.0)
            status = yield treq.json_content(response)
            return str(status["role"])
        except Exception:
            # Whatever hinders it: a member that is being killed, stopped …
            return "silent"

    # Ending.

    @inlineCallbacks
    def _pause(self, seconds: float) -> Steps[None]:
        """
        Wait, but not when it is time to end.
        """
        if self.stopping:
            return
        self._pausing = deferLater(self.reactor, seconds, lambda: None)
        self._pausing.addErrback(lambda failure: failure.trap(CancelledError))
        yield self._pausing
        self._pausing = None

    @inlineCallbacks
    def _end(self) -> Steps[None]:
        """
        Leave nothing behind.
        """
        yield gatherResults([child.stop(self.reactor) for child in self.members])
        if self.api is not None:
            if self.borrowed and self.members:
                try:
                    yield self.api.delete(self.keys.prefix + "/", recurse=True)
                except ConsulError as error:
                    self._say(f"{self.keys.prefix}/ could not be removed: {error}")
            yield self.api.requester.close()
        yield gatherResults([child.stop(self.reactor) for child in self.children])

    def _say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)


def coordctl(executable: str = sys.executable, here: Path | None = None) -> str:
    """
    Give how ``voltha-coordctl`` is called, of the environment that runs this:
    it need not be on the path.

    :param here: the folder it is called from, the current one by default.
    """
    script = Path(executable).with_name("voltha-coordctl")
    if not script.exists():
        return f"{shlex.quote(executable)} -m voltha_coord.ctl"
    here = Path.cwd() if here is None else here
    if script.is_relative_to(here) and script.parent != here:
        script = script.relative_to(here)
    return shlex.quote(str(script))


def seconds_of(environ: Mapping[str, str]) -> float | None:
    """
    Give when the demo is to end by itself.

    :raises ValueError: when that is no number of seconds.
    """
    text = environ.get("DEMO_SECONDS")
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"DEMO_SECONDS: {text!r} is not a number of seconds")
    return seconds


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """
    Run the demo, and give its exit status.
    """
    if argv:
        print(__doc__.strip())
        return 0 if argv[0] in ("-h", "--help") else 2
    try:
        seconds = seconds_of(environ)
        from_environment(environ, [environ["CONSUL"]] if environ.get("CONSUL") else ())
    except (ValueError, ConfigurationError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    from twisted.internet import reactor as the_reactor

    reactor: Any = the_reactor
    folder = Path(tempfile.mkdtemp(prefix="voltha-demo-"))
    console = Console(highlight=False, markup=False, emoji=False)
    demo = Demo(reactor, environ, seconds, console, folder)
    status: list[int] = []
    finished: Deferred[None] = Deferred()

    def begin() -> None:
        done = demo.run()
        done.addCallbacks(status.append, lambda failure: failure.printTraceback())
        done.addBoth(lambda _: finished.callback(None))
        done.addBoth(lambda _: None if demo.stopping else reactor.stop())

    def interrupted() -> Deferred[None]:
        # The reactor goes on until all is ended that was started.
        demo.stop()
        return finished

    def hung_up(*_: object) -> None:
        # The terminal is gone, and nothing must outlive it.
        reactor.callFromThread(reactor.stop)

    reactor.callWhenRunning(begin)
    reactor.callWhenRunning(signal.signal, signal.SIGHUP, hung_up)
    reactor.addSystemEventTrigger("before", "shutdown", interrupted)
    reactor.run()
    return status[0] if status else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
