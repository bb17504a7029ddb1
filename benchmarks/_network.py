"""
Machines on one wire: network namespaces behind a bridge.

Each machine has an address of its own, and its link can be pulled.  All of it
belongs to the sandbox's own network and is gone with it.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

#: A network for benchmarks (RFC 2544).
_SUBNET = "198.18.0"
_BRIDGE = "wire"
_NEW_NET = 0x40000000


class Machine:
    """
    A network namespace with a link.

    :ivar address: its own.
    :ivar network: its descriptor; the namespace lives as long as that is open.
    """

    def __init__(self, number: int) -> None:
        self.address = f"{_SUBNET}.{number}"
        self.network = _new_network()
        self._link = f"link{number}"
        here = f"/proc/self/fd/{self.network}"
        ends = ("type", "veth", "peer", "name", "eth0", "netns", here)
        self._ip("link", "add", "name", self._link, *ends)
        self._ip("link", "set", self._link, "master", _BRIDGE)
        self.up()
        for command in (
            ("link", "set", "lo", "up"),
            ("address", "add", f"{self.address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
        ):
            self._ip(*command, inside=True)

    def up(self) -> None:
        """
        Put the link back.
        """
        self._ip("link", "set", self._link, "up")

    def down(self) -> None:
        """
        Pull the link: nothing comes or goes any more.
        """
        self._ip("link", "set", self._link, "down")

    def _ip(self, *arguments: str, inside: bool = False) -> None:
        enter = ("nsenter", f"--net=/proc/self/fd/{self.network}") if inside else ()
        _run(*enter, "ip", *arguments, keep=self.network)


class Network:
    """
    The bridge; the benchmark itself is on it too.
    """

    def __init__(self) -> None:
        self._machines = 1
        _run("ip", "link", "add", "name", _BRIDGE, "type", "bridge")
        _run("ip", "address", "add", f"{_SUBNET}.1/24", "dev", _BRIDGE)
        _run("ip", "link", "set", _BRIDGE, "up")

    def machine(self) -> Machine:
        """
        Give another machine.
        """
        self._machines += 1
        return Machine(self._machines)


def _run(*command: str, keep: int | None = None) -> None:
    kept = () if keep is None else (keep,)
    subprocess.run(command, check=True, pass_fds=kept)


def _new_network() -> int:
    """
    Make a network namespace and give its descriptor.

    A thread leaves for it, and ends there; nobody else has moved.
    """

    def leave() -> int:
        if ctypes.CDLL(None).unshare(_NEW_NET) != 0:
            raise OSError("no further network namespace can be made")
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(leave).result()
