"""
Tests for starting a worker, and telling it what it wants to be told.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from tests.support.keeping import RecordingLog
from voltha_coord._loops import Tasks
from voltha_coord.employing import Employing
from voltha_coord.interfaces import IWorker


@implementer(IWorker)
class Plain:
    """
    A worker that has what it must, and no more.
    """

    def __init__(self) -> None:
        self.my_workload = {"x"}
        self.told: list[str] = []

    def start(self) -> Deferred[None]:
        """
        Note it.
        """
        self.told.append("start")
        return succeed(None)

    def halt(self) -> Deferred[None]:
        """
        Note it.
        """
        self.told.append("halt")
        return succeed(None)


class Attentive(Plain):
    """
    One that wants to be told everything.
    """

    def lease_changed(self) -> None:
        """
        Note it.
        """
        self.told.append("lease_changed")

    def emergency_changed(self) -> None:
        """
        Note it.
        """
        self.told.append("emergency_changed")

    def look_again(self) -> None:
        """
        Note it.
        """
        self.told.append("look_again")

    def press(self) -> None:
        """
        Note it.
        """
        self.told.append("press")


class EmployingTests(SynchronousTestCase):
    """
    One worker.
    """

    def employ(self, worker: IWorker) -> Employing:
        """
        Employ it.
        """
        self.log = RecordingLog()
        self.employing = Employing(lambda: worker, Tasks(self.log))
        return self.employing

    def tell_all(self) -> None:
        """
        Tell it everything.
        """
        self.employing.lease_changed()
        self.employing.emergency_changed()
        self.employing.look_again()
        self.employing.press()

    def test_told(self) -> None:
        """
        A worker is told everything, once it is started, and nothing before.
        """
        worker = Attentive()
        employing = self.employ(worker)

        self.tell_all()
        self.assertEqual((worker.told, employing.started), ([], False))
        employing.start()
        self.tell_all()

        self.assertTrue(employing.started)
        self.assertEqual(
            worker.told,
            ["start", "lease_changed", "emergency_changed", "look_again", "press"],
        )

    def test_plain(self) -> None:
        """
        One that need not be told is not; it is halted as any other.
        """
        worker = Plain()
        employing = self.employ(worker)
        employing.start()

        self.tell_all()
        employing.halt()

        self.assertEqual(worker.told, ["start", "halt"])

    def test_has_work(self) -> None:
        """
        There is work once it is started, while any runs.
        """
        worker = Plain()
        employing = self.employ(worker)
        before = employing.has_work
        employing.start()
        meanwhile = employing.has_work
        worker.my_workload = set()

        self.assertEqual((before, meanwhile, employing.has_work), (False, True, False))

    def test_not_started(self) -> None:
        """
        One that fails to start is said, and counts as started.
        """
        worker = Plain()
        worker.start = lambda: fail(ValueError("no"))  # type: ignore[method-assign]

        self.employ(worker).start()

        self.assertTrue(self.employing.started)
        self.assertIn("no", str(self.log.of("task-failed")))
