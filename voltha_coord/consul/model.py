"""
What Consul's answers and a transaction's operations look like to us.

Frozen values and nothing else: no request is made here.
"""

from __future__ import annotations

import base64
from binascii import a2b_base64
from collections.abc import Mapping
from typing import Any, NamedTuple

from attrs import field, frozen


class Entry(NamedTuple):
    """
    One key as Consul stores it.

    A named tuple, because a leader reads hundreds of thousands of them at a
    time, and they are made three times as fast as other frozen values.

    :ivar key: the whole key.
    :ivar value: its bytes; empty when Consul holds no value.
    :ivar flags: the application's unsigned 64-bit number.
    :ivar create_index: Raft index of its creation.
    :ivar modify_index: Raft index of its last real change: what ``cas`` takes.
    :ivar lock_index: never a fencing token: plain writes reset it.
    :ivar session: id of the session that holds it, ``None`` when free.
    """

    key: str
    value: bytes = b""
    flags: int = 0
    create_index: int = 0
    modify_index: int = 0
    lock_index: int = 0
    session: str | None = None

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Entry:
        """
        Make an entry of one row of Consul's JSON.

        :raises KeyError, TypeError, ValueError: when it is not such a row.
        """
        key, value = row["Key"], row.get("Value")
        index, flags = row.get("ModifyIndex", 0), row.get("Flags", 0)
        if type(key) is not str or type(index) is not int or type(flags) is not int:
            raise TypeError(f"{key!r}: an index or flags that are no number")
        return cls(
            key,
            a2b_base64(value, strict_mode=True) if value else b"",
            flags,
            row.get("CreateIndex", 0),
            index,
            row.get("LockIndex", 0),
            row.get("Session"),
        )


@frozen
class Reading:
    """
    What a read found.

    :ivar index: ``X-Consul-Index``, at least 1: where the next watch starts.
    :ivar entries: what was found, in key order; empty for nothing (or denied:
        Consul's listings do not tell the two apart).
    """

    index: int
    entries: tuple[Entry, ...] = ()

    @property
    def entry(self) -> Entry | None:
        """
        The one entry of a read of one key, ``None`` when the key is missing.
        """
        return self.entries[0] if self.entries else None


@frozen
class KeyNames:
    """
    What a read of key names found.

    :ivar index: as in :class:`Reading`.
    :ivar names: the keys, in order.
    """

    index: int
    names: tuple[str, ...] = ()


@frozen
class Op:
    """
    One KV operation of a transaction.  Made by the class methods.
    """

    verb: str
    key: str
    value: bytes | None = None
    index: int | None = None
    session: str | None = None
    flags: int = 0

    @classmethod
    def set(cls, key: str, value: bytes) -> Op:
        """
        Write, whatever is there; a holder's session stays.
        """
        return cls("set", key, value=value)

    @classmethod
    def cas(cls, key: str, value: bytes, index: int) -> Op:
        """
        Write if its ModifyIndex is ``index``; 0 means if it does not exist.
        """
        return cls("cas", key, value=value, index=index)

    @classmethod
    def lock(cls, key: str, value: bytes, session: str) -> Op:
        """
        Acquire for ``session`` and write.
        """
        return cls("lock", key, value=value, session=session)

    @classmethod
    def unlock(cls, key: str, value: bytes, session: str) -> Op:
        """
        Release from ``session`` and write.  No lock-delay follows.
        """
        return cls("unlock", key, value=value, session=session)

    @classmethod
    def get(cls, key: str) -> Op:
        """
        Read one key; a missing one refuses the transaction.
        """
        return cls("get", key)

    @classmethod
    def get_tree(cls, prefix: str) -> Op:
        """
        Read all keys under a prefix; none is no error, nor is a denied one.
        """
        return cls("get-tree", prefix)

    @classmethod
    def check_index(cls, key: str, index: int) -> Op:
        """
        Refuse unless the key's ModifyIndex is ``index``.
        """
        return cls("check-index", key, index=index)

    @classmethod
    def check_session(cls, key: str, session: str) -> Op:
        """
        Refuse unless ``session`` holds the key.
        """
        return cls("check-session", key, session=session)

    @classmethod
    def check_not_exists(cls, key: str) -> Op:
        """
        Refuse if the key exists.
        """
        return cls("check-not-exists", key)

    @classmethod
    def delete(cls, key: str) -> Op:
        """
        Delete; a missing key is no error.
        """
        return cls("delete", key)

    @classmethod
    def delete_cas(cls, key: str, index: int) -> Op:
        """
        Delete if its ModifyIndex is ``index``.
        """
        return cls("delete-cas", key, index=index)

    @classmethod
    def delete_tree(cls, prefix: str) -> Op:
        """
        Delete all keys under a prefix.
        """
        return cls("delete-tree", prefix)

    def to_json(self) -> dict[str, Any]:
        """
        Give the operation as Consul's transaction endpoint takes it.
        """
        kv: dict[str, Any] = {"Verb": self.verb, "Key": self.key}
        if self.value is not None:
            kv["Value"] = base64.b64encode(self.value).decode("ascii")
        if self.index is not None:
            kv["Index"] = self.index
        if self.session is not None:
            kv["Session"] = self.session
        if self.flags:
            kv["Flags"] = self.flags
        return {"KV": kv}


@frozen
class SessionSpec:
    """
    The session to create.

    :ivar name: for people, in ``consul`` listings.
    :ivar ttl: seconds.
    :ivar lock_delay: seconds, always sent.
    :ivar behavior: ``delete`` or ``release``.
    :ivar service_checks: ids of service checks to bind, in full.
    :ivar node_checks: ids of node checks to bind, in full; none by default,
        so that ``serfHealth`` is not bound unless named.
    :ivar node: the node to make it on; ``None`` is the agent's own.
    """

    name: str
    ttl: float
    lock_delay: float
    behavior: str = "delete"
    service_checks: tuple[str, ...] = ()
    node_checks: tuple[str, ...] = ()
    node: str | None = None


@frozen
class SessionInfo:
    """
    A session as Consul knows it.

    :ivar ttl: seconds; a renewal may answer with more than was asked for.
    """

    id: str
    name: str = ""
    node: str = ""
    ttl: float = 0.0
    lock_delay: float = 0.0
    behavior: str = ""
    create_index: int = 0
    service_checks: tuple[str, ...] = ()
    node_checks: tuple[str, ...] = ()


@frozen
class CheckState:
    """
    A health check as the catalog has it.

    :ivar status: passing, warning or critical.
    :ivar output: the agent's words; ``TTL expired…`` when its timer fired.
    """

    node: str
    check_id: str
    status: str
    output: str = ""
    service_id: str = ""


@frozen
class ServiceSpec:
    """
    The service that carries a member's liveness check.

    :ivar service_id: unique on the agent.
    :ivar name: the service's name in the catalog.
    :ivar check_id: id of its TTL check.
    :ivar check_ttl: seconds after which an unpassed check turns critical.
    :ivar deregister_after: seconds of critical after which the agent removes
        the service.
    """

    service_id: str
    name: str
    check_id: str
    check_ttl: float
    address: str = ""
    port: int = 0
    deregister_after: float = 60.0
    tags: tuple[str, ...] = ()
    meta: Mapping[str, str] = field(factory=dict)
