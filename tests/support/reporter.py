"""
A trial reporter that counts tests, and says so in one last line.

Trial counts outcomes: a test that fails and leaves an error in the log counts
twice, and a module that cannot be imported may not look like a failure to what
reads the output.  Here each test counts once, by the worst that was said of
it, and a run of nothing is a failure.

The closing line is ``N passed, N failed, N skipped``.  Where the environment
variable ``VOLTHA_TESTS_TALLY`` names a file, the three numbers are appended to
that file instead: whoever set it adds them up with other checks and prints the
line (see ``tools/tally``).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from attrs import frozen
from twisted.trial.reporter import TextReporter

#: Names the file to which the counts go instead of a closing line.
TALLY_VARIABLE = "VOLTHA_TESTS_TALLY"


class Outcome(IntEnum):
    """
    What became of one test; the worst word said of it stands.
    """

    PASSED = 0
    SKIPPED = 1
    FAILED = 2


@frozen
class Counts:
    """
    How many tests ended in which way.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    @classmethod
    def of(cls, outcomes: Mapping[str, Outcome]) -> Counts:
        """
        Count the outcomes of all tests; no test at all is one failure.
        """
        if not outcomes:
            return cls(failed=1)
        n = Counter(outcomes.values())
        return cls(n[Outcome.PASSED], n[Outcome.FAILED], n[Outcome.SKIPPED])

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


class CountingReporter(TextReporter):
    """
    Trial's terse output, with a count that can be trusted at its end.

    Import errors, errors, unclean tests and tests that succeed though they are
    marked todo have failed; expected failures have passed.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._outcomes: dict[str, Outcome] = {}

    def _note(self, test: Any, outcome: Outcome) -> None:
        name = test.id()
        self._outcomes[name] = max(outcome, self._outcomes.get(name, outcome))

    def addSuccess(self, test: Any) -> None:
        """
        A test has passed.
        """
        super().addSuccess(test)
        self._note(test, Outcome.PASSED)

    def addExpectedFailure(self, test: Any, error: Any, todo: Any = None) -> None:
        """
        A test marked todo has failed, as it was expected to.
        """
        super().addExpectedFailure(test, error, todo)
        self._note(test, Outcome.PASSED)

    def addSkip(self, test: Any, reason: Any) -> None:
        """
        A test was skipped.
        """
        super().addSkip(test, reason)
        self._note(test, Outcome.SKIPPED)

    def addFailure(self, test: Any, fail: Any) -> None:
        """
        An assertion of a test does not hold.
        """
        super().addFailure(test, fail)
        self._note(test, Outcome.FAILED)

    def addError(self, test: Any, error: Any) -> None:
        """
        A test raised, logged an error, left something behind, or its module
        could not be imported.
        """
        super().addError(test, error)
        self._note(test, Outcome.FAILED)

    def addUnexpectedSuccess(self, test: Any, todo: Any = None) -> None:
        """
        A test marked todo has passed: the mark is wrong by now.
        """
        super().addUnexpectedSuccess(test, todo)
        self._note(test, Outcome.FAILED)

    @property
    def counts(self) -> Counts:
        """
        What has been counted up to now.
        """
        return Counts.of(self._outcomes)

    def wasSuccessful(self) -> bool:
        """
        Whether something was run, and nothing failed.
        """
        return self.counts.failed == 0

    def done(self) -> None:
        """
        Print what trial prints, then the count.
        """
        super().done()
        counts = self.counts
        if not self._outcomes:
            self._writeln("No test was run: that counts as a failure.")
        tally = os.environ.get(TALLY_VARIABLE)
        if tally is None:
            self._writeln("%s", counts)
            return
        with open(tally, "a") as file:
            print(counts.passed, counts.failed, counts.skipped, file=file)
