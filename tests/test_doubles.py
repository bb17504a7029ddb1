"""
Tests for the places of the Coordinators of one process.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.doubles import Place
from voltha_coord.errors import DuplicateCoordinatorError


class PlaceTests(SynchronousTestCase):
    """
    One place for each prefix and id.
    """

    def setUp(self) -> None:
        """
        Begin with nobody there.
        """
        self.registry: dict[tuple[str, str], str] = {}

    def place(self, prefix: str = "p", instance_id: str = "a") -> Place[str]:
        """
        Give a place that is free.
        """
        return Place(prefix, instance_id, self.registry)

    def test_taken(self) -> None:
        """
        A place that is taken is refused, naming who it is and where.
        """
        self.place().take("one")

        with self.assertRaisesRegex(DuplicateCoordinatorError, "'a' under 'p'"):
            self.place()

    def test_others(self) -> None:
        """
        One of another prefix or another id is no double.
        """
        self.place().take("one")
        self.place(prefix="q").take("two")
        self.place(instance_id="b").take("three")

        self.assertEqual(
            self.registry,
            {("p", "a"): "one", ("q", "a"): "two", ("p", "b"): "three"},
        )

    def test_not_taken(self) -> None:
        """
        To look whether it is free does not take it.
        """
        self.place()

        self.assertEqual(self.registry, {})

    def test_given_back(self) -> None:
        """
        A place that is given back can be taken again; twice is no error.
        """
        place = self.place()
        place.take("one")
        place.give_back()
        place.give_back()

        self.place().take("two")

        self.assertEqual(self.registry, {("p", "a"): "two"})
