"""
The contract of sessions: specs 4.2.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred, inlineCallbacks

from voltha_coord._types import Steps

from .base import ContractBase
from .calls import op
from .kv import NO_SESSION


class SessionContract(ContractBase):
    """
    Creating, renewing and ending sessions, and the lock-delay.
    """

    @inlineCallbacks
    def test_defaults(self) -> Steps[None]:
        """
        4.2: without a wish a session is on the agent's node, bound to
        serfHealth, releases, has 15 s of lock-delay and no TTL.
        """
        created = yield self.calls.ask("PUT", "/v1/session/create")
        info = yield self.calls.ask("GET", f"/v1/session/info/{created.json['ID']}")

        (session,) = info.json
        self.assertEqual(
            {name: session[name] for name in ("Node", "NodeChecks", "LockDelay")},
            {
                "Node": self.backend.node,
                "NodeChecks": ["serfHealth"],
                "LockDelay": 15_000_000_000,
            },
        )
        self.assertEqual((session["Behavior"], session["TTL"]), ("release", ""))
        yield self.calls.destroy(session["ID"])

    @inlineCallbacks
    def test_wishes(self) -> Steps[None]:
        """
        4.2: every wish is kept; an empty list of node checks removes
        serfHealth.
        """
        session_id = yield self.calls.session(
            Name="m1", TTL="15s", LockDelay="1500ms", Behavior="delete"
        )
        info = yield self.calls.ask("GET", f"/v1/session/info/{session_id}")

        (session,) = info.json
        self.assertEqual(session["ID"], session_id)
        self.assertEqual(session["NodeChecks"], [])
        self.assertEqual(
            (session["Name"], session["TTL"], session["Behavior"]),
            ("m1", "15s", "delete"),
        )
        self.assertEqual(session["LockDelay"], 1_500_000_000)

    @inlineCallbacks
    def test_ttl_bounds(self) -> Steps[None]:
        """
        4.2: a TTL below 10 s or above 24 h is refused, in words that name the
        bounds; one without a unit as well; 0 s is none.
        """
        short = yield self.calls.try_session(TTL="9s")
        long = yield self.calls.try_session(TTL="86401s")
        bare = yield self.calls.try_session(TTL="10")
        none = yield self.calls.try_session(TTL="0s")

        self.assertEqual((short.status, long.status, bare.status), (500, 500, 500))
        self.assertEqual(
            short.text,
            "Invalid Session TTL '9000000000', must be between [10s=24h0m0s]",
        )
        self.assertIn("missing unit in duration", bare.text)
        self.assertEqual(none.status, 200)
        yield self.calls.destroy(none.json["ID"])

    @inlineCallbacks
    def test_renew(self) -> Steps[None]:
        """
        4.2: a renewal answers the session; of one that is over, 404.
        """
        session_id = yield self.calls.session()
        renewed = yield self.calls.ask("PUT", f"/v1/session/renew/{session_id}")
        yield self.calls.destroy(session_id)
        gone = yield self.calls.ask("PUT", f"/v1/session/renew/{session_id}")

        self.assertEqual([s["ID"] for s in renewed.json], [session_id])
        self.assertEqual(
            (gone.status, gone.text), (404, f"Session id '{session_id}' not found")
        )

    @inlineCallbacks
    def test_destroy(self) -> Steps[None]:
        """
        4.2: destroying answers true, also for a session that never was; what
        cannot be an id is refused.
        """
        session_id = yield self.calls.session()
        first = yield self.calls.destroy(session_id)
        again = yield self.calls.destroy(session_id)
        never = yield self.calls.destroy(NO_SESSION)

        self.assertEqual(
            [(a.status, a.text) for a in (first, again, never)], [(200, "true")] * 3
        )
        alive = yield self.calls.alive(session_id)
        self.assertFalse(alive)

    @inlineCallbacks
    def test_malformed_id(self) -> Steps[None]:
        """
        4.2: what cannot be a session id answers 500.
        """
        answer = yield self.calls.ask("GET", "/v1/session/info/no-uuid")

        self.assertEqual(answer.status, 500)

    @inlineCallbacks
    def test_info_of_unknown(self) -> Steps[None]:
        """
        4.2: a session that is not there shows as an empty list.
        """
        answer = yield self.calls.ask("GET", f"/v1/session/info/{NO_SESSION}")

        self.assertEqual((answer.status, answer.json), (200, []))

    @inlineCallbacks
    def test_lists(self) -> Steps[None]:
        """
        4.2: a session is in the list of all and in that of its node.
        """
        session_id = yield self.calls.session()
        everywhere = yield self.calls.ask("GET", "/v1/session/list")
        here = yield self.calls.ask("GET", f"/v1/session/node/{self.backend.node}")
        elsewhere = yield self.calls.ask("GET", "/v1/session/node/none")

        for answer in (everywhere, here):
            self.assertIn(session_id, [s["ID"] for s in answer.json])
        self.assertEqual(elsewhere.json, [])

    @inlineCallbacks
    def test_node_deregistered(self) -> Steps[None]:
        """
        4.2: a node that is taken out of the catalog ends its sessions, which
        frees what they held; others stay.
        """
        node = {"Node": self.check_id("node"), "Address": "192.0.2.1"}

        def deregister() -> Deferred[None]:
            return self.backend.administer("PUT", "/v1/catalog/deregister", node)

        yield self.backend.administer("PUT", "/v1/catalog/register", node)
        self.addCleanup(deregister)
        mine = yield self.calls.session(Node=node["Node"], Behavior="delete")
        other = yield self.calls.session()
        yield self.calls.put(self.key("a"), b"1", acquire=mine)
        before = yield self.calls.alive(mine)
        yield deregister()
        after = yield self.calls.alive(mine)
        stays = yield self.calls.alive(other)
        key = yield self.calls.get(self.key("a"))

        self.assertEqual((before, after, stays), (True, False, True))
        self.assertEqual(key.status, 404)

    @inlineCallbacks
    def test_lock_delay_units(self) -> Steps[None]:
        """
        4.2: a lock-delay below 1000 is seconds, above nanoseconds; 0 is 0.
        """
        found = []
        for wish in (0, 1, 1000, "1s", "999ns", "90s"):
            session_id = yield self.calls.session(LockDelay=wish)
            info = yield self.calls.ask("GET", f"/v1/session/info/{session_id}")
            found.append(info.json[0]["LockDelay"])

        second = 1_000_000_000
        self.assertEqual(found, [0, second, 1000, second, 999 * second, 90 * second])

    @inlineCallbacks
    def test_refused_wishes(self) -> Steps[None]:
        """
        4.2: an unknown behaviour, node or check is refused, in words of its
        own.
        """
        behaviour = yield self.calls.try_session(Behavior="keep")
        check = yield self.calls.try_session(NodeChecks=["none"])
        service = yield self.calls.try_session(ServiceChecks=[{"ID": "none"}])

        self.assertEqual(
            [(a.status, a.text) for a in (behaviour, check, service)],
            [
                (500, "Invalid Behavior setting 'keep'"),
                (500, "Missing check 'none' registration"),
                (500, "Missing check 'none' registration"),
            ],
        )

    @inlineCallbacks
    def test_behaviours(self) -> Steps[None]:
        """
        4.2: at the end of a session its keys are freed, or deleted.
        """
        frees = yield self.calls.session(Behavior="release")
        deletes = yield self.calls.session(Behavior="delete")
        yield self.calls.put(self.key("freed"), b"v", acquire=frees)
        yield self.calls.put(self.key("deleted"), b"v", acquire=deletes)
        before = (yield self.calls.get(self.key("freed"))).entry
        yield self.calls.destroy(frees)
        yield self.calls.destroy(deletes)
        freed = yield self.calls.get(self.key("freed"))
        deleted = yield self.calls.get(self.key("deleted"))

        self.assertNotIn("Session", freed.entry)
        self.assertGreater(freed.entry["ModifyIndex"], before["ModifyIndex"])
        self.assertEqual(deleted.status, 404)

    @inlineCallbacks
    def test_lock_delay(self) -> Steps[None]:
        """
        4.2: a session ended by force leaves a lock-delay on its keys, with
        both behaviours, and no longer than it asked for.
        """
        other = yield self.calls.session()
        for behaviour in ("release", "delete"):
            mine = yield self.calls.session(LockDelay="500ms", Behavior=behaviour)
            key = self.key(behaviour)
            yield self.calls.put(key, b"1", acquire=mine)
            yield self.calls.destroy(mine)
            early = yield self.calls.put(key, b"2", acquire=other)
            yield self.backend.wait(0.6)
            late = yield self.calls.put(key, b"2", acquire=other)

            self.assertEqual((early.text, late.text), ("false", "true"), behaviour)

    @inlineCallbacks
    def test_lock_delay_hinders_locking_only(self) -> Steps[None]:
        """
        4.2: within a lock-delay the key may be written and deleted, which does
        not end it.
        """
        mine = yield self.calls.session(LockDelay="15s")
        other = yield self.calls.session()
        key = self.key("a")
        yield self.calls.put(key, b"1", acquire=mine)
        yield self.calls.destroy(mine)
        written = yield self.calls.put(key, b"2")
        yield self.calls.delete(key)
        taken = yield self.calls.put(key, b"3", acquire=other)

        self.assertEqual((written.text, taken.text), ("true", "false"))

    @inlineCallbacks
    def test_no_lock_delay_after_release(self) -> Steps[None]:
        """
        4.2: released first, then destroyed: no lock-delay.
        """
        mine = yield self.calls.session(LockDelay="15s")
        other = yield self.calls.session()
        key = self.key("a")
        yield self.calls.put(key, b"1", acquire=mine)
        yield self.calls.put(key, b"1", release=mine)
        yield self.calls.destroy(mine)
        taken = yield self.calls.put(key, b"2", acquire=other)

        self.assertEqual(taken.text, "true")

    @inlineCallbacks
    def test_transaction_names_the_lock_delay(self) -> Steps[None]:
        """
        4.3: a transaction tells a lock-delay from a key that is held, and
        reports it alone: other operations are not judged then.
        """
        mine = yield self.calls.session(LockDelay="15s")
        other = yield self.calls.session()
        key, held = self.key("a"), self.key("held")
        yield self.calls.put(key, b"1", acquire=mine)
        yield self.calls.put(held, b"1", acquire=other)
        yield self.calls.destroy(mine)
        mine = yield self.calls.session()
        delayed = yield self.calls.txn(
            op("check-index", self.key("none"), index=1),
            op("lock", key, b"2", session=other),
        )
        busy = yield self.calls.txn(op("lock", held, b"2", session=mine))

        self.assertEqual((delayed.status, busy.status), (409, 409))
        self.assertEqual(
            delayed.json["Errors"],
            [{"OpIndex": 1, "What": f'failed to lock key "{key}" due to lock delay'}],
        )
        self.assertIn("lock is already held", busy.json["Errors"][0]["What"])
