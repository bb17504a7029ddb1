"""
A real Consul for tests: found, started once for a process, stopped at its end.
"""

from __future__ import annotations

import atexit
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.trial.unittest import SkipTest

_ROOT = Path(__file__).resolve().parents[2]
_START_SECONDS = 30.0
_MASTER_TOKEN = "5a0e2ac4-7c1c-4f6b-9d0a-5f1d6e3b2c70"

#: The policy a member's token needs.
POLICY = Path(__file__).with_name("policy.hcl")

#: Set to 1 where a missing Consul is a failure and not a skip.
REQUIRE = "VOLTHA_TESTS_REQUIRE_CONSUL"


class ConsulMissing(Exception):
    """
    There is no Consul binary, although one is required.
    """


def find_binary() -> str | None:
    """
    Give the path of a ``consul``: ``CONSUL_BIN``, ``.consul/consul`` under the
    project's root, or the one on the ``PATH``.
    """
    named = os.environ.get("CONSUL_BIN")
    if named:
        return named if os.access(named, os.X_OK) else None
    local = _ROOT / ".consul" / "consul"
    if os.access(local, os.X_OK):
        return str(local)
    return shutil.which("consul")


def require_binary() -> str:
    """
    Give the path of a ``consul``.

    :raises SkipTest: if there is none.
    :raises ConsulMissing: instead, where one is required.
    """
    binary = find_binary()
    if binary is not None:
        return binary
    why = "no consul binary: set CONSUL_BIN, or have .consul/consul or one on the PATH"
    if os.environ.get(REQUIRE) == "1":
        raise ConsulMissing(why)
    raise SkipTest(why)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


@frozen
class Credentials:
    """
    What a client needs besides the address.

    :ivar token: a token with the minimal policy.
    :ivar weak_token: a token that may do nothing.
    """

    ca_file: str
    cert_file: str
    key_file: str
    token: str
    weak_token: str


class RealConsul:
    """
    One agent that is a server of its own.

    :param secure: with ACLs (default deny), TLS and data on disk, instead of
        ``-dev``.
    :ivar node: its node's name.
    """

    node = "test-node"

    def __init__(self, binary: str, secure: bool = False) -> None:
        self._binary = binary
        self._secure = secure
        self._folder = Path(tempfile.mkdtemp(prefix="voltha-coord-consul-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.credentials: Credentials | None = None

    @property
    def address(self) -> str:
        """
        Where it listens, as a URL.
        """
        return f"{'https' if self._secure else 'http'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """
        Start it, and wait until it has a leader and its node is healthy.
        """
        api, lan, wan, rpc = _free_ports(4)
        self.port = api
        config: dict[str, Any] = {
            "node_name": self.node,
            "bind_addr": "127.0.0.1",
            "disable_update_check": True,
            "ports": {
                "http": -1 if self._secure else api,
                "https": api if self._secure else -1,
                "dns": -1,
                "grpc": -1,
                "serf_lan": lan,
                "serf_wan": wan,
                "server": rpc,
            },
        }
        if self._secure:
            config |= self._secured()
        path = self._folder / "config.json"
        path.write_text(json.dumps(config))
        arguments = [self._binary, "agent", "-config-file", str(path)]
        if not self._secure:
            arguments.insert(2, "-dev")
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("CONSUL_")
        }
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                arguments, stdout=log, stderr=log, cwd=self._folder, env=environment
            )
        atexit.register(self.stop)
        self._until_ready()
        if self._secure:
            self._make_tokens()

    def _secured(self) -> dict[str, Any]:
        for arguments in (
            ["tls", "ca", "create"],
            ["tls", "cert", "create", "-server"],
            ["tls", "cert", "create", "-client"],
        ):
            subprocess.run(
                [self._binary, *arguments],
                cwd=self._folder,
                check=True,
                capture_output=True,
            )
        return {
            "server": True,
            "bootstrap_expect": 1,
            "data_dir": str(self._folder / "data"),
            "performance": {"raft_multiplier": 1},
            "acl": {
                "enabled": True,
                "default_policy": "deny",
                "tokens": {"master": _MASTER_TOKEN, "agent": _MASTER_TOKEN},
            },
            "ca_file": self._file("consul-agent-ca.pem"),
            "cert_file": self._file("dc1-server-consul-0.pem"),
            "key_file": self._file("dc1-server-consul-0-key.pem"),
            "verify_incoming": True,
            "verify_outgoing": True,
        }

    def _file(self, name: str) -> str:
        return str(self._folder / name)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """
        Make a request with all rights, and give the JSON of the answer.

        :raises OSError: if it is not answered with 200.
        """
        connection: http.client.HTTPConnection
        if self._secure:
            context = ssl.create_default_context(
                cafile=self._file("consul-agent-ca.pem")
            )
            context.load_cert_chain(
                self._file("dc1-client-consul-0.pem"),
                self._file("dc1-client-consul-0-key.pem"),
            )
            connection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=5, context=context
            )
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request(
                method,
                path,
                None if body is None else json.dumps(body),
                {"X-Consul-Token": _MASTER_TOKEN} if self._secure else {},
            )
            response = connection.getresponse()
            text = response.read()
            if response.status != 200:
                raise OSError(f"{method} {path}: {response.status} {text!r}")
            return json.loads(text) if text else None
        finally:
            connection.close()

    def _until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            assert self._process is not None
            try:
                if self.ask("GET", "/v1/status/leader"):
                    checks = self.ask("GET", f"/v1/health/node/{self.node}")
                    if [check["Status"] for check in checks] == ["passing"]:
                        return
            except (OSError, http.client.HTTPException):
                pass
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = (self._folder / "log").read_text(errors="replace")
                self.stop()
                raise RuntimeError(f"Consul did not start:\n{log[-2000:]}")
            time.sleep(0.05)

    def _make_tokens(self) -> None:
        policy = {"Name": "voltha-coord", "Rules": POLICY.read_text()}
        self.ask("PUT", "/v1/acl/policy", policy)
        granted = {"Policies": [{"Name": "voltha-coord"}]}
        token = self.ask("PUT", "/v1/acl/token", granted)
        weak = self.ask("PUT", "/v1/acl/token", {"Description": "may do nothing"})
        self.credentials = Credentials(
            ca_file=self._file("consul-agent-ca.pem"),
            cert_file=self._file("dc1-client-consul-0.pem"),
            key_file=self._file("dc1-client-consul-0-key.pem"),
            token=token["SecretID"],
            weak_token=weak["SecretID"],
        )

    def stop(self) -> None:
        """
        Stop it and remove what it wrote.
        """
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


_shared: dict[bool, RealConsul] = {}


def shared_consul(secure: bool = False) -> RealConsul:
    """
    Give the one Consul that all tests of this process share, and start it if
    it does not run yet.

    :raises SkipTest: if there is no binary.
    :raises ConsulMissing: instead, where one is required.
    """
    binary = require_binary()
    if secure not in _shared:
        consul = RealConsul(binary, secure)
        consul.start()
        _shared[secure] = consul
    return _shared[secure]
