"""
``/v1/agent/`` and ``/v1/status/`` of the embedded Consul.
"""

from __future__ import annotations

from typing import Any

from ..consul.transport import Response
from .agent_checks import LocalCheck
from .answers import Fields, Problem, answer_json, answer_nothing, parse_json
from .call import Call, Routes
from .catalog import Check, Service
from .durations import SECOND, parse_duration

#: The version whose behaviour is shown.
VERSION = "1.8.7"

_STATUSES = ("passing", "warning", "critical")


def status_leader(call: Call) -> Response:
    """
    Show where the leader is; empty if there is none.
    """
    call.demand_datacenter()
    return answer_json("127.0.0.1:8300" if call.agent.reaches_leader else "")


def status_peers(call: Call) -> Response:
    """
    Show where the servers are.
    """
    return answer_json(["127.0.0.1:8300"])


def _member(call: Call, node: str) -> dict[str, Any]:
    alive = node in call.state.catalog.nodes
    return {
        "Name": node,
        "Addr": "127.0.0.1",
        "Port": 8301,
        "Tags": {"dc": "dc1", "role": "consul", "build": f"{VERSION}:"},
        "Status": 1 if alive else 3,
        "ProtocolMin": 1,
        "ProtocolMax": 5,
        "ProtocolCur": 2,
        "DelegateMin": 2,
        "DelegateMax": 5,
        "DelegateCur": 4,
    }


def agent_self(call: Call) -> Response:
    """
    Show the agent and its configuration.
    """
    return answer_json(
        {
            "Config": {
                "Datacenter": "dc1",
                "NodeName": call.agent.node,
                "NodeID": call.agent.node_id,
                "Revision": "",
                "Server": call.agent.server,
                "Version": VERSION,
            },
            "DebugConfig": {
                "ConsulRaftElectionTimeout": "52ms",
                "ConsulRaftHeartbeatTimeout": "35ms",
                "ConsulRaftLeaderLeaseTimeout": "20ms",
                "HTTPMaxConnsPerClient": 200,
                "KVMaxValueSize": 524288,
                "SessionTTLMin": "0s",
            },
            "Coord": {"Vec": [0.0] * 8, "Error": 1.5, "Adjustment": 0, "Height": 1e-05},
            "Member": _member(call, call.agent.node),
            "Stats": {"raft": {"applied_index": str(call.state.index)}},
            "Meta": {"consul-network-segment": ""},
        }
    )


def agent_members(call: Call) -> Response:
    """
    Show the nodes that gossip knows.
    """
    return answer_json([_member(call, agent.node) for agent in call.state.agents])


def _local(service: Service) -> dict[str, Any]:
    shown = service.to_json()
    kept = ["ID", "Service", "Tags", "Meta", "Port", "Address"]
    if service.address:
        kept.append("TaggedAddresses")
    kept += ["Weights", "EnableTagOverride"]
    return {name: shown[name] for name in kept}


def agent_services(call: Call) -> Response:
    """
    Show the services that are registered here.
    """
    services = sorted(call.agent.services.items())
    return answer_json(
        {service_id: _local(service) for service_id, service in services}
    )


def agent_service(call: Call) -> Response:
    """
    Show one service that is registered here.
    """
    service = call.agent.services.get(call.name)
    if service is None:
        raise Problem(404, f"unknown service ID: {call.name}")
    return answer_json(_local(service))


def agent_checks(call: Call) -> Response:
    """
    Show the checks that are registered here.
    """
    checks = sorted(call.agent.checks.items())
    return answer_json({check_id: local.check.to_json() for check_id, local in checks})


def _decode(call: Call) -> Fields:
    return Fields(parse_json(call.request.body, "Request decode failed"))


def _duration(fields: Fields, name: str) -> float:
    value = fields.raw(name)
    if value is None or value == "":
        return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / SECOND
    try:
        return parse_duration(fields.text(name)) / SECOND
    except ValueError as e:
        raise Problem(400, f"Request decode failed: {e}") from None


def _ttl(fields: Fields) -> float:
    ttl = _duration(fields, "TTL")
    if ttl <= 0:
        raise Problem(400, "Invalid check: TTL must be > 0 for TTL checks")
    return ttl


def _service_check(
    call: Call, service: Service, fields: Fields, default_id: str
) -> LocalCheck:
    status = fields.text("Status") or "critical"
    if status not in _STATUSES:
        raise Problem(400, "Status for checks must 'passing', 'warning', 'critical'")
    check = Check(
        node=call.agent.node,
        id=fields.text("CheckID") or default_id,
        name=fields.text("Name") or f"Service '{service.name}' check",
        status=status,
        notes=fields.text("Notes"),
        service_id=service.id,
        service_name=service.name,
        service_tags=service.tags,
        type="ttl",
    )
    reap_after = _duration(fields, "DeregisterCriticalServiceAfter")
    return LocalCheck(check, _ttl(fields), reap_after)


