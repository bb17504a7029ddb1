"""
Tests of voltha_coord, run by trial against the installed package.
"""

from voltha_coord import _logging

# As in an application: what is logged with a traceback reaches trial, and fails
# the test that did not expect it.
_logging.connect()
