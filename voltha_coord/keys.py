"""
The key layout under a prefix, and what an id may look like.

Pure.  DESIGN of the keys: one :class:`Keys` for one prefix gives every key and
takes keys apart again; nothing else in the package concatenates keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from attrs import Factory, field, frozen

from .errors import ConfigurationError, InvalidIdError

#: The default prefix, the original coordinator's.
DEFAULT_PREFIX = "service/voltha"

_ID_MAX = 200
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_WORK_ID = re.compile(
    r"(?=.{1,200}\Z)[A-Za-z0-9_-][A-Za-z0-9._-]*(?:@[A-Za-z0-9_-][A-Za-z0-9._-]*)?"
)
_ID_CHARACTER = re.compile(r"[A-Za-z0-9._-]")
_SESSION_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PREFIX = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")


def _check(kind: str, value: str, parts: tuple[str, ...]) -> str:
    if not value:
        raise InvalidIdError(f"{kind}: must not be empty")
    if len(value) > _ID_MAX:
        raise InvalidIdError(
            f"{kind} {value[:40]!r}…: {len(value)} characters, at most {_ID_MAX}"
        )
    for part in parts:
        if part.startswith("."):
            raise InvalidIdError(f"{kind} {value!r}: must not begin with a dot")
        for character in part:
            if not _ID_CHARACTER.fullmatch(character):
                raise InvalidIdError(
                    f"{kind} {value!r}: character {character!r} is not allowed "
                    f"(allowed: A-Z a-z 0-9 . _ -)"
                )
    if not all(parts):
        raise InvalidIdError(f"{kind} {value!r}: nothing stands beside the '@'")
    return value


def check_instance_id(value: str) -> str:
    """
    Give the instance id back if it can be one.

    :raises InvalidIdError: naming the character that cannot stand in it.
    """
    return _check("instance id", value, (value,))


def check_work_id(value: str) -> str:
    """
    Give the work id back if it can be one: like an instance id, and once ``@``.

    :raises InvalidIdError: naming the character that cannot stand in it.
    """
    return _check("work id", value, tuple(value.split("@", 1)))


def check_lock_name(value: str) -> str:
    """
    Give the name back if it can be one of a lock: like an instance id.

    :raises InvalidIdError: naming the character that cannot stand in it.
    """
    return _check("lock name", value, (value,))


def is_instance_id(value: str) -> bool:
    """
    Whether it can be an instance id.
    """
    return _ID.fullmatch(value) is not None


def is_work_id(value: str) -> bool:
    """
    Whether it can be a work id.
    """
    return _WORK_ID.fullmatch(value) is not None


def is_lock_name(value: str) -> bool:
    """
    Whether it can be the name of a lock.
    """
    return _ID.fullmatch(value) is not None


def is_session_id(value: str) -> bool:
    """
    Whether it can be the id of a Consul session; Consul answers a question
    about anything else with an error.
    """
    return _SESSION_ID.fullmatch(value) is not None


def check_prefix(value: str) -> str:
    """
    Give the prefix back if it can be one: no slash begins or ends it.

    :raises ConfigurationError: when it cannot.
    """
    if not _PREFIX.fullmatch(value):
        raise ConfigurationError(
            f"prefix: {value!r} is not a path of names of A-Z a-z 0-9 . _ - "
            f"with single slashes between them"
        )
    return value


def shown(key: str) -> str:
    """
    Give a key from outside as it may be logged: odd characters percent-encoded.
    """
    return quote(key, safe="/@:._-", errors="surrogatepass")


def _under(name: str) -> Any:
    """
    Give a field that is a key under the prefix unless it is set by itself.
    """
    return field(
        kw_only=True,
        default=Factory(lambda keys: f"{keys.prefix}/{name}", takes_self=True),
    )


@frozen
class Keys:
    """
    Every key of one cluster.

    The four that the original coordinator has as class constants can be set
    apart from the prefix.

    :ivar prefix: without a slash at its end.
    :ivar leader: the key whose holder leads; its value is the holder's
        instance id.
    :ivar members: the prefix of the member records, with its slash.
    :ivar work: the prefix of the work items, with its slash.
    :ivar assignments: the prefix of all assignments, with its slash.
    """

    prefix: str = DEFAULT_PREFIX
    leader: str = _under("leader")
    members: str = _under("members/")
    work: str = _under("work/")
    assignments: str = _under("assignments/")

    @property
    def term(self) -> str:
        """
        The record of the term: who leads or led, under which session.
        """
        return f"{self.prefix}/term"

    @property
    def owners(self) -> str:
        """
        The prefix of the owner records, with its slash.
        """
        return f"{self.prefix}/owners/"

    @property
    def statuses(self) -> str:
        """
        The prefix of the members' status reports, with its slash.
        """
        return f"{self.prefix}/status/"

    @property
    def reports(self) -> str:
        """
        The prefix of what moves hand over, with its slash.
        """
        return f"{self.prefix}/reports/"

    @property
    def errors(self) -> str:
        """
        The prefix of why items do not run, with its slash.
        """
        return f"{self.prefix}/errors/"

    @property
    def lost(self) -> str:
        """
        The prefix of when members were first missed, with its slash.
        """
        return f"{self.prefix}/lost/"

    @property
    def intent(self) -> str:
        """
        The prefix of what operators want, with its slash.
        """
        return f"{self.prefix}/intent/"

    @property
    def freeze(self) -> str:
        """
        While this key exists, the leader plans nothing.
        """
        return f"{self.prefix}/intent/freeze"

    @property
    def locks(self) -> str:
        """
        The prefix of the named locks, with its slash.
        """
        return f"{self.prefix}/locks/"

    def lock(self, name: str) -> str:
        """
        Give the key of a named lock, which is there while somebody holds it.
        """
        return f"{self.prefix}/locks/{name}"

    def lock_trace(self, name: str) -> str:
        """
        Give the key of who held that lock last.
        """
        return f"{self.prefix}/locks/{name}/last"

    def member(self, instance_id: str) -> str:
        """
        Give the key of a member record.
        """
        return f"{self.members}{instance_id}"

    def work_item(self, work_id: str) -> str:
        """
        Give the key of a work item.
        """
        return f"{self.work}{work_id}"

    def assignments_of(self, instance_id: str) -> str:
        """
        Give the prefix of a member's assignments, with its slash.
        """
        return f"{self.assignments}{instance_id}/"

    def assignment(self, instance_id: str, work_id: str) -> str:
        """
        Give the key of one assignment.
        """
        return f"{self.assignments}{instance_id}/{work_id}"

    def owner(self, work_id: str) -> str:
        """
        Give the key of an owner record.
        """
        return f"{self.prefix}/owners/{work_id}"

    def status(self, instance_id: str, chunk: int) -> str:
        """
        Give the key of one chunk of a member's status report.
        """
        return f"{self.prefix}/status/{instance_id}/{chunk}"

    def status_of(self, instance_id: str) -> str:
        """
        Give the prefix of a member's status report, with its slash.
        """
        return f"{self.prefix}/status/{instance_id}/"

    def report(self, work_id: str) -> str:
        """
        Give the key of what a move of that item hands over.
        """
        return f"{self.prefix}/reports/{work_id}"

    def error(self, work_id: str) -> str:
        """
        Give the key of why that item does not run.
        """
        return f"{self.prefix}/errors/{work_id}"

    @property
    def transfer(self) -> str:
        """
        The key by which an operator asks for leadership to be handed over.
        """
        return f"{self.prefix}/intent/transfer"

    def lost_member(self, instance_id: str) -> str:
        """
        Give the key of since when a member is missed.
        """
        return f"{self.prefix}/lost/{instance_id}"

    def relocation(self, work_id: str) -> str:
        """
        Give the key of where operators want an item.
        """
        return f"{self.prefix}/intent/relocations/{work_id}"

    def node_intent(self, instance_id: str) -> str:
        """
        Give the key of what operators want of a member.
        """
        return f"{self.prefix}/intent/nodes/{instance_id}"

    def probe(self, name: str) -> str:
        """
        Give the :func:`probe` key of the listing of that name.
        """
        listed = {
            "members": self.members,
            "work": self.work,
            "assignments": self.assignments,
        }
        return probe(listed.get(name, f"{self.prefix}/{name}/"))


#: The original coordinator's class constants, and which key each one is.
CONSTANTS = {
    "LEADER_KEY": "leader",
    "MEMBERSHIP_PREFIX": "members",
    "ASSIGNMENT_PREFIX": "assignments",
    "WORKLOAD_PREFIX": "work",
}


def overridden(prefix: str, constants: Mapping[str, str]) -> Keys:
    """
    Give the keys with some of the original's constants set apart.

    What has no constant (the term record, owner records, reports …) lies
    beside the leader key: whoever shares that shares these.

    :param prefix: for what is not set apart.
    :param constants: by the names of :data:`CONSTANTS`.
    :raises ConfigurationError: naming the constant that cannot be one.
    """
    for name, value in constants.items():
        if name != "LEADER_KEY" and not value.endswith("/"):
            raise ConfigurationError(f"{name}: {value!r} does not end with a slash")
        try:
            check_prefix(value.removesuffix("/"))
        except ConfigurationError as error:
            raise ConfigurationError(f"{name}: {error}") from error
    leader = constants.get("LEADER_KEY")
    if leader is not None:
        parent, _, _ = leader.rpartition("/")
        if not parent:
            raise ConfigurationError(f"LEADER_KEY: {leader!r} lies under no prefix")
        prefix = parent
    return Keys(prefix, **{CONSTANTS[name]: key for name, key in constants.items()})


def probe(prefix: str) -> str:
    """
    Give a key that never exists under a prefix that ends with a slash.

    A GET of it tells an empty listing (404) from a denied one (403).
    """
    return f"{prefix}.probe"
