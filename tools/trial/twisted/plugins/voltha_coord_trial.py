"""
Makes the project's reporter known to trial: ``trial --reporter=counting``.

This directory's parent is put on the path for the project's own test runs
only; nothing of it is installed.
"""

from twisted.plugins.twisted_trial import _Reporter

counting = _Reporter(
    "Counting Reporter",
    "tests.support.reporter",
    description="terse output, and one closing line that counts each test once",
    longOpt="counting",
    shortOpt=None,
    klass="CountingReporter",
)
