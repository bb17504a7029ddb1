"""
The values of planning by resources.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.planning.deployment import domain_of, shown_id


class IdTests(SynchronousTestCase):
    """
    Work ids, as they are displayed and taken apart.
    """

    def test_shown(self) -> None:
        """
        The ``@`` is always there.
        """
        self.assertEqual(shown_id("foo"), "foo@")
        self.assertEqual(shown_id("foo@bar"), "foo@bar")

    def test_domain(self) -> None:
        """
        The domain follows the last ``@``.
        """
        self.assertEqual(domain_of("foo"), "")
        self.assertEqual(domain_of("foo@"), "")
        self.assertEqual(domain_of("a@b@c"), "c")
