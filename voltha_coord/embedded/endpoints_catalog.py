"""
``/v1/catalog/`` and ``/v1/health/`` of the embedded Consul.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

from ..consul.transport import Response
from .answers import Fields, Problem, answer_json, parse_json
from .call import Call, Found, Routes
from .catalog import Check, Node, Service

_LEADER = {"x-consul-effective-consistency": "leader"}


def _read(call: Call, find: Callable[[], Found]) -> Response | Deferred[Response]:
    return call.read(find, lambda: [call.state.watch_catalog()], _LEADER)


def _name(call: Call, what: str) -> str:
    if not call.name:
        raise Problem(400, f"Missing {what}")
    return call.name


def _visible(call: Call, check: Check) -> bool:
    if check.service_name:
        return not call.denied("service", check.service_name, "read")
    return not call.denied("node", check.node, "read")


def _checks(
    call: Call, wanted: Callable[[Check], bool]
) -> Response | Deferred[Response]:
    catalog = call.state.catalog

    def find() -> Found:
        shown = [
            check.to_json()
            for _, check in sorted(call.state.catalog.checks.items())
            if wanted(check) and _visible(call, check)
        ]
        return max(catalog.node_index, catalog.check_index), answer_json(shown)

    return _read(call, find)


def health_node(call: Call) -> Response | Deferred[Response]:
    """
    Show the checks of a node.
    """
    node = _name(call, "node name")
    return _checks(call, lambda check: check.node == node)


def health_checks(call: Call) -> Response | Deferred[Response]:
    """
    Show the checks of a service.
    """
    name = _name(call, "service name")
    return _checks(call, lambda check: check.service_name == name)


def health_state(call: Call) -> Response | Deferred[Response]:
    """
    Show the checks of a status.
    """
    status = _name(call, "check state")
    return _checks(call, lambda check: status in ("any", check.status))


def _services(call: Call, name: str) -> list[tuple[str, Service]]:
    if call.denied("service", name, "read"):
        return []
    return [
        (node, service)
        for (node, _), service in sorted(call.state.catalog.services.items())
        if service.name == name
    ]


def health_service(call: Call) -> Response | Deferred[Response]:
    """
    Show a service with its nodes and checks.
    """
    name = _name(call, "service name")
    text = call.params.get("passing", "false") or "true"
    if text not in ("true", "false", "1", "0", "t", "f", "T", "F", "True", "False"):
        raise Problem(400, "Invalid value for ?passing")
    passing = text[0] in "1tT"
    tag = call.params.get("tag")
    state = call.state

    def find() -> Found:
        catalog = state.catalog
        shown = []
        for node, service in _services(call, name):
            checks = [
                *catalog.checks_of(node, service.id),
                *catalog.checks_of(node, ""),
            ]
            checks.sort(key=lambda check: check.id)
            if passing and any(check.status != "passing" for check in checks):
                continue
            if tag and tag not in service.tags:
                continue
            shown.append(
                {
                    "Node": catalog.nodes[node].to_json(),
                    "Service": service.to_json(),
                    "Checks": [check.to_json() for check in checks],
                }
            )
        return catalog.index_of_service(name), answer_json(shown)

    return _read(call, find)


def catalog_nodes(call: Call) -> Response | Deferred[Response]:
    """
    Show all nodes.
    """
    state = call.state

    def find() -> Found:
        shown = [
            node.to_json()
            for name, node in sorted(state.catalog.nodes.items())
            if not call.denied("node", name, "read")
        ]
        return state.catalog.node_index, answer_json(shown)

    return _read(call, find)


def catalog_services(call: Call) -> Response | Deferred[Response]:
    """
    Show the names of all services, with their tags.
    """
    state = call.state

    def find() -> Found:
        tags: dict[str, dict[str, None]] = {}
        for _, service in sorted(state.catalog.services.items()):
            if not call.denied("service", service.name, "read"):
                tags.setdefault(service.name, {}).update(dict.fromkeys(service.tags))
        shown = {name: list(found) for name, found in sorted(tags.items())}
        return state.catalog.service_index, answer_json(shown)

    return _read(call, find)


def catalog_service(call: Call) -> Response | Deferred[Response]:
    """
    Show where a service is.
    """
    name, state = _name(call, "service name"), call.state

    def find() -> Found:
        shown = []
        for where, service in _services(call, name):
            node = state.catalog.nodes[where].to_json("NodeMeta")
            shown.append(
                {
                    **node,
                    "ServiceKind": "",
                    "ServiceID": service.id,
                    "ServiceName": service.name,
                    "ServiceTags": list(service.tags),
                    "ServiceAddress": service.address,
                    "ServiceTaggedAddresses": service.tagged_addresses(),
                    "ServiceWeights": {"Passing": 1, "Warning": 1},
                    "ServiceMeta": dict(service.meta),
                    "ServicePort": service.port,
                    "ServiceEnableTagOverride": False,
                    "CreateIndex": service.create_index,
                    "ModifyIndex": service.modify_index,
                }
            )
        return state.catalog.index_of_service(name), answer_json(shown)

    return _read(call, find)


def catalog_node(call: Call) -> Response | Deferred[Response]:
    """
    Show a node with its services.
    """
    name, state = _name(call, "node name"), call.state

    def find() -> Found:
        node = state.catalog.nodes.get(name)
        if node is None or call.denied("node", name, "read"):
            return state.catalog.index, answer_json(None)
        services = state.catalog.services_of(name)
        shown = {
            "Node": node.to_json(),
            "Services": {service.id: service.to_json() for service in services},
        }
        return state.catalog.index, answer_json(shown)

    return _read(call, find)


def catalog_datacenters(call: Call) -> Response:
    """
    Show the names of the datacenters.
    """
    return answer_json(["dc1"])


def catalog_register(call: Call) -> Response:
    """
    Put a node that has no agent into the catalog.
    """
    fields = Fields(parse_json(call.request.body, "Request decode failed"))
    call.demand_datacenter(fields.text("Datacenter"))
    node, address = fields.text("Node"), fields.text("Address")
    if not node:
        raise Problem(500, "Must provide node")
    if not address:
        raise Problem(500, "Must provide address if SkipNodeUpdate is not set")
    call.demand("node", node, "write")
    call.state.put_back_node(Node(node, fields.text("ID"), address))
    return answer_json(True)


def catalog_deregister(call: Call) -> Response:
    """
    Take a node, a service or a check out of the catalog alone.
    """
    fields = Fields(parse_json(call.request.body, "Request decode failed"))
    call.demand_datacenter(fields.text("Datacenter"))
    node = fields.text("Node")
    if not node:
        raise Problem(500, "Must provide node")
    call.demand("node", node, "write")
    service_id, check_id = fields.text("ServiceID"), fields.text("CheckID")
    if node not in call.state.catalog.nodes:
        return answer_json(True)
    if service_id:
        call.state.remove_service(service_id, node)
    elif check_id:
        call.state.remove_check(check_id, node)
    else:
        call.state.deregister_node(node)
    return answer_json(True)


ROUTES: Routes = {
    "/v1/health/node/": {"GET": health_node},
    "/v1/health/checks/": {"GET": health_checks},
    "/v1/health/state/": {"GET": health_state},
    "/v1/health/service/": {"GET": health_service},
    "/v1/catalog/nodes": {"GET": catalog_nodes},
    "/v1/catalog/services": {"GET": catalog_services},
    "/v1/catalog/service/": {"GET": catalog_service},
    "/v1/catalog/node/": {"GET": catalog_node},
    "/v1/catalog/datacenters": {"GET": catalog_datacenters},
    "/v1/catalog/register": {"PUT": catalog_register},
    "/v1/catalog/deregister": {"PUT": catalog_deregister},
}
