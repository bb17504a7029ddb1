"""
Consul agents as processes: servers and clients that can be stopped, killed and
started again with what they had.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _http import ask, until
from _network import Machine
from _sandbox import Sandbox, kill

# The package comes from where it is installed; only what benchmarks and tests
# share comes from this folder.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from tests.support.real_consul import require_binary

#: How long an agent may take to be of use, in seconds.
START_SECONDS = 60.0


def free_ports(count: int) -> list[int]:
    """
    Give ports nobody listens on.
    """
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Agent:
    """
    One agent, with its data on disk; a client unless it is one of some servers.

    :param servers: how many servers there are, of which this is one.
    :param join: the agents whose cluster it joins.
    :param machine: where it runs; beside us by default.
    :param raft_multiplier: of the servers; a client that is asked says it too.
    :ivar address: where it answers, as ``host:port``.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        name: str,
        *,
        servers: int = 0,
        join: Sequence[Agent] = (),
        machine: Machine | None = None,
        raft_multiplier: int = 1,
    ) -> None:
        self.name = name
        self.machine = machine
        self._sandbox = sandbox
        self._folder = sandbox.new_folder(f"consul-{name}")
        host = "127.0.0.1" if machine is None else machine.address
        http, lan, rpc = free_ports(3)
        self.address = f"{host}:{http}"
        self.lan = f"{host}:{lan}"
        self._process: subprocess.Popen[bytes] | None = None
        config: dict[str, Any] = {
            "node_name": name,
            "data_dir": str(self._folder / "data"),
            "bind_addr": host,
            "client_addr": host,
            "disable_update_check": True,
            "log_level": "warn",
            "retry_join": [agent.lan for agent in join],
            "retry_interval": "1s",
            "performance": {"raft_multiplier": raft_multiplier},
            # All members of a benchmark may share one agent.
            "limits": {"http_max_conns_per_client": 2000},
            "ports": {
                "http": http,
                "dns": -1,
                "grpc": -1,
                "serf_lan": lan,
                "serf_wan": -1,
                "server": rpc,
            },
        }
        if servers:
            config |= {"server": True, "bootstrap_expect": servers}
        self._config = self._folder / "config.json"
        self._config.write_text(json.dumps(config))

    @property
    def alive(self) -> bool:
        """
        Whether its process runs.
        """
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """
        Start it, with the data it left behind if it ran before.
        """
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith("CONSUL_")
        }
        self._process = self._sandbox.start(
            (require_binary(), "agent", "-config-file", str(self._config)),
            self._folder / "log",
            environment,
            None if self.machine is None else self.machine.network,
        )

    def kill(self) -> None:
        """
        Kill it.
        """
        assert self._process is not None
        kill(self._process)

    def terminate(self) -> None:
        """
        Ask it to stop, and wait until it has: a client leaves, a server does not.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)

    def answers(self) -> bool:
        """
        Whether it knows a leader, and is known itself.

        :raises NoAnswer: when it does not answer at all.
        """
        if not ask(self.address, "/v1/status/leader"):
            return False
        node = ask(self.address, f"/v1/health/node/{self.name}?consistent")
        return [check["Status"] for check in node or ()][:1] == ["passing"]

    def until_ready(self) -> None:
        """
        Wait until it can be used.

        :raises Stuck: when that takes too long.
        """
        until(f"Consul agent {self.name} is ready", self.answers, START_SECONDS, 0.05)


def start_servers(
    sandbox: Sandbox,
    count: int,
    raft_multiplier: int = 1,
    machines: Sequence[Machine | None] | None = None,
) -> list[Agent]:
    """
    Start Consul servers, and wait until they can be used.
    """
    servers: list[Agent] = []
    for number, machine in enumerate(machines or [None] * count, 1):
        name = f"server-{number}"
        servers.append(
            Agent(
                sandbox,
                name,
                servers=count,
                join=servers,
                machine=machine,
                raft_multiplier=raft_multiplier,
            )
        )
    for server in servers:
        server.start()
    for server in servers:
        server.until_ready()
    return servers
