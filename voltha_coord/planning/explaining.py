"""
Why a plan is what it is, for people: why this node, and why not the others.

The planners tell of each operation before it is counted (``explain``), so what
is said of the nodes here is what they use by then, with all that was decided
before.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from .actions import Action, Add, Move, Reject, Skip
from .affinity import Affinity
from .deployment import Deployment, domain_of
from .opening import in_order
from .resources import Ledger
from .shares import Share

#: Why the node of an operation is the one.
WITH_REFERENCE = "it has room, and items of the same reference"
WANTED_THERE = "it has room, and is where the item is wanted"
LEAST_USED = "of those with room it uses the least cpu, then the least memory"

#: Why another node is not.
ITSELF = "it is there, and is to go"
MORE_USED = "it has room, and uses more"
FEWER = "it has room, and no items of the same reference, or fewer"
NOT_WANTED_THERE = "it has room, and is not where the item is wanted"

_INSTEAD = {
    WITH_REFERENCE: FEWER,
    WANTED_THERE: NOT_WANTED_THERE,
    LEAST_USED: MORE_USED,
}


@frozen
class Explained:
    """
    An operation, and why it is this one.

    :ivar why: why its node is the one; empty where it has none.
    :ivar why_not: why each of the other nodes is not, by id.
    """

    action: Action
    why: str = ""
    why_not: Mapping[str, str] = field(factory=dict)


class Explanations:
    """
    Collects what there is to say of the operations of one plan; to be given to
    planners as what they tell.

    :ivar all: in the order in which it was decided.

    :param deployment: what is planned on.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._limits = {p.id: p.limits for p in reversed(in_order(deployment))}
        self._references = {p.id: p.reference for p in deployment.processes}
        for wanted in deployment.work:
            self._limits.setdefault(wanted.id, wanted.limits)
            self._references.setdefault(wanted.id, wanted.reference)
        self._nodes = sorted(deployment.nodes)
        self._relocations = deployment.relocations
        self._affinity = Affinity(in_order(deployment))
        self.all: list[Explained] = []

    def __call__(self, action: Action, ledger: Ledger) -> None:
        """
        Note what there is to say of an operation, as things stand now.
        """
        self.all.append(self._explained(action, ledger))

    def _explained(self, action: Action, ledger: Ledger) -> Explained:
        work = action.work
        limits = self._limits.get(work, Share())
        match action:
            case Add(_, node):
                why = self._why(work, node)
                self._affinity.add(self._references[work], domain_of(work), node)
                return Explained(action, why, self._why_not(limits, ledger, node, why))
            case Move(_, source, target):
                why = self._why(work, target)
                if self._relocations.get(work) == target:
                    why = WANTED_THERE
                others = self._why_not(limits, ledger, target, why)
                return Explained(action, why, {**others, source: ITSELF})
            case Skip(_, node):
                others = self._why_not(limits, ledger, "")
                return Explained(action, "", {**others, node: ITSELF})
            case Reject() if min(limits.cpu, limits.memory) > 0:
                return Explained(action, "", self._why_not(limits, ledger, ""))
        return Explained(action)

    def _why(self, work: str, node: str) -> str:
        reference, domain = self._references[work], domain_of(work)
        with_reference = node in self._affinity.nodes(reference, domain)
        return WITH_REFERENCE if with_reference else LEAST_USED

    def _why_not(
        self, limits: Share, ledger: Ledger, chosen: str, why: str = LEAST_USED
    ) -> dict[str, str]:
        return {
            node: ledger.why_not(node, limits) or _INSTEAD[why]
            for node in self._nodes
            if node != chosen
        }
