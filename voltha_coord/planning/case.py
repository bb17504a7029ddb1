"""
A state of planning by resources as a file: read, and what comes of it written.

The file is JSON: a state, or a whole case with a ``state``, a ``phase`` and what
is expected.  Bad input is an error that names the place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from .._json import dump, in_short
from ..errors import CaseError
from .actions import Action, Add, Error, Move, Null, Update
from .deployment import (
    NODE_STATES,
    Deployment,
    Node,
    Process,
    Wanted,
    shown_id,
)
from .explaining import Explained, Explanations
from .rebalance import rebalance
from .relocate import relocate
from .resources import Ledger
from .shares import Gpu, GpuShare, Resources, Share
from .synchronize import synchronize

#: The phases, in order.
PHASES = ("synchronize", "rebalance", "relocate")

_GPU_PARTS = ("memory", "usage", "encoder", "decoder")


@frozen
class Case:
    """
    A state, and the phase that is to be gone through.
    """

    deployment: Deployment
    phase: str = PHASES[0]


@frozen
class Outcome:
    """
    What a phase came to.

    :ivar document: with the fields of what a case expects.
    :ivar explained: why each operation is what it is.
    """

    document: dict[str, Any]
    explained: list[Explained] = field(factory=list)


def read_case(content: object, phase: str | None = None) -> Case:
    """
    Read a state, or a whole case.

    :param content: the JSON value.
    :param phase: in place of the one the case names.
    :raises CaseError: naming the place that cannot be read.
    """
    whole = _object("", content)
    state = whole.get("state", whole)
    named = phase or whole.get("phase", PHASES[0])
    if named not in PHASES:
        raise CaseError(f"phase: {named!r} is none of {', '.join(PHASES)}")
    return Case(_deployment(_object("state", state)), named)


def go_through(case: Case) -> Outcome:
    """
    Go through the phase of a case.
    """
    explanations = Explanations(case.deployment)
    operations: tuple[Action, ...]
    ledger: Ledger
    placements = dict(case.deployment.placements)
    done: tuple[str, ...] = ()
    if case.phase == "synchronize":
        made = synchronize(case.deployment, explain=explanations)
        operations, ledger = made.operations, made.ledger
        placements = dict(made.placements)
    elif case.phase == "rebalance":
        balanced = rebalance(case.deployment, explain=explanations)
        operations, ledger = balanced.operations, balanced.ledger
    else:
        moved = relocate(case.deployment, explain=explanations)
        operations, ledger, done = moved.operations, moved.ledger, moved.done
    placements |= {a.work: a.target for a in operations if isinstance(a, Move)}
    document = {
        "operations": [operation(action) for action in operations],
        "placements": {shown_id(w): node for w, node in sorted(placements.items())},
        "resources": {
            name: {"cpu": used.cpu, "memory": used.memory}
            for name, used in sorted(ledger.resources.items())
        },
        "done": [shown_id(work) for work in done],
    }
    return Outcome(document, explanations.all)


def operation(action: Action) -> dict[str, Any]:
    """
    Give an operation as a case shows it.
    """
    shown: dict[str, Any] = {
        "op": type(action).__name__.lower(),
        "work": shown_id(action.work),
    }
    match action:
        case Null():
            pass
        case Move(_, source, target, order):
            shown |= {"from_node": source, "to_node": target, "order": order}
        case Add(_, node, order):
            shown |= {"node": node, "order": order}
        case Update(_, node, metadata, force):
            shown |= {"node": node, "force": force, "metadata": dict(metadata)}
        case Error(_, reason):
            shown |= {"reason": reason}
        case _:
            for name in ("node", "reason"):
                if hasattr(action, name):
                    shown[name] = getattr(action, name)
    return shown


# Reading.


def _deployment(state: Mapping[str, Any]) -> Deployment:
    settings = _object("settings", state.get("settings", {}))
    timeout = settings.get("node_recover_timeout", 120)
    work = _list("work", state.get("work", []), _wanted)
    processes = _list("processes", state.get("processes", []), _process)
    _once("work", [one.id for one in work])
    nodes = _object("nodes", state.get("nodes", {}))
    return Deployment(
        nodes={name: _node(f"nodes.{name}", name, v) for name, v in nodes.items()},
        work=work,
        processes=processes,
        placements=_texts("placements", state.get("placements", {})),
        relocations=_texts("relocations", state.get("relocations", {})),
        node_recover_timeout=_number("settings.node_recover_timeout", timeout),
    )


def _node(where: str, name: str, value: object) -> Node:
    fields = _object(where, value)
    state = fields.get("state", "online")
    if state not in NODE_STATES:
        known = ", ".join(NODE_STATES)
        raise CaseError(f"{where}.state: {state!r} is none of {known}")
    age = _number(f"{where}.last_contact_age", fields.get("last_contact_age", 0))
    resources = _object(f"{where}.resources", fields.get("resources", {}))
    return Node(name, state, age, _resources(f"{where}.resources", resources))


def _resources(where: str, fields: Mapping[str, Any]) -> Resources:
    def number(name: str) -> float:
        return _number(f"{where}.{name}", fields.get(name, 0))

    error = fields.get("error")
    return Resources(
        cpu=number("cpu"),
        cpu_limit=number("cpu_limit"),
        memory=number("memory"),
        memory_limit=number("memory_limit"),
        throttling=_truth(f"{where}.throttling", fields.get("throttling", False)),
        error="" if error is None else _text(f"{where}.error", error),
        gpus=tuple(_list(f"{where}.gpus", fields.get("gpus", []), _gpu)),
    )


def _gpu(where: str, value: object) -> Gpu:
    fields = _object(where, value)
    names = (*_GPU_PARTS, "memory_limit", "usage_limit")
    return Gpu(**{n: _number(f"{where}.{n}", fields.get(n, 0)) for n in names})


def _share(where: str, value: object) -> Share:
    fields = _object(where, value)
    gpu = fields.get("gpu")
    return Share(
        _number(f"{where}.cpu", fields.get("cpu", 0), negative=True),
        _number(f"{where}.memory", fields.get("memory", 0), negative=True),
        None if gpu is None else _gpu_share(f"{where}.gpu", gpu),
    )


def _gpu_share(where: str, value: object) -> GpuShare:
    fields = _object(where, value)
    parts = {n: _number(f"{where}.{n}", fields.get(n, 0)) for n in _GPU_PARTS}
    index = fields.get("index")
    if index is not None and (isinstance(index, bool) or not isinstance(index, int)):
        raise CaseError(f"{where}.index: {in_short(index)} is not a whole number")
    # The ancestor's sign for none.
    return GpuShare(**parts, index=None if index is None or index < 0 else index)


def _wanted(where: str, value: object) -> Wanted:
    fields = _object(where, value)
    return Wanted(
        force=_truth(f"{where}.force", fields.get("force", False)),
        **_common(where, fields),
    )


def _process(where: str, value: object) -> Process:
    fields = _object(where, value)
    return Process(
        node=_text(f"{where}.node", fields.get("node")),
        state=_text(f"{where}.state", fields.get("state", "running")),
        usage=_share(f"{where}.usage", fields.get("usage", {})),
        throttling=_truth(f"{where}.throttling", fields.get("throttling", False)),
        runtime=_number(f"{where}.runtime", fields.get("runtime", 0)),
        **_common(where, fields),
    )


def _common(where: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    domain = _text(f"{where}.domain", fields.get("domain", ""))
    name = _text(f"{where}.id", fields.get("id"))
    order = fields.get("order", "start")
    if order not in ("start", "stop"):
        raise CaseError(f"{where}.order: {in_short(order)} is neither start nor stop")
    reference = _text(f"{where}.reference", fields.get("reference", ""))
    limits = _share(f"{where}.limits", fields.get("limits", {}))
    config = _canonical(f"{where}.config", fields.get("config", {}))
    metadata = _object(f"{where}.metadata", fields.get("metadata", {}))
    _canonical(f"{where}.metadata", metadata)
    return {
        "id": _bare(f"{name}@{domain}" if domain else name),
        "order": order,
        "limits": limits,
        "reference": reference,
        "description": (config, limits, reference),
        "metadata": metadata,
        "updated_at": _number(f"{where}.updated_at", fields.get("updated_at", 0)),
    }


def _canonical(where: str, value: object) -> bytes:
    """
    Give what tells one JSON value from all others: ``1`` is not ``true``.
    """
    try:
        return dump(value)
    except (TypeError, ValueError) as error:
        raise CaseError(f"{where}: no JSON: {error}") from error


def _bare(work: str) -> str:
    """
    Give a work id as it is here: without the ``@`` that stands for no domain.
    """
    return work.removesuffix("@")


def _once(where: str, ids: list[str]) -> None:
    seen: set[str] = set()
    for work in ids:
        if work in seen:
            raise CaseError(f"{where}: {shown_id(work)} is there twice")
        seen.add(work)


def _object(where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise CaseError(f"{where or 'the file'}: {in_short(value)} is not an object")
    return value


def _list(where: str, value: object, read: Callable[[str, object], Any]) -> list[Any]:
    if not isinstance(value, list):
        raise CaseError(f"{where}: {in_short(value)} is not a list")
    return [read(f"{where}[{place}]", one) for place, one in enumerate(value)]


def _texts(where: str, value: object) -> dict[str, str]:
    found = _object(where, value)
    return {_bare(n): _text(f"{where}.{n}", text) for n, text in found.items()}


def _text(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise CaseError(f"{where}: {in_short(value)} is not a text")
    return value


def _truth(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise CaseError(f"{where}: {in_short(value)} is neither true nor false")
    return value


def _number(where: str, value: object, negative: bool = False) -> float:
    """
    Take a number.  Limits may be negative, which means that there are none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CaseError(f"{where}: {in_short(value)} is not a number")
    if not math.isfinite(value):
        raise CaseError(f"{where}: {in_short(value)} is out of range")
    if value < 0 and not negative:
        raise CaseError(f"{where}: {in_short(value)} is negative")
    return value
