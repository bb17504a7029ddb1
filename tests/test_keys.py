"""
The key layout, and what an id may look like.
"""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.errors import ConfigurationError, InvalidIdError
from voltha_coord.keys import (
    Keys,
    check_instance_id,
    check_prefix,
    check_work_id,
    is_instance_id,
    is_work_id,
    shown,
)

#: Texts close to ids, and anything else.
NEAR_IDS = st.one_of(
    st.text(alphabet="aZ9._-@/ \n", max_size=12),
    st.text(max_size=12),
    st.text(alphabet="a@", min_size=195, max_size=205),
)


def accepted(check: object, value: str) -> bool:
    """
    Whether a check gives the value back.
    """
    assert callable(check)
    try:
        return bool(check(value) == value)
    except InvalidIdError:
        return False


class IdTests(SynchronousTestCase):
    """
    Instance ids and work ids.
    """

    def test_instance_ids(self) -> None:
        """
        Letters, digits, dot, underscore and hyphen make an instance id (V16).
        """
        for value in ("a", "voltha-1", "compose_voltha_1", "9", "-", "a.b", "x" * 200):
            self.assertEqual(check_instance_id(value), value)

    def test_work_ids(self) -> None:
        """
        A work id may hold one ``@``.
        """
        for value in ("device_group_0001", "a@b", "a.b@c.d", "x" * 200):
            self.assertEqual(check_work_id(value), value)

    def test_refusals_name_the_character(self) -> None:
        """
        The error names the character that cannot stand in an id (field report
        114).
        """
        for value, character in (
            ("a/b", "/"),
            ("a b", " "),
            ("a%2Fb", "%"),
            ("ä", "ä"),
            ("a\n", "\n"),
            ("a\x00", "\x00"),
            ("a:b", ":"),
        ):
            for check in (check_instance_id, check_work_id):
                error = self.assertRaises(InvalidIdError, check, value)
                self.assertIn(repr(character), str(error))

    def test_at_sign(self) -> None:
        """
        An instance id has no ``@``, a work id not two, and none at its ends.
        """
        error = self.assertRaises(InvalidIdError, check_instance_id, "a@b")
        self.assertIn("'@'", str(error))
        for value in ("a@b@c", "@a", "a@", "@", "a@.b"):
            self.assertRaises(InvalidIdError, check_work_id, value)

    def test_dots(self) -> None:
        """
        A leading dot is refused: ``.`` and ``..`` are cleaned away by Consul
        (field report 115).
        """
        for value in (".", "..", ".a"):
            error = self.assertRaises(InvalidIdError, check_instance_id, value)
            self.assertIn("dot", str(error))

    def test_length(self) -> None:
        """
        An id is neither empty nor longer than 200 characters.
        """
        error = self.assertRaises(InvalidIdError, check_work_id, "")
        self.assertIn("empty", str(error))
        error = self.assertRaises(InvalidIdError, check_work_id, "x" * 201)
        self.assertIn("201", str(error))
        self.assertLess(len(str(error)), 120)

    @given(NEAR_IDS)
    @example("a\n")
    @example("a" * 100 + "@" + "b" * 99)
    @example("a" * 100 + "@" + "b" * 100)
    def test_questions_and_checks_agree(self, value: str) -> None:
        """
        ``is_…`` is true of exactly what ``check_…`` gives back (field report 116).
        """
        self.assertEqual(is_instance_id(value), accepted(check_instance_id, value))
        self.assertEqual(is_work_id(value), accepted(check_work_id, value))


class PrefixTests(SynchronousTestCase):
    """
    The prefix of a cluster.
    """

    def test_accepted(self) -> None:
        """
        A path of plain names is a prefix.
        """
        for value in ("service/voltha", "a", "a.b/c-d/_e"):
            self.assertEqual(check_prefix(value), value)

    def test_refused(self) -> None:
        """
        Anything else is refused and shown.
        """
        for value in ("", "/", "/a", "a/", "a//b", "a/./b", "a/..", "a b", "a\n", "ä"):
            error = self.assertRaises(ConfigurationError, check_prefix, value)
            self.assertIn(repr(value), str(error))


class ShownTests(SynchronousTestCase):
    """
    Keys from outside, as they may be logged.
    """

    def test_plain_keys_stay(self) -> None:
        """
        A key of ours is shown as it is.
        """
        key = "service/voltha/work/a.b-c_d@e"

        self.assertEqual(shown(key), key)

    def test_odd_characters(self) -> None:
        """
        Anything odd is percent-encoded, also what no encoding has.
        """
        self.assertEqual(shown("a b\nä%"), "a%20b%0A%C3%A4%25")
        self.assertEqual(shown("\ud800\udcff"), "%ED%A0%80%ED%B3%BF")

    @given(st.text(alphabet=st.characters(exclude_categories=())))
    def test_always_plain(self, key: str) -> None:
        """
        Whatever the key, what is shown is one line of ASCII (field report 116).
        """
        text = shown(key)

        self.assertTrue(text.isascii())
        self.assertTrue(text.isprintable())


class LayoutTests(SynchronousTestCase):
    """
    Where things lie.
    """

    def test_layout(self) -> None:
        """
        The keys are those of the original and of the documents.
        """
        keys = Keys()
        layout = {
            keys.leader: "leader",
            keys.term: "term",
            keys.members: "members/",
            keys.member("m"): "members/m",
            keys.work: "work/",
            keys.work_item("w"): "work/w",
            keys.assignments: "assignments/",
            keys.assignments_of("m"): "assignments/m/",
            keys.assignment("m", "w"): "assignments/m/w",
            keys.owners: "owners/",
            keys.owner("w"): "owners/w",
            keys.statuses: "status/",
            keys.status_of("m"): "status/m/",
            keys.status("m", 3): "status/m/3",
            keys.reports: "reports/",
            keys.report("w"): "reports/w",
            keys.errors: "errors/",
            keys.error("w"): "errors/w",
            keys.lost: "lost/",
            keys.intent: "intent/",
            keys.node_intent("m"): "intent/nodes/m",
            keys.freeze: "intent/freeze",
            keys.transfer: "intent/transfer",
            keys.locks: "locks/",
            keys.probe("work"): "work/.probe",
        }

        for key, expected in layout.items():
            self.assertEqual(key, f"service/voltha/{expected}")

    def test_own_prefix(self) -> None:
        """
        Another prefix makes another cluster.
        """
        self.assertEqual(Keys("a/b").leader, "a/b/leader")

    def test_listings_end_with_a_slash(self) -> None:
        """
        The assignments of ``voltha-1`` are no prefix of those of ``voltha-10``
        (B3).
        """
        keys = Keys()

        self.assertFalse(
            keys.assignment("voltha-10", "w").startswith(
                keys.assignments_of("voltha-1")
            )
        )

    def test_a_dot_is_no_wildcard(self) -> None:
        """
        A prefix with a dot matches itself alone (B18).
        """
        keys = Keys("a.b")

        self.assertFalse("axb/members/m".startswith(keys.members))

    def test_probe_is_no_id(self) -> None:
        """
        The key that never exists is none that anything of ours could have.
        """
        name = Keys().probe("work").removeprefix(Keys().work)

        self.assertFalse(is_work_id(name))
