"""
What users of such systems reported about ACL tokens that are rotated: the new one
did half of what it should.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from voltha_coord._types import Steps
from voltha_coord.consul.address import (
    ConnectionSettings,
    TLSSettings,
    parse_address,
)
from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.connect import connect
from voltha_coord.session import SessionKeeper, service_for
from voltha_coord.settings import Settings

from .support.real_consul import RealConsul, shared_consul

#: How soon the death of a process is to be noticed, in seconds.
DETECTION = 1.0

#: Consul's own time for what the check does not tell it.
UNNOTICED = 2 * 15.0


class RotatedTokenTests(TestCase):
    """
    A session on a real Consul, whose token is taken back.
    """

    timeout = 60

    @inlineCallbacks
    def setUp(self) -> Steps[None]:  # type: ignore[override]  # trial waits
        """
        Begin a session with a token from a file.
        """
        from twisted.internet import reactor

        self.reactor: Any = reactor
        self.consul: RealConsul = shared_consul(secure=True)
        self.first, self.second = (self._make_token() for _ in range(2))
        self.file = Path(self.mktemp())
        self.file.write_text(self.first["SecretID"])
        credentials = self.consul.credentials
        assert credentials is not None
        requester = connect(
            self.reactor,
            ConnectionSettings(
                (parse_address(self.consul.address),),
                token_file=str(self.file),
                tls=TLSSettings(
                    ca_file=credentials.ca_file,
                    cert_file=credentials.cert_file,
                    key_file=credentials.key_file,
                ),
            ),
        )
        self.addCleanup(requester.close)
        self.api = ConsulApi(requester)
        settings = Settings(failure_detection=DETECTION)
        self.keeper = SessionKeeper(
            self.reactor,
            self.api,
            settings,
            service=lambda unique: service_for("m1", unique, settings, "h", 1),
            session_name="rotated",
            held_keys=(),
            changed=lambda: None,
            random=Random(1).random,
        )
        self.addCleanup(self.keeper.destroy)
        self.addCleanup(self.keeper.stop)
        self.keeper.start()
        while self.keeper.session_id is None:
            yield self.pass_time(0.05)

    def _make_token(self) -> Any:
        token = {"Policies": [{"Name": "voltha-coord"}]}
        return self.consul.ask("PUT", "/v1/acl/token", token)

    def pass_time(self, seconds: float) -> Any:
        """
        Let so much time pass.
        """
        return deferLater(self.reactor, seconds, lambda: None)

    @inlineCallbacks
    def test_death_is_noticed(self) -> Steps[None]:
        """
        The token is replaced in its file, and the old one taken back: the session
        goes on, and when the process dies after that it is noticed as soon as
        ever, although the agent had been told of the check with a token that is
        none any more (field report 109).
        """
        session = self.keeper.session_id
        self.file.write_text(self.second["SecretID"])
        self.consul.ask("DELETE", f"/v1/acl/token/{self.first['AccessorID']}")
        yield self.pass_time(2 * DETECTION)
        assert self.keeper.lease is not None

        self.assertEqual(self.keeper.session_id, session)
        self.assertTrue(self.keeper.lease.active)
        yield self.keeper.stop()
        waited = 0.0
        while (yield self.api.session(str(session), consistent=True)) is not None:
            yield self.pass_time(0.1)
            waited += 0.1
            self.assertLess(waited, UNNOTICED / 2)
