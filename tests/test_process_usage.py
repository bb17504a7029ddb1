"""
Tests for :mod:`voltha_coord.runners.usage`: what commands use.
"""

from __future__ import annotations

import os
import subprocess

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.runners.usage import SessionMeter, look


class UsageTests(SynchronousTestCase):
    """
    A session is measured with all that is in it.
    """

    def setUp(self) -> None:
        """
        Have a meter.
        """
        self.clock = Clock()
        self.meter = SessionMeter(self.clock.seconds)

    def run_shell(self, script: str) -> int:
        """
        Run a script that says when it is under way.

        :return: its session.
        """
        process = subprocess.Popen(
            ["sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(os.killpg, process.pid, 9)
        process.stdout.readline()
        return process.pid

    def test_look(self) -> None:
        """
        A process has memory, time, and a start; one that is not there has none.
        """
        seen = look(os.getpid())
        assert seen is not None

        self.assertGreater(seen.memory, 2**20)
        self.assertGreater(seen.seconds, 0.0)
        self.assertGreater(seen.started, 0.0)
        self.assertIsNone(look(2**22 + 1))

    def test_sum(self) -> None:
        """
        Memory is that of all processes of the session.
        """
        alone = self.run_shell("echo; exec sleep 1000")
        three = self.run_shell("sleep 1000 & sleep 1000 & echo; exec sleep 1000")

        for _ in range(2000):
            found = self.meter.measure({alone, three})
            # Those that have just been forked have hardly any of their own yet.
            if found[three].memory > 2 * found[alone].memory:
                break
        else:
            self.fail("three use no more than two")

        self.assertEqual(set(found), {alone, three})
        self.assertEqual(len(found[three].seconds), 3)

    def test_cpu(self) -> None:
        """
        CPU is what was used between two looks, and not known at the first.
        """
        busy = self.run_shell("echo; while :; do :; done")
        first = self.meter.measure({busy})[busy]
        self.assertIsNone(first.cpu)
        before = sum(first.seconds.values())

        while True:
            self.clock.advance(0.5)
            found = self.meter.measure({busy})[busy]
            spent = sum(found.seconds.values()) - before
            self.assertAlmostEqual(found.cpu or 0.0, 100 * spent / 0.5)
            if spent > 0:
                break
            before += spent

    def test_nothing(self) -> None:
        """
        What is not there is not among what was found.
        """
        self.assertEqual(self.meter.measure(set()), {})
        self.assertEqual(self.meter.measure({2**22 + 1}), {})

    def test_same_time(self) -> None:
        """
        Two looks at the same time tell nothing of CPU.
        """
        idle = self.run_shell("echo; exec sleep 1000")
        self.meter.measure({idle})

        self.assertIsNone(self.meter.measure({idle})[idle].cpu)
