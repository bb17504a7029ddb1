"""
What a cluster costs that has nothing to do, on a real Consul.

For clusters of 3 and of 50 members that have divided 100 items: requests a
minute, CPU seconds an hour and memory of the leader and of a follower, each a
process of its own, and whether anything was written to Consul.  In the cluster
of 3 the third member has a process too; in that of 50 the other 48 share one,
each with its own connections.

``BENCH_SECONDS`` is how long is measured (60).  The Consul is one started for
this: 50 members at one agent are more than its 200 connections of one address.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

# The package comes from where it is installed; only what benchmarks and tests
# share comes from this folder.
sys.path.append(str(Path(__file__).resolve().parents[1]))

SECONDS = float(os.environ.get("BENCH_SECONDS", "60"))

#: So long a cluster is left to settle before it is measured.
SETTLE_SECONDS = 15.0

ITEMS = 100
SIZES = (3, 50)
PREFIX = "service/idle"

#: What every write of a member shows in.
STATE = {
    "keys": f"/v1/kv/{PREFIX}/?keys",
    "sessions": "/v1/session/list",
    "checks": "/v1/health/service/voltha-coord",
}

#: The most requests a minute.
LEADER_TARGET = 105
MEMBER_TARGET = 95


def run_members(address: str, names: list[str]) -> None:
    """
    Be these members, and print what the first one costs.
    """
    import psutil
    import structlog
    from twisted.internet import reactor as the_reactor
    from twisted.internet.defer import DeferredList, inlineCallbacks
    from twisted.internet.task import deferLater

    from voltha_coord._types import Steps
    from voltha_coord.coordinator import Coordinator
    from voltha_coord.settings import Settings

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
    )
    reactor: Any = the_reactor
    counted = 0
    members = [
        Coordinator(
            "127.0.0.1", "127.0.0.1", name, 0, address, settings=Settings(prefix=PREFIX)
        )
        for name in names
    ]
    requester = members[0].api.requester
    send = requester.request

    def count(request: Any) -> Any:
        nonlocal counted
        counted += 1
        return send(request)

    requester.request = count  # type: ignore[method-assign]  # to be counted

    @inlineCallbacks
    def measure() -> Steps[None]:
        nonlocal counted
        yield members[0].when_ready()
        print("ready", flush=True)
        yield deferLater(reactor, SETTLE_SECONDS)
        counted = 0
        before = os.times()
        yield deferLater(reactor, SECONDS)
        after = os.times()
        cpu = after.user + after.system - before.user - before.system
        found = {
            "leads": members[0].is_leader,
            "items": len(members[0].worker.my_workload),
            "requests": counted * 60 / SECONDS,
            "cpu": cpu * 3600 / SECONDS,
            "rss": psutil.Process().memory_info().rss / 2**20,
        }
        print(json.dumps(found), flush=True)

    @inlineCallbacks
    def end() -> Steps[None]:
        # In order: what is left behind would be written about for minutes.
        yield DeferredList([member.shutdown() for member in members])
        reactor.stop()

    def watch_parent() -> None:
        sys.stdin.read()
        reactor.callFromThread(end)

    reactor.callInThread(watch_parent)
    reactor.callWhenRunning(measure)
    reactor.run()


class Processes:
    """
    The processes of one cluster.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._running: list[subprocess.Popen[str]] = []

    def start(self, *names: str) -> subprocess.Popen[str]:
        """
        Start one with these members, and wait until the first is ready.
        """
        process = subprocess.Popen(
            [sys.executable, __file__, self._address, *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._running.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "ready\n", line
        return process

    def stop(self) -> None:
        """
        End them all.
        """
        for process in self._running:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._running:
            process.wait(60)


def ask(address: str, path: str, method: str = "GET") -> str:
    """
    Ask Consul, and give the index of the answer.
    """
    request = urllib.request.Request(f"{address}{path}", method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return str(answer.headers["X-Consul-Index"])
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return str(error.headers["X-Consul-Index"])


def state(address: str) -> tuple[str, ...]:
    """
    Give the index of each part of :data:`STATE`.
    """
    return tuple(ask(address, path) for path in STATE.values())


def measure(address: str, size: int) -> None:
    """
    Measure one cluster, and print its lines.
    """
    ask(address, f"/v1/kv/{PREFIX}/?recurse", "DELETE")
    for number in range(ITEMS):
        ask(address, f"/v1/kv/{PREFIX}/work/item_{number:03}", "PUT")
    processes = Processes(address)
    try:
        leader = processes.start("m-00")
        follower = processes.start("m-01")
        processes.start(*(f"m-{n:02}" for n in range(2, size)))
        # The leader was ready first: its measuring begins and ends first.
        time.sleep(SETTLE_SECONDS)
        before = state(address)
        found = []
        for process in (leader, follower):
            assert process.stdout is not None
            found.append(json.loads(process.stdout.readline()))
        written = [
            n for n, a, b in zip(STATE, before, state(address), strict=True) if a != b
        ]
    finally:
        processes.stop()
    targets = (LEADER_TARGET, MEMBER_TARGET)
    for role, cost, target in zip(("leader", "follower"), found, targets, strict=True):
        assert cost["leads"] == (role == "leader"), cost
        assert cost["items"] in (ITEMS // size, ITEMS // size + 1), cost
        met = "met" if cost["requests"] <= target else "MISSED"
        print(
            f"{size:3} members, {role:10}{cost['requests']:12.1f}{target:9}"
            f"{met:>8}{cost['cpu']:12.1f}{cost['rss']:10.1f}"
            f"  {', '.join(written) or 'none'}",
            flush=True,
        )


def main() -> None:
    """
    Print the table.
    """
    from tests.support.real_consul import RealConsul, require_binary

    print(f"an idle cluster, measured for {SECONDS:g} s")
    print(
        f"{'':23}{'requests/min':>12}{'target':>9}{'':8}{'CPU s/hour':>12}"
        f"{'RSS MiB':>10}  {'written':10}"
    )
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "consul"
        binary.write_text(
            f'#!/bin/sh\nexec {shlex.quote(require_binary())} "$@" '
            f"-hcl 'limits {{ http_max_conns_per_client = 2000 }}'\n"
        )
        binary.chmod(0o700)
        consul = RealConsul(str(binary))
        consul.start()
        try:
            for size in SIZES:
                measure(consul.address, size)
        finally:
            consul.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_members(sys.argv[1], sys.argv[2:])
    else:
        main()
