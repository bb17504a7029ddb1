"""
The typed verbs, the endpoints of python-consul2, watches and transactions on
every Consul there is: embedded in memory and over HTTP, real, and real with
ACLs and TLS.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import consul as python_consul
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.trial.unittest import TestCase

from tests.contract.backends import (
    Backend,
    HttpBackend,
    MemoryBackend,
    RealBackend,
    SecureRealBackend,
)
from voltha_coord._types import Steps
from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.client import Consul
from voltha_coord.consul.model import Entry, Op, Reading, ServiceSpec, SessionSpec
from voltha_coord.consul.requester import Requester
from voltha_coord.consul.token import TokenSource
from voltha_coord.consul.transaction import Transaction, TransactionOutcome
from voltha_coord.errors import (
    AccessDenied,
    BadRequest,
    CheckLost,
    ConsulError,
    InvalidSession,
    InvalidSessionTTL,
    KeyNotFound,
    TransactionRefused,
    ValueTooLarge,
)

if TYPE_CHECKING:
    _Base = TestCase
else:
    _Base = object

#: No session of this id ever was.
NOBODY = "11111111-1111-1111-1111-111111111111"


class _OnBackend(_Base):
    """
    What every suite needs.
    """

    timeout = 60

    def make_backend(self) -> Backend:
        """
        Make the Consul to test on.
        """
        raise NotImplementedError

    def setUp(self) -> None:
        """
        Make API and client.
        """
        self.backend = self.make_backend()
        self.addCleanup(self.backend.tear_down)
        self.requester = Requester(
            [self.backend.transport], token=TokenSource(self.backend.token)
        )
        self.api = ConsulApi(self.requester, session_timeout=10.0)
        self.prefix = self.backend.prefix

    def get(self, result: Deferred[Any]) -> Deferred[Any]:
        """
        Let time pass until there is a result.
        """
        return self.backend.until(result, 20.0)

    @inlineCallbacks
    def fails(self, result: Deferred[Any], *kinds: type[Exception]) -> Steps[Any]:
        """
        Let time pass until there is a failure, of exactly one kind.
        """
        try:
            value = yield self.get(result)
        except ConsulError as error:
            self.assertIs(type(error), kinds[0], str(error))
            return error
        raise self.failureException(f"{value!r} instead of {kinds[0].__name__}")


class ApiContract(_OnBackend):
    """
    The typed verbs.
    """

    @inlineCallbacks
    def test_keys(self) -> Steps[None]:
        """
        Keys are written, read, listed and deleted.
        """
        key = f"{self.prefix}a b%2F\u00fc"
        written = yield self.get(self.api.put(key, b"\x00\xff", flags=2**64 - 1))
        reading: Reading = yield self.get(self.api.get(key, consistent=True))
        entry = reading.entry
        assert entry is not None
        listed = yield self.get(self.api.list(self.prefix))
        names = yield self.get(self.api.keys(self.prefix))
        deleted = yield self.get(self.api.delete(key))
        gone: Reading = yield self.get(self.api.get(key, stale=True))

        self.assertIs(written, True)
        self.assertEqual((entry.key, entry.value), (key, b"\x00\xff"))
        self.assertEqual((entry.flags, entry.session), (2**64 - 1, None))
        self.assertEqual(entry.modify_index, reading.index)
        self.assertEqual(listed.entries, (entry,))
        self.assertEqual(names.names, (key,))
        self.assertIs(deleted, True)
        self.assertIsNone(gone.entry)
        self.assertGreaterEqual(gone.index, 1)

    @inlineCallbacks
    def test_separator(self) -> Steps[None]:
        """
        Names are listed up to a separator.
        """
        for name in ("a/1", "a/2", "b"):
            yield self.get(self.api.put(self.prefix + name, b""))

        found = yield self.get(self.api.keys(self.prefix, separator="/"))

        self.assertEqual(found.names, (f"{self.prefix}a/", f"{self.prefix}b"))

    @inlineCallbacks
    def test_cas(self) -> Steps[None]:
        """
        A write and a delete may be conditional.
        """
        key = self.prefix + "k"
        first = yield self.get(self.api.put(key, b"1", cas=0))
        second = yield self.get(self.api.put(key, b"2", cas=0))
        reading: Reading = yield self.get(self.api.get(key))
        refused = yield self.get(self.api.delete(key, cas=1))
        deleted = yield self.get(self.api.delete(key, cas=reading.index))

        self.assertEqual((first, second, refused, deleted), (True, False, False, True))

    @inlineCallbacks
    def test_recurse(self) -> Steps[None]:
        """
        A whole prefix is deleted.
        """
        yield self.get(self.api.put(f"{self.prefix}a/1", b""))
        yield self.get(self.api.delete(f"{self.prefix}a/", recurse=True))

        names = yield self.get(self.api.keys(self.prefix))

        self.assertEqual(names.names, ())

    @inlineCallbacks
    def test_blocking(self) -> Steps[None]:
        """
        A blocking read wakes when the key is written.
        """
        key = self.prefix + "k"
        yield self.get(self.api.put(key, b"1"))
        before: Reading = yield self.get(self.api.get(key))
        watching = self.api.get(key, index=before.index, wait=30.0)
        yield self.backend.wait(0.1)
        self.assertNoResult(watching)

        yield self.get(self.api.put(key, b"2"))
        after: Reading = yield self.get(watching)

        assert after.entry is not None
        self.assertEqual(after.entry.value, b"2")
        self.assertGreater(after.index, before.index)

    @inlineCallbacks
    def test_blocking_ends(self) -> Steps[None]:
        """
        A blocking read ends with its wait.
        """
        key = self.prefix + "k"
        yield self.get(self.api.put(key, b"1"))
        before: Reading = yield self.get(self.api.get(key))

        after = yield self.get(self.api.get(key, index=before.index, wait=1.0))

        self.assertEqual(after, before)

    @inlineCallbacks
    def test_transaction(self) -> Steps[None]:
        """
        Operations are applied together; results come in order.
        """
        session: str = yield self.session()
        lock, other = self.prefix + "lock", self.prefix + "other"

        results: tuple[Entry, ...] = yield self.get(
            self.api.txn(
                [
                    Op.check_not_exists(lock),
                    Op.lock(lock, b"me", session),
                    Op.cas(other, b"o", 0),
                    Op.get(other),
                    Op.get_tree(self.prefix),
                    Op.check_session(lock, session),
                    Op.delete(other),
                ]
            )
        )

        written = [e.key for e in results]
        self.assertEqual(written, [lock, other, other, lock, other, lock])
        self.assertEqual(results[0].session, session)
        self.assertEqual(results[2].value, b"o")
        self.assertEqual(results[3].value, b"me")
        yield self.get(self.api.destroy_session(session))

    @inlineCallbacks
    def test_transaction_refused(self) -> Steps[None]:
        """
        A refused transaction changes nothing, and names what was refused.
        """
        key = self.prefix + "k"
        yield self.get(self.api.put(key, b"1"))

        error = yield self.fails(
            self.api.txn(
                [
                    Op.set(self.prefix + "other", b""),
                    Op.check_index(key, 1),
                    Op.lock(self.prefix + "lock", b"", NOBODY),
                ]
            ),
            TransactionRefused,
        )
        names = yield self.get(self.api.keys(self.prefix))

        self.assertEqual([r.position for r in error.refusals], [1, 2])
        self.assertEqual([r.key for r in error.refusals], [key, self.prefix + "lock"])
        self.assertTrue(error.session_invalid)
        self.assertEqual(names.names, (key,))

    @inlineCallbacks
    def test_transaction_of_many(self) -> Steps[None]:
        """
        More operations than fit are written in several transactions.
        """
        ops = [Op.set(f"{self.prefix}k{i:03}", b"v" * 5000) for i in range(150)]

        outcome: TransactionOutcome = yield self.get(Transaction(self.api, ops).run())
        names = yield self.get(self.api.keys(self.prefix))

        self.assertEqual(outcome, TransactionOutcome(150, 150))
        self.assertEqual(len(names.names), 150)

    @inlineCallbacks
    def test_full_body(self) -> Steps[None]:
        """
        The largest body that is sent is taken.
        """
        ops = [
            Op.set(f"{self.prefix}{i}", b"x" * size)
            for i, size in enumerate((200_000, 193_083 - 2 * len(self.prefix)))
        ]
        transaction = Transaction(self.api, ops)
        self.assertEqual(transaction.requests, 1)

        outcome: TransactionOutcome = yield self.get(transaction.run())

        self.assertTrue(outcome.complete, outcome)

    @inlineCallbacks
    def test_too_large(self) -> Steps[None]:
        """
        Too large a value, or too many operations, is refused by name.
        """
        yield self.fails(
            self.api.put(self.prefix + "k", b"x" * (512 * 1024 + 1)), ValueTooLarge
        )
        yield self.fails(
            self.api.txn([Op.set(f"{self.prefix}{i}", b"") for i in range(200)]),
            ValueTooLarge,
        )

    @inlineCallbacks
    def test_bad_request(self) -> Steps[None]:
        """
        What is malformed is named so.
        """
        yield self.fails(
            self.api.put(self.prefix + "k", b"", acquire=NOBODY, cas=1), BadRequest
        )
        yield self.fails(self.api.get(self.prefix + "a//b"), BadRequest)

    @inlineCallbacks
    def session(self) -> Steps[str]:
        """
        Make a session.
        """
        session_id: str = yield self.get(
            self.api.create_session(SessionSpec("test", 15.0, 0.0))
        )
        return session_id

    @inlineCallbacks
    def test_session(self) -> Steps[None]:
        """
        A session is made as it was described, renewed, listed and ended.
        """
        spec = SessionSpec("test", 15.0, 1.5)
        session_id: str = yield self.get(self.api.create_session(spec))
        renewed = yield self.get(self.api.renew_session(session_id))
        info = yield self.get(self.api.session(session_id))
        listed = yield self.get(self.api.sessions())
        yield self.get(self.api.destroy_session(session_id))
        yield self.get(self.api.destroy_session(session_id))
        gone = yield self.get(self.api.session(session_id))

        self.assertEqual(renewed.ttl, 15.0)
        self.assertEqual(
            (info.id, info.name, info.node, info.lock_delay, info.behavior),
            (session_id, "test", self.backend.node, 1.5, "delete"),
        )
        self.assertEqual((info.node_checks, info.service_checks), ((), ()))
        self.assertIn(session_id, [s.id for s in listed])
        self.assertIsNone(gone)
        yield self.fails(self.api.renew_session(session_id), InvalidSession)

    @inlineCallbacks
    def test_acquire(self) -> Steps[None]:
        """
        A key is held by one session until it lets go.
        """
        mine: str = yield self.session()
        other: str = yield self.session()
        key = self.prefix + "lock"

        results = []
        for way, session in (
            ("acquire", mine),
            ("acquire", other),
            ("release", other),
            ("release", mine),
            ("acquire", other),
        ):
            done = yield self.get(
                self.api.put(key, b"", acquire=session)
                if way == "acquire"
                else self.api.put(key, b"", release=session)
            )
            results.append(done)

        self.assertEqual(results, [True, False, False, True, True])
        yield self.fails(self.api.put(key, b"", acquire=NOBODY), InvalidSession)
        yield self.fails(self.api.put(key, b"", acquire="nonsense"), InvalidSession)
        for session in (mine, other):
            yield self.get(self.api.destroy_session(session))

    @inlineCallbacks
    def test_session_ttl(self) -> Steps[None]:
        """
        Too short a TTL tells the shortest.
        """
        error = yield self.fails(
            self.api.create_session(SessionSpec("test", 5.0, 0.0)), InvalidSessionTTL
        )
        self.assertEqual(error.minimum, 10.0)

    @inlineCallbacks
    def test_check(self) -> Steps[None]:
        """
        A session is bound to the check of a service, passing from the start,
        and dies with it.
        """
        service = f"voltha-coord-{self.backend.name}"
        yield self.get(
            self.api.register_service(
                ServiceSpec(service, "voltha-coord", f"check-{service}", 10.0)
            )
        )
        yield self.get(self.api.pass_check(f"check-{service}"))
        session_id: str = ""
        while not session_id:
            try:
                session_id = yield self.get(
                    self.api.create_session(
                        SessionSpec(
                            "test", 15.0, 0.0, service_checks=(f"check-{service}",)
                        )
                    )
                )
            except CheckLost:
                # The agent tells the servers in its own time.
                yield self.backend.wait(0.1)
        checks = yield self.get(self.api.node_checks(self.backend.node))
        info = yield self.get(self.api.session(session_id))

        yield self.get(self.api.deregister_service(service))
        yield self.get(self.api.deregister_service(service))
        gone = info
        while gone is not None:
            yield self.backend.wait(0.1)
            gone = yield self.get(self.api.session(session_id))

        (check,) = [c for c in checks if c.check_id == f"check-{service}"]
        self.assertEqual((check.status, check.service_id), ("passing", service))
        self.assertEqual(info.service_checks, (f"check-{service}",))
        self.assertEqual(info.node_checks, ())
        yield self.fails(self.api.pass_check(f"check-{service}"), CheckLost)

    @inlineCallbacks
    def test_missing_check(self) -> Steps[None]:
        """
        A session cannot be bound to a check that is not there.
        """
        yield self.fails(
            self.api.create_session(
                SessionSpec("test", 15.0, 0.0, service_checks=("nothing",))
            ),
            CheckLost,
        )

    @inlineCallbacks
    def test_about(self) -> Steps[None]:
        """
        The agent and the leader tell about themselves.
        """
        about = yield self.get(self.api.agent_self())
        leader = yield self.get(self.api.status_leader())

        self.assertIn("Config", about)
        self.assertIn(":", leader)

    @inlineCallbacks
    def test_denied(self) -> Steps[None]:
        """
        A token that may do nothing is denied; an allowed key is not, even if
        it is missing.
        """
        allowed = yield self.get(self.api.denied(f"{self.prefix}.probe"))
        self.assertIs(allowed, False)
        if not self.backend.enforces:
            return
        weak = ConsulApi(
            Requester(
                [self.backend.transport], token=TokenSource(self.backend.weak_token)
            )
        )
        denied = yield self.get(weak.denied(f"{self.prefix}.probe"))
        listed = yield self.get(weak.list(self.prefix))

        self.assertIs(denied, True)
        self.assertEqual(listed.entries, ())
        yield self.fails(weak.put(self.prefix + "k", b""), AccessDenied)


class ClientContract(_OnBackend):
    """
    python-consul2's endpoints: the original's contract.
    """

    def setUp(self) -> None:
        """
        Make a client.
        """
        super().setUp()
        self.consul = Consul(self.requester)

    @inlineCallbacks
    def test_kv(self) -> Steps[None]:
        """
        Indexes are texts, values bytes, and what is missing is ``None``.
        """
        key = self.prefix + "k"
        kv = self.consul.kv
        written = yield self.get(kv.put(key, "v\u00e4lue"))
        index, row = yield self.get(kv.get(key))
        _, rows = yield self.get(kv.get(self.prefix, recurse=True))
        _, names = yield self.get(kv.get(self.prefix, keys=True, separator="/"))
        deleted = yield self.get(kv.delete(key))
        missing_index, missing = yield self.get(kv.get(key))
        _, no_rows = yield self.get(kv.get(self.prefix, recurse=True))

        self.assertIs(written, True)
        self.assertIsInstance(index, str)
        self.assertEqual(row["Key"], key)
        self.assertEqual(row["Value"], "v\u00e4lue".encode())
        self.assertEqual(str(row["ModifyIndex"]), index)
        self.assertEqual(rows, [row])
        self.assertEqual(names, [key])
        self.assertIs(deleted, True)
        self.assertIsInstance(missing_index, str)
        self.assertIsNone(missing)
        self.assertIsNone(no_rows)

    @inlineCallbacks
    def test_values(self) -> Steps[None]:
        """
        A value may be bytes, text or nothing.
        """
        kv = self.consul.kv
        for value, found in ((b"\x00\xff", b"\x00\xff"), ("", None), (None, None)):
            yield self.get(kv.put(self.prefix + "k", value))
            _, row = yield self.get(kv.get(self.prefix + "k"))
            self.assertEqual(row["Value"], found)

    @inlineCallbacks
    def test_blocking(self) -> Steps[None]:
        """
        A read with an index blocks.
        """
        kv, key = self.consul.kv, self.prefix + "k"
        yield self.get(kv.put(key, "1"))
        index, _ = yield self.get(kv.get(key))
        watching = kv.get(key, index=index)
        yield self.backend.wait(0.1)
        self.assertNoResult(watching)

        yield self.get(kv.put(key, "2"))
        _, row = yield self.get(watching)

        self.assertEqual(row["Value"], b"2")
        ended, _ = yield self.get(
            kv.get(key, index=row["ModifyIndex"], wait="1s", consistency="consistent")
        )
        self.assertEqual(ended, str(row["ModifyIndex"]))

    @inlineCallbacks
    def test_locks(self) -> Steps[None]:
        """
        A session binds nothing that was not asked for, and holds keys; the
        errors are ours, and still python-consul's.
        """
        session, kv = self.consul.session, self.consul.kv
        key = self.prefix + "lock"
        session_id = yield self.get(
            session.create(name="test", behavior="delete", ttl=10, lock_delay=1)
        )
        _, info = yield self.get(session.info(session_id))
        acquired = yield self.get(kv.put(key, "me", acquire=session_id))
        renewed = yield self.get(session.renew(session_id))
        _, listed = yield self.get(session.list())
        _, of_node = yield self.get(session.node(self.backend.node))
        destroyed = yield self.get(session.destroy(session_id))
        _, row = yield self.get(kv.get(key))

        self.assertEqual(info["ID"], session_id)
        self.assertEqual(info["NodeChecks"], [])
        self.assertEqual(info["LockDelay"], 1_000_000_000)
        self.assertIs(acquired, True)
        self.assertEqual(renewed["TTL"], "10s")
        for rows in (listed, of_node):
            self.assertIn(session_id, [r["ID"] for r in rows])
        self.assertIs(destroyed, True)
        self.assertIsNone(row)
        error = yield self.fails(session.renew(session_id), KeyNotFound)
        self.assertIsInstance(error, python_consul.NotFound)
        error = yield self.fails(
            kv.put(key + "2", "", acquire=session_id), InvalidSession
        )
        self.assertIsInstance(error, python_consul.ConsulException)
        yield self.fails(session.create(ttl=1), InvalidSessionTTL)

    @inlineCallbacks
    def test_session_with_serf_health(self) -> Steps[None]:
        """
        ``serfHealth`` is bound when it is asked for, and alone.
        """
        session = self.consul.session
        session_id = yield self.get(session.create(checks=["serfHealth"]))
        _, info = yield self.get(session.info(session_id))

        self.assertEqual(info["NodeChecks"], ["serfHealth"])
        yield self.get(session.destroy(session_id))

    @inlineCallbacks
    def test_txn(self) -> Steps[None]:
        """
        A transaction is sent as it is.
        """
        op = {"KV": {"Verb": "set", "Key": self.prefix + "k", "Value": "dg=="}}

        done = yield self.get(self.consul.txn.put([op]))

        self.assertEqual(done["Results"][0]["KV"]["Key"], self.prefix + "k")
        op["KV"] = {"Verb": "get", "Key": self.prefix + "missing"}
        yield self.fails(self.consul.txn.put([op]), TransactionRefused)

    @inlineCallbacks
    def test_agent(self) -> Steps[None]:
        """
        A service is registered with a TTL check, passed, and removed.
        """
        agent = self.consul.agent
        service = f"voltha-coord-{self.backend.name}"
        about = yield self.get(agent.self())
        registered = yield self.get(
            agent.service.register(
                "voltha-coord",
                service_id=service,
                port=8880,
                check=python_consul.Check.ttl("10s"),
            )
        )
        passed = yield self.get(agent.check.ttl_pass(f"service:{service}"))
        removed = yield self.get(agent.service.deregister(service))

        self.assertIn("Config", about)
        self.assertEqual((registered, passed, removed), (True, True, True))
        yield self.fails(agent.check.ttl_pass(f"service:{service}"), CheckLost)

    @inlineCallbacks
    def test_catalog_and_health(self) -> Steps[None]:
        """
        Nodes and their health are listed with an index.
        """
        index, nodes = yield self.get(self.consul.catalog.nodes())
        _, services = yield self.get(self.consul.catalog.services())
        _, checks = yield self.get(self.consul.health.node(self.backend.node))

        self.assertIsInstance(index, str)
        self.assertIn(self.backend.node, [n["Node"] for n in nodes])
        self.assertIsInstance(services, dict)
        self.assertIsInstance(checks, list)

    @inlineCallbacks
    def test_status(self) -> Steps[None]:
        """
        Leader and peers are told.
        """
        leader = yield self.get(self.consul.status.leader())
        peers = yield self.get(self.consul.status.peers())

        self.assertIn(leader, peers)

    @inlineCallbacks
    def test_token_of_a_call(self) -> Steps[None]:
        """
        A token given with a call wins.
        """
        if not self.backend.enforces:
            return
        yield self.fails(
            self.consul.kv.put(self.prefix + "k", "", token=self.backend.weak_token),
            AccessDenied,
        )

    @inlineCallbacks
    def test_environment(self) -> Steps[None]:
        """
        What python-consul2 would read of the environment is kept from it, and
        left as it was.
        """
        variables = {
            "CONSUL_HTTP_ADDR": "unix:///a:b:c",
            "CONSUL_HTTP_TOKEN": "none",
            "CONSUL_HTTP_SSL": "true",
        }
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            consul = Consul(self.requester)
            left = {name: os.environ.get(name) for name in variables}
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value

        written = yield self.get(consul.kv.put(self.prefix + "k", "v"))

        self.assertIs(written, True)
        self.assertEqual(left, variables)


class MemoryApiTests(ApiContract, TestCase):
    """
    The verbs on the embedded Consul in memory.
    """

    def make_backend(self) -> Backend:
        """
        Make it.
        """
        return MemoryBackend()


class HttpApiTests(ApiContract, TestCase):
    """
    The verbs on the embedded Consul over HTTP.
    """

    def make_backend(self) -> Backend:
        """
        Make it.
        """
        return HttpBackend()


class RealApiTests(ApiContract, TestCase):
    """
    The verbs on a real Consul.
    """

    def make_backend(self) -> Backend:
        """
        Make it.
        """
        return RealBackend()


class SecureApiTests(ApiContract, TestCase):
    """
    The verbs on a real Consul with ACLs and TLS.
    """

    def make_backend(self) -> Backend:
        """
        Make it.
        """
        return SecureRealBackend()


class MemoryClientTests(ClientContract, TestCase):
    """
    The endpoints on the embedded Consul in memory.
    """

    def make_backend(self) -> Backend:
        """
        Make it.
        """
        return MemoryBackend()


class HttpClientTests(ClientContract, TestCase):
    """
    The endpoints on the embedded Consul over HTTP.
    """

    def make_backend(self) -> Backend:
        """
        Make it.
        """
        return HttpBackend()


class RealClientTests(ClientContract, TestCase):
    """
    The endpoints on a real Consul.
    """

    def make_backend(self) -> Backend:
        """
        Make it.
        """
        return RealBackend()


class SecureClientTests(ClientContract, TestCase):
    """
    The endpoints on a real Consul with ACLs and TLS.
    """

    def make_backend(self) -> Backend:
        """
        Make it.
        """
        return SecureRealBackend()
