"""
Tests of voltha_coord, run by trial against the installed package.
"""

from hypothesis import settings

from voltha_coord import _logging

# As in an application: what is logged with a traceback reaches trial, and fails
# the test that did not expect it.
_logging.connect()

# How long an example takes says more of the machine than of the code.
settings.register_profile("voltha_coord", deadline=None)
settings.load_profile("voltha_coord")
