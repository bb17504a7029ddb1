"""
Tests of voltha_coord, run by trial against the installed package.
"""

import signal

from hypothesis import settings

from voltha_coord import _logging

# As in an application: what is logged with a traceback reaches trial, and fails
# the test that did not expect it.
_logging.connect()

# How long an example takes says more of the machine than of the code.
settings.register_profile("voltha_coord", deadline=None)
settings.load_profile("voltha_coord")

# A shell that runs the tests in the background lets them ignore Ctrl-C, and so
# would every process that they start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
