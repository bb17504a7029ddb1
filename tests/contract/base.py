"""
What every part of the contract suite starts from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from twisted.internet.defer import Deferred, inlineCallbacks

from voltha_coord._types import Steps

from .backends import Backend
from .calls import Answer, Calls

if TYPE_CHECKING:
    from twisted.trial.unittest import TestCase as _Base
else:
    _Base = object


class ContractBase(_Base):
    """
    Makes a backend for each test.  A part of the suite mixes it in, and its
    tests never touch a clock: they ask the backend to wait.

    :cvar make_backend: makes one.
    """

    timeout = 60
    make_backend: ClassVar[Callable[[], Backend]]

    def setUp(self) -> None:
        """
        Make a backend with a prefix of its own.
        """
        self.backend = type(self).make_backend()
        self.addCleanup(self.backend.tear_down)
        self.calls = Calls(self.backend)

    def key(self, name: str) -> str:
        """
        Give a key of this test.
        """
        return self.backend.prefix + name

    def check_id(self, name: str = "check") -> str:
        """
        Give the id of a check of this test.
        """
        return f"{self.backend.name}-{name}"

    @inlineCallbacks
    def eventually(
        self, ask: Callable[[], Deferred[Any]], wanted: Callable[[Any], bool]
    ) -> Steps[Any]:
        """
        Ask until the answer is as wanted, for two seconds at most: what an
        agent tells the servers arrives a little later.
        """
        answer: Any = None
        for _ in range(100):
            answer = yield ask()
            if wanted(answer):
                break
            yield self.backend.wait(0.02)
        self.assertTrue(wanted(answer), answer)
        return answer

    @inlineCallbacks
    def bound_session(self, check_id: str, **fields: object) -> Steps[str]:
        """
        Create a session that is bound to a service check just registered.
        """
        answer: Answer = yield self.eventually(
            lambda: self.calls.try_session(ServiceChecks=[{"ID": check_id}], **fields),
            lambda answer: answer.status == 200,
        )
        session_id = answer.json["ID"]
        assert isinstance(session_id, str)
        return session_id
