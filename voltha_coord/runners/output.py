"""
What a process writes: its lines as log events, and the last ones kept.

# Note [A process that writes too much]

A line is cut after ``LONGEST_LINE`` characters, and what comes before its end is
dropped as it comes: one without an end takes no memory.  Of more than
``LINES_AT_ONCE`` lines within a second some are not logged; how many is, once
they are fewer again.  The last lines are kept, logged or not; those between are
counted and not looked at, so that there may be any number of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

#: Characters of a line that are logged and kept.
LONGEST_LINE = 500

#: So many lines of one item are logged within a second.
LINES_AT_ONCE = 100

#: So many lines are kept.
LINES_KEPT = 20


class Output:
    """
    The output of an item's processes; see Note [A process that writes too much].

    :ivar last: the last lines.

    :param now: the time, in seconds.
    :param log: whose fields the events have.
    """

    def __init__(self, now: Callable[[], float], log: Any) -> None:
        self._now = now
        self._log = log
        self._open: dict[str, bytes] = {}
        self._second = now()
        self._logged = 0
        self._dropped = 0
        self.last: deque[str] = deque(maxlen=LINES_KEPT)

    def received(self, stream: str, data: bytes) -> None:
        """
        Take what came.

        :param stream: ``stdout`` or ``stderr``.
        """
        *lines, rest = self._without_the_many(data).split(b"\n")
        for line in lines:
            self._line(stream, self._open.pop(stream, b"") + line)
        before = self._open.get(stream, b"")
        # A byte more than is shown of it tells that it is longer.
        self._open[stream] = (before + rest)[: 4 * LONGEST_LINE + 1]

    def _without_the_many(self, data: bytes) -> bytes:
        """
        Leave out lines that would be neither logged nor kept.
        """
        many = data.count(b"\n") - LINES_AT_ONCE - LINES_KEPT
        if many <= 0:
            return data
        self._dropped += many
        first = data.split(b"\n", LINES_AT_ONCE)[:-1]
        last = data.rsplit(b"\n", LINES_KEPT + 1)[1:]
        return b"\n".join([*first, *last])

    def ended(self) -> None:
        """
        No more comes of this process: what has no end of line yet is a line.
        """
        for stream, rest in [*self._open.items()]:
            if rest:
                self._line(stream, rest)
        self._open.clear()
        self._tell_dropped()

    def _line(self, stream: str, raw: bytes) -> None:
        text = raw.removesuffix(b"\r").decode("utf-8", "replace")
        if len(text) > LONGEST_LINE:
            text = f"{text[:LONGEST_LINE]}…"
        self.last.append(text)
        now = self._now()
        if now - self._second >= 1.0:
            self._tell_dropped()
            self._second, self._logged = now, 0
        if self._logged < LINES_AT_ONCE:
            self._logged += 1
            self._log.info("process-output", stream=stream, line=text)
        else:
            self._dropped += 1

    def _tell_dropped(self) -> None:
        if self._dropped:
            self._log.warning("process-output-dropped", lines=self._dropped)
            self._dropped = 0
