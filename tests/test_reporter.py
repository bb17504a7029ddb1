"""
Tests of the reporter that counts the project's own tests.
"""

from __future__ import annotations

import os
from io import StringIO
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.trial.reporter import UncleanWarningsReporterWrapper
from twisted.trial.runner import ErrorHolder, TestSuite
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.support.reporter import TALLY_VARIABLE, CountingReporter, Counts


class _Hidden:
    """
    Keeps what is inside from being collected as tests of this module.
    """

    class Endings(SynchronousTestCase):
        """
        Tests that end in every way there is.
        """

        def test_passes(self) -> None:
            """
            Passes.
            """
            self.assertTrue(True)

        def test_fails(self) -> None:
            """
            Fails an assertion.
            """
            self.fail("on purpose")

        def test_raises(self) -> None:
            """
            Raises.
            """
            raise ZeroDivisionError("on purpose")

        def test_fails_and_logs(self) -> None:
            """
            Fails, and leaves two errors in the log.
            """
            for _ in range(2):
                Logger().failure("on purpose", Failure(ZeroDivisionError()))
            self.fail("on purpose")

        def test_skips(self) -> None:
            """
            Skips.
            """
            raise SkipTest("on purpose")

        def test_todo(self) -> None:
            """
            Fails as expected.
            """
            self.fail("on purpose")

        test_todo.todo = "not done"  # type: ignore[attr-defined]  # trial's mark

        def test_done(self) -> None:
            """
            Passes unexpectedly.
            """

        test_done.todo = "not done"  # type: ignore[attr-defined]  # trial's mark


class CountingReporterTests(SynchronousTestCase):
    """
    Tests of :class:`CountingReporter`.
    """

    def setUp(self) -> None:
        """
        Have a reporter that prints to memory, with no tally around it.
        """
        outer = os.environ.pop(TALLY_VARIABLE, None)
        if outer is not None:
            self.addCleanup(os.environ.__setitem__, TALLY_VARIABLE, outer)
        self.stream = StringIO()
        self.reporter = CountingReporter(self.stream, realtime=False)

    def run_tests(self, *names: str) -> Counts:
        """
        Run some of the sample, and count.
        """
        TestSuite([_Hidden.Endings(name) for name in names]).run(self.reporter)
        return self.reporter.counts

    def last_line(self) -> str:
        """
        Give the last line printed.
        """
        self.reporter.done()
        return self.stream.getvalue().splitlines()[-1]

    def test_each_ending_counts_once(self) -> None:
        """
        Failures, errors and unexpected successes have failed, expected failures
        have passed, and each test counts once.
        """
        counts = self.run_tests(
            "test_passes",
            "test_fails",
            "test_raises",
            "test_skips",
            "test_todo",
            "test_done",
        )

        self.assertEqual(counts, Counts(passed=2, failed=3, skipped=1))
        self.assertFalse(self.reporter.wasSuccessful())

    def test_several_errors_of_one_test(self) -> None:
        """
        A test that fails and logs errors has failed once.
        """
        self.assertEqual(self.run_tests("test_fails_and_logs"), Counts(failed=1))
        self.assertGreater(len(self.reporter.errors), 1)

    def test_unimportable_module(self) -> None:
        """
        A module that cannot be imported is a failure.
        """
        ErrorHolder("tests.test_gone", Failure(ImportError("gone"))).run(self.reporter)

        self.assertEqual(self.last_line(), "0 passed, 1 failed, 0 skipped")

    def test_error_after_success(self) -> None:
        """
        A test that passed and left something unclean behind has failed, in
        whichever order that is said.
        """
        test: Any = _Hidden.Endings("test_passes")
        self.reporter.addSuccess(test)
        self.reporter.addError(test, Failure(ZeroDivisionError()))
        self.reporter.addSkip(test, "too late")

        self.assertEqual(self.reporter.counts, Counts(failed=1))

    def test_nothing_run(self) -> None:
        """
        A run of no test at all is a failure, and says so.
        """
        self.assertEqual(self.last_line(), "0 passed, 1 failed, 0 skipped")
        self.assertIn("No test was run", self.stream.getvalue())
        self.assertFalse(self.reporter.wasSuccessful())

    def test_all_passed(self) -> None:
        """
        A run in which nothing failed is a success; skips do not spoil it.
        """
        self.run_tests("test_passes", "test_skips")

        self.assertTrue(self.reporter.wasSuccessful())
        self.assertEqual(self.last_line(), "1 passed, 0 failed, 1 skipped")

    def test_wrapped(self) -> None:
        """
        It counts through the wrappers trial puts around a reporter, too.
        """
        wrapped = UncleanWarningsReporterWrapper(self.reporter)
        TestSuite([_Hidden.Endings("test_fails")]).run(wrapped)

        self.assertEqual(self.reporter.counts, Counts(failed=1))

    def test_tally(self) -> None:
        """
        Within a tally the counts go to its file, after what is there, and no
        closing line is printed.
        """
        path = self.mktemp()
        with open(path, "w") as file:
            file.write("1 0 0\n")
        os.environ[TALLY_VARIABLE] = path
        self.addCleanup(os.environ.pop, TALLY_VARIABLE, None)
        self.run_tests("test_passes", "test_fails")

        last = self.last_line()

        with open(path) as file:
            self.assertEqual(file.read(), "1 0 0\n1 1 0\n")
        self.assertNotIn("1 passed", last)