def service_register(call: Call) -> Response:
    """
    Register a service, with TTL checks.
    """
    fields = _decode(call)
    name = fields.text("Name")
    if not name:
        raise Problem(400, "Missing service name")
    service = Service(
        id=fields.text("ID") or name,
        name=name,
        address=fields.text("Address"),
        port=fields.number("Port"),
        tags=fields.texts("Tags") or (),
        meta=tuple(sorted(fields.table("Meta").items())),
    )
    rows = [] if fields.raw("Check") is None else [fields.raw("Check")]
    rows += fields.items("Checks") or []
    checks = []
    # Consul takes a check of nothing for no check.
    rows = [row for row in rows if row not in ({}, {"TTL": "0s"})]
    for number, row in enumerate(rows, 1):
        default_id = f"service:{service.id}"
        if len(rows) > 1:
            default_id += f":{number}"
        checks.append(_service_check(call, service, Fields(row), default_id))
    call.demand("service", service.name, "write")
    call.agent.put_service(service, checks)
    return answer_nothing()


def service_deregister(call: Call) -> Response:
    """
    Deregister a service with its checks.
    """
    if not call.name:
        raise Problem(500, "ServiceID missing")
    service = call.agent.services.get(call.name)
    if service is not None:
        call.demand("service", service.name, "write")
    call.agent.remove_service(call.name)
    return answer_nothing()


def check_register(call: Call) -> Response:
    """
    Register a TTL check, of the node or of a service.
    """
    fields = _decode(call)
    name = fields.text("Name")
    if not name:
        raise Problem(400, "Missing check name")
    status = fields.text("Status") or "critical"
    if status not in _STATUSES:
        raise Problem(400, "Bad check status")
    ttl = _ttl(fields)
    service_id = fields.text("ServiceID")
    service = call.agent.services.get(service_id)
    if service_id and service is None:
        raise Problem(500, f'ServiceID "{service_id}" does not exist')
    if service is None:
        call.demand("node", call.agent.node, "write")
    else:
        call.demand("service", service.name, "write")
    check = Check(
        node=call.agent.node,
        id=fields.text("ID") or fields.text("CheckID") or name,
        name=name,
        status=status,
        notes=fields.text("Notes"),
        service_id=service_id,
        service_name=service.name if service else "",
        service_tags=service.tags if service else (),
        type="ttl",
    )
    reap_after = _duration(fields, "DeregisterCriticalServiceAfter")
    call.agent.put_check(LocalCheck(check, ttl, reap_after))
    return answer_nothing()


def _demand_check(call: Call, check_id: str) -> None:
    local = call.agent.checks.get(check_id)
    if local is None:
        return
    if local.check.service_name:
        call.demand("service", local.check.service_name, "write")
    else:
        call.demand("node", call.agent.node, "write")


def check_deregister(call: Call) -> Response:
    """
    Deregister a check.
    """
    _demand_check(call, call.name)
    call.agent.remove_check(call.name)
    return answer_nothing()


def _update(call: Call, status: str, output: str) -> Response:
    _demand_check(call, call.name)
    call.agent.update(call.name, status, output)
    return answer_nothing()


def check_pass(call: Call) -> Response:
    """
    Say that all is well.
    """
    return _update(call, "passing", call.params.get("note", ""))


def check_warn(call: Call) -> Response:
    """
    Say that something is not so well.
    """
    return _update(call, "warning", call.params.get("note", ""))


def check_fail(call: Call) -> Response:
    """
    Say that nothing is well.
    """
    return _update(call, "critical", call.params.get("note", ""))


def check_update(call: Call) -> Response:
    """
    Say how it is.
    """
    fields = _decode(call)
    status = fields.text("Status")
    if status not in _STATUSES:
        raise Problem(400, f"Invalid check status: '{status}'")
    return _update(call, status, fields.text("Output"))


ROUTES: Routes = {
    "/v1/status/leader": {"GET": status_leader},
    "/v1/status/peers": {"GET": status_peers},
    "/v1/agent/self": {"GET": agent_self},
    "/v1/agent/members": {"GET": agent_members},
    "/v1/agent/services": {"GET": agent_services},
    "/v1/agent/service/": {"GET": agent_service},
    "/v1/agent/checks": {"GET": agent_checks},
    "/v1/agent/service/register": {"PUT": service_register},
    "/v1/agent/service/deregister/": {"PUT": service_deregister},
    "/v1/agent/check/register": {"PUT": check_register},
    "/v1/agent/check/deregister/": {"PUT": check_deregister},
    "/v1/agent/check/pass/": {"PUT": check_pass},
    "/v1/agent/check/warn/": {"PUT": check_warn},
    "/v1/agent/check/fail/": {"PUT": check_fail},
    "/v1/agent/check/update/": {"PUT": check_update},
}
