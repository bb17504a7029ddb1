"""
Tests for what a leader says once.
"""

from __future__ import annotations

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from tests.support.keeping import RecordingLog
from voltha_coord.planning.actions import Add, Move
from voltha_coord.planning.operations import Plan
from voltha_coord.planning.state import ClusterState
from voltha_coord.remarks import SOME, Remarks

QUIET = ClusterState()


class RemarksTests(SynchronousTestCase):
    """
    One term's remarks.
    """

    def setUp(self) -> None:
        """
        Have said nothing yet.
        """
        self.log = RecordingLog()
        self.remarks = Remarks("p/intent/freeze", self.log)

    def test_nothing(self) -> None:
        """
        Of a state in which nothing is odd nothing is said.
        """
        self.remarks.of(QUIET)
        self.remarks.missing([], 3.0)

        self.assertEqual(self.log.said, [])

    def test_kept(self) -> None:
        """
        That items are kept for members that are gone is said once.
        """
        plan = Plan(
            placements={"w1": "m1", "w2": "m1", "w3": "m2"},
            kept=frozenset({"w1", "w2"}),
        )
        for number in (4, 5):
            self.remarks.planned(plan, number)

        (said,) = self.log.of("work-kept", "warning")
        self.assertEqual(
            (said["number"], said["items"], said["members"]), (4, 2, ["m1"])
        )

    def test_moves(self) -> None:
        """
        Each move that begins is said, with the number of the pass.
        """
        steps = (Move("w1", "m1", "m2"), Add("w2", "m1"))
        self.remarks.planned(Plan(steps=steps), 7)

        self.assertEqual(
            self.log.of("work-moves", "info"),
            [{"number": 7, "work": "w1", "source": "m1", "target": "m2"}],
        )

    def test_not_moved(self) -> None:
        """
        Why items cannot be moved is said, and again only when it is otherwise.
        """
        for number, reason in enumerate(("full", "full", "held", "")):
            skipped = {"w1": reason} if reason else {}
            self.remarks.planned(Plan(skipped=skipped), number)

        said = self.log.of("work-not-moved", "warning")
        self.assertEqual([s["some"] for s in said], [{"w1": "full"}, {"w1": "held"}])
        self.assertEqual([s["number"] for s in said], [0, 2])

    def test_frozen(self) -> None:
        """
        That planning is frozen is said once, with the reason, and so is that it
        goes on.
        """
        for frozen in (True, True, False, False, True):
            self.remarks.of(evolve(QUIET, frozen=frozen, freeze_reason="why"))

        self.assertEqual(
            [(level, event) for level, event, _ in self.log.said],
            [
                ("warning", "planning-frozen"),
                ("info", "planning-goes-on"),
                ("warning", "planning-frozen"),
            ],
        )
        self.assertEqual(
            self.log.of("planning-frozen")[0],
            {"key": "p/intent/freeze", "reason": "why"},
        )

    def test_odd(self) -> None:
        """
        Keys and values that cannot be ours are said again when there are
        others; a few of many are named, and that they are gone is not said.
        """
        many = tuple(f"k{number}" for number in range(9))
        wrong = dict.fromkeys(many, "no")
        for stray, problems in (((), {}), (many, wrong), (many, wrong), ((), {})):
            self.remarks.of(evolve(QUIET, stray=stray, problems=problems))

        (stray_said,) = self.log.of("stray-keys", "warning")
        (problems_said,) = self.log.of("unreadable-values", "warning")
        self.assertEqual((stray_said["count"], problems_said["count"]), (9, 9))
        self.assertEqual(stray_said["some"], list(many[:SOME]))
        self.assertEqual(len(problems_said["some"]), SOME)

    def test_missing(self) -> None:
        """
        Members that are waited for are named again when they are others.
        """
        for names in (["a", "b"], ["a", "b"], ["b"], []):
            self.remarks.missing(names, 2.5)

        self.assertEqual(
            [
                (said["count"], said["some"])
                for said in self.log.of("waiting-for-members")
            ],
            [(2, ["a", "b"]), (1, ["b"])],
        )

    def test_reminded(self) -> None:
        """
        Items without owner records are counted, and a few named in order.
        """
        self.remarks.reminded({"w3", "w1", "w2"})

        (said,) = self.log.of("owner-records-missing", "warning")
        self.assertEqual((said["items"], said["some"]), (3, ["w1", "w2", "w3"]))
