"""
Members as processes of their own.

They are what users run, ``twistd voltha_coord``, with a worker that records what
it does; or members of the 2016 original, which record the same.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from _consul import Agent
from _sandbox import Sandbox

_PLUGIN = Path(__file__).resolve().with_name("plugin")
_TWISTD = "from twisted.scripts.twistd import run; run()"

#: What would change how a member is set up.
_OTHERS = re.compile("VOLTHA_COORD_.*|CONSUL.*|BENCH_.*|INSTANCE_ID|REST_PORT")

#: So many lines of a log tell how it ends.
_TAIL_LINES = 12


class Member:
    """
    One process.

    :param agent: whose agent it talks to, on whose machine it runs.
    :param command: what it is started with.
    :param record: the file in which it records what happens to its work.
    :param log: the file for what it prints.
    :ivar wanted: whether it is to be alive.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        name: str,
        agent: Agent,
        command: Sequence[str],
        record: Path,
        log: Path,
    ) -> None:
        self.name = name
        self.agent = agent
        self._sandbox = sandbox
        self._command = command
        self._record = record
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None
        self.wanted = False

    @property
    def alive(self) -> bool:
        """
        Whether its process runs.
        """
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """
        Start it, or start it again.
        """
        machine = self.agent.machine
        self.wanted = True
        self.process = self._sandbox.start(
            self._command,
            self._log,
            _environment(self._record),
            None if machine is None else machine.network,
        )

    def send(self, number: signal.Signals) -> float:
        """
        Send it a signal, and give when that was done.
        """
        assert self.process is not None
        self.wanted = number == signal.SIGUSR2
        at = time.monotonic()
        self.process.send_signal(number)
        return at

    def tail(self) -> str:
        """
        Give how its log ends.
        """
        lines = self._log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        state = "runs" if self.alive else "has ended"
        return "\n".join([f"{self.name} {state}:", *(f"  {line}" for line in lines)])


def command_of(
    name: str, agent: Agent, prefix: str, options: Sequence[str], original: bool
) -> list[str]:
    """
    Give what a member is started with.

    :param options: of ``twistd voltha_coord``.
    """
    if original:
        script = str(_PLUGIN / "original_member.py")
        return [sys.executable, script, name, agent.address, prefix]
    return [
        sys.executable, "-c", _TWISTD, "-n", "--pidfile=", "voltha_coord",
        "--instance-id", name, "--consul", agent.address, "--prefix", prefix,
        "--rest-port", "off", "--worker", "recording",
        "--internal-host-address", "127.0.0.1",
        "--external-host-address", "127.0.0.1",
        "--log-format", "json", *options,
    ]  # fmt: skip


def _environment(record: Path) -> dict[str, str]:
    found = {k: v for k, v in os.environ.items() if not _OTHERS.fullmatch(k)}
    # It runs in another folder than we do.
    ours = found.get("PYTHONPATH", "").split(os.pathsep)
    path = [str(_PLUGIN), *(os.path.abspath(part) for part in ours if part)]
    return found | {"PYTHONPATH": os.pathsep.join(path), "BENCH_RECORD": str(record)}
