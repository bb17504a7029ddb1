"""
Between Consul's JSON and our values.  Pure.

Readers raise ``KeyError``, ``TypeError`` or ``ValueError`` on a row of another
shape; whoever calls them makes one error of these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .._collector import collector_resting
from .durations import from_go, from_json, to_go
from .model import CheckState, Entry, ServiceSpec, SessionInfo, SessionSpec


def entries_of(rows: Any) -> tuple[Entry, ...]:
    """
    Read the rows of a KV answer.
    """
    rows = rows or ()
    with collector_resting(len(rows)):
        return tuple(map(Entry.from_json, rows))


def txn_entries(rows: Any) -> tuple[Entry, ...]:
    """
    Read the results of a transaction.  Writes come back without their value.
    """
    rows = rows or ()
    with collector_resting(len(rows)):
        return tuple([Entry.from_json(row["KV"]) for row in rows])


def _names(rows: Any) -> tuple[str, ...]:
    return tuple(row["ID"] if isinstance(row, dict) else str(row) for row in rows or ())


def session_info(row: Mapping[str, Any]) -> SessionInfo:
    """
    Read a session.  Versions before 1.7 call the node checks ``Checks``.
    """
    ttl = row.get("TTL")
    return SessionInfo(
        id=str(row["ID"]),
        name=str(row.get("Name") or ""),
        node=str(row.get("Node") or ""),
        ttl=from_go(ttl) if ttl else 0.0,
        lock_delay=from_json(row.get("LockDelay")),
        behavior=str(row.get("Behavior") or ""),
        create_index=int(row.get("CreateIndex") or 0),
        service_checks=_names(row.get("ServiceChecks")),
        node_checks=_names(row.get("NodeChecks") or row.get("Checks")),
    )


def check_state(row: Mapping[str, Any]) -> CheckState:
    """
    Read a health check of the catalog.
    """
    return CheckState(
        node=str(row["Node"]),
        check_id=str(row["CheckID"]),
        status=str(row["Status"]),
        output=str(row.get("Output") or ""),
        service_id=str(row.get("ServiceID") or ""),
    )


def session_body(spec: SessionSpec) -> bytes:
    """
    Write a session's creation.

    Everything that has a default on Consul's side is sent: lock-delay, which
    would be 15 s, and the lists of checks, which would bind ``serfHealth``.
    """
    data: dict[str, Any] = {
        "Name": spec.name,
        "TTL": to_go(spec.ttl),
        "LockDelay": to_go(spec.lock_delay),
        "Behavior": spec.behavior,
        "NodeChecks": list(spec.node_checks),
        "ServiceChecks": [{"ID": check} for check in spec.service_checks],
    }
    if spec.node is not None:
        data["Node"] = spec.node
    return _written(data)


def service_body(spec: ServiceSpec) -> bytes:
    """
    Write a service's registration, with its TTL check passing: it would begin
    critical, and no session could be bound to it.
    """
    data: dict[str, Any] = {
        "ID": spec.service_id,
        "Name": spec.name,
        "Address": spec.address,
        "Port": spec.port,
        "Tags": list(spec.tags),
        "Meta": dict(spec.meta),
        "Check": {
            "CheckID": spec.check_id,
            "Name": f"{spec.name} liveness",
            "TTL": to_go(spec.check_ttl),
            "Status": "passing",
            "DeregisterCriticalServiceAfter": to_go(spec.deregister_after),
        },
    }
    return _written(data)


def _written(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode("ascii")
