"""
Tests for ending this process for certain.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.ending import LAST_WORDS_SECONDS, STUCK_STATUS, end_process


class EndProcessTests(SynchronousTestCase):
    """
    Tests of :func:`end_process`.
    """

    def setUp(self) -> None:
        """
        Have an end that is none.
        """
        self.events: list[Any] = []

    def end(self, last_words: Any) -> None:
        """
        End the process, as it were.
        """
        end_process(last_words, end=self.events.append)

    def test_order(self) -> None:
        """
        What is still to be said comes first; then the end, with a status of its
        own.
        """
        self.end(lambda: self.events.append("said"))

        self.assertEqual(self.events, ["said", STUCK_STATUS])

    def test_hangs(self) -> None:
        """
        Last words that never end are not waited for.
        """
        never = threading.Event()
        self.addCleanup(never.set)
        begun = time.monotonic()

        self.end(never.wait)

        self.assertEqual(self.events, [STUCK_STATUS])
        self.assertLess(time.monotonic() - begun, LAST_WORDS_SECONDS + 2.0)

    def test_no_thread(self) -> None:
        """
        The end comes even where no thread can be had to say anything.
        """

        def no_thread(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        self.patch(threading.Thread, "start", no_thread)

        with self.assertRaises(RuntimeError):
            self.end(lambda: None)
        self.assertEqual(self.events, [STUCK_STATUS])

    def test_process(self) -> None:
        """
        A process ends with that status, whatever would be done at its exit, and
        whatever other threads hold.
        """
        code = """
import atexit, sys, threading, time
from voltha_coord.ending import end_process
atexit.register(time.sleep, 60)
threading.Thread(target=time.sleep, args=(60,)).start()
lock = threading.Lock()
lock.acquire()
def last_words():
    print("last words", flush=True)
    lock.acquire()
end_process(last_words)
"""
        ended = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

        self.assertEqual((ended.returncode, ended.stdout), (70, "last words\n"))
