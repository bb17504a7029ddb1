"""
What users of such systems reported about getting out of a tight corner: a partition
that was stuck, and no way to begin anew but with other processes.
"""

from __future__ import annotations

from voltha_coord.settings import Settings

from .support.working import ClusterCase

SETTINGS = Settings()


class BeginAnewTests(ClusterCase):
    """
    An operator who wants the work divided anew.
    """

    def test_assignments_deleted(self) -> None:
        """
        Once all assignments are deleted, whatever they had become, the leader that
        is there divides the work anew, by the state of the cluster and nothing
        else; each item runs once, meanwhile at most (field report 128).
        """
        names = ("a", "b", "c")
        for name in names:
            self.member(name)
        work = [f"w{number}" for number in range(9)]
        self.cluster.put_work(*work)
        self.advance(10.0)
        (leader,) = self.cluster.leaders
        for item in work:
            self.put(self.keys.assignment("nobody", item))
            self.put(self.keys.assignment("a", item), b"?")

        self.cluster.result(
            self.cluster.api.delete(self.keys.assignments, recurse=True)
        )
        self.assertEqual(self.cluster.assignments(), {})
        self.advance(SETTINGS.resync_interval + SETTINGS.soak + 2.0)

        divided = {
            name: len(items) for name, items in self.cluster.assignments().items()
        }
        self.assertEqual(divided, dict.fromkeys(names, 3))
        self.assert_settled(*work)
        self.assertEqual(self.cluster.leaders, [leader])
