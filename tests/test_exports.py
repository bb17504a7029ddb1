"""
Tests of the public names.
"""

from __future__ import annotations

import inspect

from twisted.trial.unittest import SynchronousTestCase

import voltha_coord


class ExportTests(SynchronousTestCase):
    """
    Tests of ``voltha_coord.__all__``.
    """

    def test_names(self) -> None:
        """
        What applications build on is public.
        """
        promised = {
            "Coordinator",
            "CoordinatorService",
            "Leader",
            "Settings",
            "Worker",
            "CoordinationError",
            "StaleMembershipEntryException",
        }

        self.assertEqual(promised - set(voltha_coord.__all__), set())

    def test_each_exists(self) -> None:
        """
        Every public name exists, and is documented.
        """
        for name in voltha_coord.__all__:
            public = getattr(voltha_coord, name)
            if inspect.isclass(public) or callable(public):
                self.assertTrue(inspect.getdoc(public), name)

    def test_each_once(self) -> None:
        """
        No name is listed twice, none begins with an underscore.
        """
        names = list(voltha_coord.__all__)

        self.assertEqual(len(names), len(set(names)))
        self.assertEqual([n for n in names if n[0] == "_" and n != "__version__"], [])

    def test_listed(self) -> None:
        """
        ``dir`` shows every public name, also one that is imported on first use.
        """
        self.assertEqual(set(voltha_coord.__all__) - set(dir(voltha_coord)), set())

    def test_unknown(self) -> None:
        """
        A name that is not there is an ``AttributeError``, as of any module.
        """
        self.assertFalse(hasattr(voltha_coord, "Koordinator"))
