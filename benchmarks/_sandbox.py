"""
Where a benchmark runs: nothing that it starts outlives it.

:func:`contained` runs the benchmark in a child process.  Where the kernel lets
it (for root, and where users may make namespaces), that child is the first
process of a PID namespace and has a network of its own: when it ends, however it
does, the kernel ends all that it started, and its bridges and links are gone
with it.  Elsewhere each process dies with the one that started it, as far as the
system can do that.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

_LINUX = sys.platform == "linux"
_NEW_USER, _NEW_PID, _NEW_NET = 0x10000000, 0x20000000, 0x40000000
_DIE_WITH_PARENT = 1

#: What ends a benchmark from outside.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """
    Somebody wants the benchmark to end.
    """


class Sandbox:
    """
    Starts the processes of a benchmark, and ends them.

    :ivar folder: for whatever is written; it is removed at the end.
    :ivar isolated: whether there is a network of our own, and with it machines.
    """

    def __init__(self, folder: Path, isolated: bool) -> None:
        self.folder = folder
        self.isolated = isolated
        self._processes: list[subprocess.Popen[bytes]] = []
        setpriv = None if isolated or not _LINUX else shutil.which("setpriv")
        self._before = () if setpriv is None else (setpriv, "--pdeathsig", "KILL")

    def start(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        network: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """
        Start a process; from the main thread, which is what it dies with.

        :param log: a file that what it prints is added to.
        :param environment: what it has in its environment; default: what we have.
        :param network: the descriptor of the network namespace it runs in.
        """
        kept: tuple[int, ...] = ()
        if network is not None:
            command = ("nsenter", f"--net=/proc/self/fd/{network}", *command)
            kept = (network,)
        with log.open("ab") as output:
            process = subprocess.Popen(
                (*self._before, *command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env=None if environment is None else dict(environment),
                start_new_session=True,
                pass_fds=kept,
            )
        self._processes = [p for p in self._processes if p.poll() is None]
        self._processes.append(process)
        return process

    def new_folder(self, name: str) -> Path:
        """
        Make a folder, and give it.
        """
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))

    def end(self, processes: Sequence[subprocess.Popen[bytes]], wait: float) -> None:
        """
        End processes in order, and by force what has not ended in time.
        """
        for process in processes:
            process.terminate()
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(wait)
            kill(process)

    def close(self) -> None:
        """
        End whatever still runs, by force.
        """
        for process in self._processes:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """
    Kill a process, unless it has ended, and see it gone.
    """
    if process.poll() is None:
        process.kill()
    process.wait()


def contained(
    work: Callable[[Sandbox], int], isolate: bool = True, keep: bool = False
) -> int:
    """
    Run a benchmark in a sandbox, and give its exit status.

    :param isolate: whether namespaces are made, where they can be.
    :param keep: whether its folder stays.
    """
    folder = Path(tempfile.mkdtemp(prefix="voltha-coord-bench-"))
    try:
        sandbox = Sandbox(folder, isolate and _unshare())
        sys.stdout.flush()
        child = os.fork()
        if not child:
            status = 1
            try:
                status = _inside(sandbox, work)
            finally:
                os._exit(status)
        return _supervise(child)
    finally:
        if keep:
            print(f"logs and records are kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _supervise(child: int) -> int:
    """
    Wait for the child; hand signals on, and do not let it wait for ever when
    there are several.
    """
    seen: list[int] = []

    def hand_on(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL if seen else number)
        seen.append(number)

    for number in _SIGNALS:
        signal.signal(number, hand_on)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _inside(sandbox: Sandbox, work: Callable[[Sandbox], int]) -> int:
    # A Ctrl-C goes to the one that waits for us, which hands it on: once.
    os.setsid()
    if _LINUX:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    try:
        if sandbox.isolated:
            subprocess.run(("ip", "link", "set", "lo", "up"), check=True)
        return work(sandbox)
    except Interrupted:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        sandbox.close()
        sys.stdout.flush()
        sys.stderr.flush()


def _interrupt(number: int, frame: FrameType | None) -> None:
    for one in _SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    raise Interrupted


def _unshare() -> bool:
    """
    Leave for namespaces of our own: the network at once, that of the processes
    with the next one that is forked.  Tell whether that is allowed.
    """
    if not _LINUX or not shutil.which("ip") or not shutil.which("nsenter"):
        return False
    libc = ctypes.CDLL(None)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_PID | _NEW_NET) == 0:
        return True
    if libc.unshare(_NEW_USER | _NEW_PID | _NEW_NET) != 0:
        return False
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"0 {user} 1"),
        ("gid_map", f"0 {group} 1"),
    ):
        Path("/proc/self", name).write_text(text)
    return True
