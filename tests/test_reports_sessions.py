"""
What users of such systems reported about sessions: one was kept alive, and not the
other that something else hung on.
"""

from __future__ import annotations

from voltha_coord.settings import Settings

from .support.working import ClusterCase

SETTINGS = Settings()


class OneSessionTests(ClusterCase):
    """
    All that a process holds.
    """

    def test_holds_everything(self) -> None:
        """
        Leader key, member record and status report of a process are held by one
        session, the only one it has, and its owner records name it: whatever keeps
        one of them keeps all, for ten TTLs and more (field report 9).
        """
        a = self.member("a")
        self.cluster.put_work("w1", "w2")
        self.cluster.until(lambda: self.cluster.reported("a") == {"w1", "w2"})
        session = a.session_id

        self.advance(10 * SETTINGS.session_ttl)

        held = {e.key: e.session for e in self.cluster.entries("") if e.session}
        status = self.keys.status("a", 0)
        keys = {self.keys.leader, a.membership_record_key, status}
        self.assertEqual(held, dict.fromkeys(keys, session))
        self.assertEqual([s.id for s in self.cluster.consul.sessions.all()], [session])
        records = self.cluster.entries(self.keys.owners)
        self.assertEqual(len(records), 2)
        for record in records:
            self.assertIn(str(session).encode(), record.value)
        self.assertTrue(a.is_leader)
        self.assertEqual(self.runners["a"].asked("stop"), [])
