"""
Ending this process for certain.

# Note [For certain]

Work that does not stop holds whatever it likes: the reactor's thread, the locks
of the log, a pipe that nobody reads.  So the end waits for nothing of all that.
What is still to be said is said by a thread of its own, for which the end waits a
moment and no longer.  Then comes ``os._exit``: it asks nobody, runs no handler
and flushes nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

#: The exit status of a process that ended because its work did not stop.
STUCK_STATUS = 70

#: What is still to be said may take so many seconds.
LAST_WORDS_SECONDS = 0.1


def end_process(
    last_words: Callable[[], object],
    status: int = STUCK_STATUS,
    end: Callable[[int], object] = os._exit,
) -> None:
    """
    End this process now; see Note [For certain].  May be called in any thread.

    :param last_words: says what is still to be said; it may fail, or hang.
    """
    try:
        speaking = threading.Thread(target=last_words, daemon=True)
        speaking.start()
        speaking.join(LAST_WORDS_SECONDS)
    finally:
        end(status)
