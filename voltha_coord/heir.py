"""
Seeing to it that an heir leads, once leadership was handed to it.

An heir may be alive and yet not take office: it stands still, or what should
tell it hangs.  As long as it has not, the term record is as the term before left
it.  After a while whoever handed over frees the key, in one transaction that
checks that, and everybody may stand.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.internet.interfaces import IReactorTime

from ._loops import sleep
from ._types import Steps
from .consul.api import ConsulApi
from .consul.model import Entry, Op
from .consul.transport import Lane
from .errors import ConsulError, TransactionRefused
from .keys import Keys
from .term import Term

#: An heir that has not taken office after so many seconds is not waited for.
HEIR_SECONDS = 2.0

#: So often it is looked, where Consul does not answer.
LOOKS = 3


@inlineCallbacks
def see_to_heir(
    reactor: IReactorTime, api: ConsulApi, keys: Keys, term: Term, heir: str, log: Any
) -> Steps[None]:
    """
    Free the leader key if the heir of a term does not take office.

    :param term: which is over.
    :param heir: its instance id, for the log.
    :return: a Deferred that fires when that is seen to; it fails only when it is
        cancelled.
    """
    for _ in range(LOOKS):
        yield sleep(reactor, HEIR_SECONDS)
        try:
            freed: bool = yield _free(api, keys, term)
        except TransactionRefused:
            # It has just done so.
            return
        except ConsulError as error:
            log.debug("heir-not-seen-to", heir=heir, error=str(error))
            continue
        if freed:
            log.warning(
                "heir-did-not-begin",
                heir=heir,
                effect="every member that can lead may stand",
            )
        return


@inlineCallbacks
def _free(api: ConsulApi, keys: Keys, term: Term) -> Steps[bool]:
    """
    Free the leader key, if the heir of that term has it and that term is still
    the last one.

    :return: a Deferred that fires with whether that was so, or fails with
        :class:`ConsulError`.
    """
    entries: tuple[Entry, ...] = yield api.txn(
        (Op.get_tree(keys.leader), Op.get_tree(keys.term)),
        consistent=True,
        lane=Lane.SESSION,
    )
    found = {entry.key: entry for entry in entries}
    key, last = found.get(keys.leader), found.get(keys.term)
    if key is None or key.session != term.heir or last is None:
        return False
    if not term.fence.wrote(last):
        return False
    yield api.txn(
        (
            Op.check_index(key.key, key.modify_index),
            Op.check_index(last.key, last.modify_index),
            Op.delete(key.key),
        ),
        lane=Lane.SESSION,
    )
    return True
