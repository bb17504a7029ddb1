"""
Tests for :mod:`voltha_coord.changes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from tests.support.recording import RecordedConsul
from voltha_coord.changes import Changes

WAIT = 30.0
PAUSE = 0.5


class ChangesTests(SynchronousTestCase):
    """
    Note [One name stands for all].
    """

    def setUp(self) -> None:
        """
        Watch what lies under ``p/work/``.
        """
        self.clock = Clock()
        self.consul = RecordedConsul(self.clock)
        self.addCleanup(self.consul.stop)
        self.api = self.consul.api()
        self.told: list[float] = []
        self.changes = Changes(
            self.clock,
            self.consul.api(),
            "p/work/",
            lambda: self.told.append(self.clock.seconds()),
            name="work",
            wait=WAIT,
            pause=PAUSE,
            random=lambda: 1.0,
        )
        self.addCleanup(self.changes.stop)

    def run_(self, d: Deferred[Any]) -> Any:
        """
        Give what a Deferred fires with.
        """
        (result,) = self.consul.run(d)
        return result

    def put(self, key: str, value: bytes = b"") -> None:
        """
        Write a key.
        """
        self.run_(self.api.put(key, value))

    def settle(self) -> None:
        """
        Let all happen that is due.
        """
        self.clock.pump([0.0] * 20)

    def begin(self) -> None:
        """
        Begin to watch, and forget the first look.
        """
        self.changes.start()
        self.settle()
        self.assertEqual(len(self.told), 1)
        self.told.clear()
        self.clock.advance(PAUSE)
        self.consul.requests.clear()

    def test_tells(self) -> None:
        """
        It tells of what is changed, added and deleted, of the last one too.
        """
        self.put("p/work/a")
        self.begin()
        changes: tuple[Callable[[], Deferred[bool]], ...] = (
            lambda: self.api.put("p/work/a", b"1"),
            lambda: self.api.put("p/work/b", b""),
            lambda: self.api.delete("p/work/a"),
            lambda: self.api.delete("p/work/b"),
        )
        for change in changes:
            self.told.clear()
            self.run_(change())
            self.settle()
            self.clock.advance(PAUSE)

            self.assertEqual(len(self.told), 1)

    def test_does_not_tell(self) -> None:
        """
        It does not tell of what lies elsewhere, nor of a wait that has ended.
        """
        self.put("p/work/a")
        self.begin()
        for key in ("p/status/a", "p/other"):
            self.put(key)
        self.clock.pump([1.0] * 100)

        self.assertEqual(self.told, [])

    def test_costs_one_name(self) -> None:
        """
        What it asks is cut off at the first separator, however much lies below.
        """
        for n in range(50):
            self.put(f"p/work/w{n}")
        self.begin()
        self.put("p/work/w7", b"x" * 1000)
        self.settle()
        self.clock.advance(PAUSE)

        params = [dict(request.params) for request in self.consul.requests]
        asked = [p for p in params if "keys" in p]
        self.assertTrue(asked)
        self.assertEqual({p["separator"] for p in asked}, {"/"})
        names = self.run_(self.api.keys("p/work", separator="/"))
        self.assertEqual(names.names, ("p/work/",))

    def test_no_more_often(self) -> None:
        """
        However often something changes, it tells once in ``pause`` seconds.
        """
        self.begin()
        for n in range(100):
            self.put(f"p/work/w{n}")
            self.clock.advance(PAUSE / 10)

        self.assertTrue(9 <= len(self.told) <= 12, len(self.told))
