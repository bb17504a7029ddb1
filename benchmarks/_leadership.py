"""
Who leads a cluster, seen from outside: its leader key and its term record.
"""

from __future__ import annotations

from collections.abc import Mapping

from _observer import Observer, Row

from voltha_coord.keys import Keys

#: Nobody leads for so long, in seconds.
PATIENCE = 90.0


class Leadership:
    """
    Watches both.

    :param original: whether members write no term record: then whoever holds the
        leader key leads.
    """

    def __init__(self, address: str, keys: Keys, original: bool) -> None:
        self._original = original
        self._key = Observer(address, keys.leader)
        self._term = Observer(address, keys.term)

    def close(self) -> None:
        """
        Look no more.
        """
        self._key.close()
        self._term.close()

    @property
    def session(self) -> str:
        """
        The session that holds the leader key; empty for none.
        """
        return _holder(self._key.now())

    @property
    def leader(self) -> str:
        """
        Who leads; empty for nobody.
        """
        held, said = _only(self._key.now()), _only(self._term.now())
        if held is None or not held.session:
            return ""
        if self._original:
            return held.value.decode()
        term = {} if said is None else said.json()
        leads = term.get("session") == held.session and not term.get("released")
        return str(term["holder"]) if leads else ""

    @property
    def term(self) -> tuple[str, str]:
        """
        What distinguishes this term from the next: its session and its token.
        """
        said = _only(self._term.now())
        return self.session, "" if said is None else str(said.json().get("token"))

    def freed(self, since: float, session: str) -> float:
        """
        Give when, from then on, that session did not hold the key any more.

        :raises Stuck: when that is not seen.
        """
        return self._key.first(since, lambda rows: _holder(rows) != session, PATIENCE)

    def held(self, since: float, session: str) -> float:
        """
        Give when another session than that one held it.

        :raises Stuck: when that is not seen.
        """
        return self._key.first(
            since, lambda rows: _holder(rows) not in ("", session), PATIENCE
        )

    def begun(self, since: float, session: str) -> float:
        """
        Give when the first write of a leader of another session was there.

        :raises Stuck: when that is not seen.
        """
        if self._original:
            # Its first write may change nothing: it leads when it holds the key.
            return self.held(since, session)

        def by_another(rows: Mapping[str, Row]) -> bool:
            said = _only(rows)
            return said is not None and said.json().get("session") != session

        return self._term.first(since, by_another, PATIENCE)


def _only(rows: Mapping[str, Row]) -> Row | None:
    return next(iter(rows.values()), None)


def _holder(rows: Mapping[str, Row]) -> str:
    row = _only(rows)
    return "" if row is None else row.session
