"""
Processes of an earlier life of this member: found again, and killed.

The guard kills a member's processes when it dies.  Where that failed, because
both were killed at once, they are still there when the member is started again,
and would run beside the ones it starts.  So each session is written down
in a file of its own, with the time at which its process was started; a process
of the same id that was started at another time is a stranger's, and is left
alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import psutil

from ..errors import ConfigurationError
from .guard import send


def started(pid: int) -> str:
    """
    Give what tells a process from all others that have, had or will have its id:
    when it was started, in ticks since which boot.

    :return: empty when there is no such process.
    """
    try:
        # The name of the program comes before, in brackets, and may hold any.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {fields[19]}"
    except (OSError, IndexError):
        pass
    try:
        return f"{psutil.Process(pid).create_time():.2f}"
    except (psutil.Error, ValueError, OverflowError):
        return ""


def default_directory(prefix: str, instance_id: str) -> Path:
    """
    Give the directory for the records of a member, unless another is named:
    below that of the user's session, or else below that for temporary files.
    """
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    name = f"voltha-coord-{os.getuid()}"
    return Path(base) / name / f"{prefix.replace('/', '.')}@{instance_id}"


class Orphans:
    """
    Writes sessions down, and clears those that were left.

    :param directory: for the records of this member alone.
    """

    def __init__(self, directory: Path, log: Any) -> None:
        self._directory = directory
        self._log = log

    def open(self) -> None:
        """
        Make the directory, if need be.

        :raises ConfigurationError: when that cannot be, or it is somebody else's.
        """
        where = self._directory
        try:
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
            owners = {where.stat().st_uid, where.parent.stat().st_uid}
            with tempfile.TemporaryFile(dir=where):
                pass
        except OSError as error:
            raise ConfigurationError(
                f"state-directory: {where}: {error.strerror}"
            ) from error
        if not owners <= {0, os.getuid()}:
            raise ConfigurationError(f"state-directory: {where} is somebody else's")

    def clear(self) -> int:
        """
        Kill what an earlier life of this member has left.

        :return: how many sessions there were.
        """
        found = 0
        for path in sorted(self._directory.glob("*.pid")):
            record = _read(path)
            if record is not None and record[1] and started(record[0]) == record[1]:
                found += 1
                session = record[0]
                send(session, signal.SIGKILL)
                self._log.warning("orphan-cleared", work=path.stem, pid=session)
            with contextlib.suppress(OSError):
                path.unlink()
        return found

    def note(self, work: str, session: int) -> None:
        """
        Write a session down.  That it could not be is logged, and no
        reason not to run.
        """
        try:
            path = self._path(work)
            new = path.with_suffix(".new")
            new.write_text(json.dumps({"pid": session, "started": started(session)}))
            new.replace(path)
        except OSError as error:
            self._log.warning("process-not-noted", work=work, error=str(error))

    def forget(self, work: str) -> None:
        """
        Nothing is left of it.
        """
        with contextlib.suppress(OSError):
            self._path(work).unlink(missing_ok=True)

    def _path(self, work: str) -> Path:
        return self._directory / f"{work}.pid"


def _read(path: Path) -> tuple[int, str] | None:
    try:
        record = json.loads(path.read_text())
        return int(record["pid"]), str(record["started"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
