"""
The contract of refusals: specs 4.6, and denied reads of 4.1.
"""

from __future__ import annotations

from twisted.internet.defer import inlineCallbacks

from voltha_coord._types import Steps

from .base import ContractBase
from .calls import Answer, Calls, op, value_of

#: A token nobody made.
UNKNOWN_TOKEN = "11111111-2222-3333-4444-555555555555"


class AccessContract(ContractBase):
    """
    What a token that may do nothing gets to see.  A Consul without ACLs denies
    nothing, which each case shows there.
    """

    def _weak(self) -> Calls:
        return Calls(self.backend, self.backend.weak_token)

    @inlineCallbacks
    def test_denied_listings_look_empty(self) -> Steps[None]:
        """
        4.1, measured later: denied ``recurse``, ``keys`` and ``get-tree`` look
        as if there were nothing.
        """
        yield self.calls.put(self.key("a"), b"1")
        weak = self._weak()
        tree = yield weak.get(self.backend.prefix, recurse=True)
        names = yield weak.get(self.backend.prefix, keys=True)
        txn = yield weak.txn(op("get-tree", self.backend.prefix))

        self.assertEqual(txn.status, 200)
        if self.backend.enforces:
            self.assertEqual((tree.status, names.status), (404, 404))
            self.assertEqual(txn.json["Results"], [])
        else:
            self.assertEqual([e["Key"] for e in tree.json], [self.key("a")])

    @inlineCallbacks
    def test_denied_get_is_told(self) -> Steps[None]:
        """
        Measured later: a single read of a missing key answers 404 if allowed,
        and 403 if denied: what tells denied from empty.
        """
        mine = yield self.calls.get(self.key(".probe"))
        weak = yield self._weak().get(self.key(".probe"))

        self.assertEqual(mine.status, 404)
        self.assertEqual(weak.status, 403 if self.backend.enforces else 404)
        if self.backend.enforces:
            self.assertIn("Permission denied", weak.text)

    @inlineCallbacks
    def test_denied_writes(self) -> Steps[None]:
        """
        4.6: 403 for a write, a session and a service that are denied; a
        transaction says so for each operation.
        """
        weak = self._weak()
        write = yield weak.put(self.key("a"), b"1")
        session = yield weak.try_session()
        service = yield weak.register(self.check_id())
        txn = yield weak.txn(op("set", self.key("a"), b"2"))
        entry = yield self.calls.get(self.key("a"))

        found = [write.status, session.status, service.status, txn.status]
        if self.backend.enforces:
            self.assertEqual(found[:3], [403, 403, 403])
            self.assertIn(txn.status, (403, 409))
            self.assertIn("Permission denied", txn.text)
            self.assertEqual(entry.status, 404)
        else:
            self.assertEqual(found, [200] * 4)
            yield self.calls.deregister(self.check_id())

    @inlineCallbacks
    def test_unknown_token(self) -> Steps[None]:
        """
        4.6: 403 "ACL not found" for a token that is not known (any more), for
        reads, listings and writes alike.  Without ACLs no token is looked at,
        and the embedded Consul keeps no list of them: it denies those it is
        told to.
        """
        yield self.calls.put(self.key("a"), b"1")
        unknown = Calls(self.backend, UNKNOWN_TOKEN)
        answers: list[Answer] = []
        for asking in (
            unknown.get(self.key("a")),
            unknown.get(self.backend.prefix, recurse=True),
            unknown.put(self.key("a"), b"2"),
            unknown.txn(op("get", self.key("a"))),
            unknown.try_session(),
        ):
            answers.append((yield asking))

        if self.backend.knows_tokens:
            self.assertEqual(
                [(a.status, a.text) for a in answers], [(403, "ACL not found")] * 5
            )
        else:
            self.assertEqual([a.status for a in answers], [200] * 5)

    @inlineCallbacks
    def test_bearer(self) -> Steps[None]:
        """
        4.6: a token may come as ``Authorization: Bearer``, in any case, and
        ``X-Consul-Token`` goes first.  No other scheme carries a token.
        """
        yield self.calls.put(self.key("a"), b"1")
        good, weak = self.backend.token or "any", self.backend.weak_token or "any"

        @inlineCallbacks
        def status(**headers: str) -> Steps[int]:
            named = {name.replace("_", "-"): text for name, text in headers.items()}
            calls = Calls(self.backend, headers=named)
            answer: Answer = yield calls.get(self.key("a"))
            return answer.status

        none = yield status()
        for scheme in ("Bearer", "bearer"):
            carried = yield status(Authorization=f"{scheme} {good}")
            denied = yield status(Authorization=f"{scheme} {weak}")
            self.assertEqual(carried, 200)
            self.assertEqual(denied, 403 if self.backend.enforces else 200)
        first = yield status(Authorization=f"Bearer {weak}", X_Consul_Token=good)
        self.assertEqual(first, 200)
        for token in (good, weak):
            basic = yield status(Authorization=f"Basic {token}")
            self.assertEqual(basic, none)

    @inlineCallbacks
    def test_datacenter(self) -> Steps[None]:
        """
        4.6: ``dc`` may name the datacenter that is asked; what is meant for
        one that is not known answers 500, and is not done.
        """
        own = yield self.calls.put(self.key("a"), b"1", dc="dc1")
        read = yield self.calls.get(self.key("a"), dc="dc1")
        answers: list[Answer] = []
        for asking in (
            self.calls.get(self.key("a"), dc="none"),
            self.calls.put(self.key("a"), b"2", dc="none"),
            self.calls.delete(self.key("a"), dc="none"),
            self.calls.txn(op("set", self.key("a"), b"2"), dc="none"),
            self.calls.ask("PUT", "/v1/session/create", {"NodeChecks": []}, dc="none"),
            self.calls.ask("GET", "/v1/session/list", dc="none"),
            self.calls.ask("GET", "/v1/status/leader", dc="none"),
        ):
            answers.append((yield asking))
        entry = (yield self.calls.get(self.key("a"))).entry

        self.assertEqual((own.text, read.status), ("true", 200))
        self.assertEqual(
            [(a.status, a.text) for a in answers], [(500, "No path to datacenter")] * 7
        )
        self.assertEqual(value_of(entry), b"1")

    @inlineCallbacks
    def test_unknown_endpoint_and_method(self) -> Steps[None]:
        """
        4.6: an unknown endpoint is 404, a wrong method 405.
        """
        endpoint = yield self.calls.ask("GET", "/v1/none")
        method = yield self.calls.ask("PUT", "/v1/status/leader")

        self.assertEqual((endpoint.status, method.status), (404, 405))
