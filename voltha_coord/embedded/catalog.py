"""
The embedded Consul's catalog: nodes, their services, their checks.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve, field, frozen

#: The check that says whether a node's agent is reachable.
SERF_HEALTH = "serfHealth"


@frozen
class Node:
    """
    A machine with an agent.
    """

    name: str
    id: str
    address: str = "127.0.0.1"
    create_index: int = 0
    modify_index: int = 0

    def to_json(self, meta: str = "Meta") -> dict[str, Any]:
        """
        Give it as Consul shows it; ``meta`` names the field of that name.
        """
        tagged = ("lan", "lan_ipv4", "wan", "wan_ipv4")
        return {
            "ID": self.id,
            "Node": self.name,
            "Address": self.address,
            "Datacenter": "dc1",
            "TaggedAddresses": dict.fromkeys(tagged, self.address),
            meta: {"consul-network-segment": ""},
            "CreateIndex": self.create_index,
            "ModifyIndex": self.modify_index,
        }


@frozen
class Service:
    """
    A service on a node.
    """

    id: str
    name: str
    address: str = ""
    port: int = 0
    tags: tuple[str, ...] = ()
    meta: tuple[tuple[str, str], ...] = ()
    create_index: int = field(default=0, eq=False)
    modify_index: int = field(default=0, eq=False)

    def tagged_addresses(self) -> dict[str, Any]:
        """
        Give the field of that name, empty without an address.
        """
        if not self.address:
            return {}
        one = {"Address": self.address, "Port": self.port}
        return {"lan_ipv4": one, "wan_ipv4": one}

    def to_json(self) -> dict[str, Any]:
        """
        Give it as Consul shows it in the catalog and in health.
        """
        return {
            "ID": self.id,
            "Service": self.name,
            "Tags": list(self.tags),
            "Address": self.address,
            "TaggedAddresses": self.tagged_addresses(),
            "Meta": dict(self.meta),
            "Port": self.port,
            "Weights": {"Passing": 1, "Warning": 1},
            "EnableTagOverride": False,
            "Proxy": {"MeshGateway": {}, "Expose": {}},
            "Connect": {},
            "CreateIndex": self.create_index,
            "ModifyIndex": self.modify_index,
        }


@frozen
class Check:
    """
    A health check.
    """

    node: str
    id: str
    name: str
    status: str = "critical"
    output: str = ""
    notes: str = ""
    service_id: str = ""
    service_name: str = ""
    service_tags: tuple[str, ...] = ()
    type: str = ""
    create_index: int = field(default=0, eq=False)
    modify_index: int = field(default=0, eq=False)

    def to_json(self) -> dict[str, Any]:
        """
        Give it as Consul shows it.
        """
        return {
            "Node": self.node,
            "CheckID": self.id,
            "Name": self.name,
            "Status": self.status,
            "Notes": self.notes,
            "Output": self.output,
            "ServiceID": self.service_id,
            "ServiceName": self.service_name,
            "ServiceTags": list(self.service_tags),
            "Type": self.type,
            "Definition": {},
            "CreateIndex": self.create_index,
            "ModifyIndex": self.modify_index,
        }


class Catalog:
    """
    What the servers know of nodes, services and checks.

    :ivar nodes: by name.
    :ivar services: by node and service id.
    :ivar checks: by node and check id.
    :ivar node_index, service_index, check_index: of the last change of each.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.services: dict[tuple[str, str], Service] = {}
        self.checks: dict[tuple[str, str], Check] = {}
        self.node_index = self.service_index = self.check_index = 0
        self._service_indexes: dict[str, int] = {}

    @property
    def index(self) -> int:
        """
        The index of the last change of anything here.
        """
        return max(self.node_index, self.service_index, self.check_index)

    def index_of_service(self, name: str) -> int:
        """
        Give the index of the last change of a service and its checks.
        """
        if any(s.name == name for s in self.services.values()):
            return self._service_indexes[name]
        return self.index

    def put_node(self, node: Node, index: int) -> None:
        """
        Add or replace a node.
        """
        self.nodes[node.name] = evolve(node, create_index=index, modify_index=index)
        self.node_index = index

    def put_service(self, node: str, service: Service, index: int) -> bool:
        """
        Add or replace a service, and say whether that changed anything.
        """
        old = self.services.get((node, service.id))
        if old == service:
            return False
        created = old.create_index if old else index
        self.services[node, service.id] = evolve(
            service, create_index=created, modify_index=index
        )
        self.service_index = self._service_indexes[service.name] = index
        return True

    def put_check(self, check: Check, index: int) -> bool:
        """
        Add or replace a check, and say whether that changed anything.
        """
        old = self.checks.get((check.node, check.id))
        if old == check:
            return False
        created = old.create_index if old else index
        self.checks[check.node, check.id] = evolve(
            check, create_index=created, modify_index=index
        )
        self._touch_check(check, index)
        return True

    def remove_check(self, node: str, check_id: str, index: int) -> bool:
        """
        Remove a check, and say whether it was there.
        """
        check = self.checks.pop((node, check_id), None)
        if check is None:
            return False
        self._touch_check(check, index)
        return True

    def _touch_check(self, check: Check, index: int) -> None:
        self.check_index = index
        if check.service_name:
            self._service_indexes[check.service_name] = index

    def remove_service(self, node: str, service_id: str, index: int) -> None:
        """
        Remove a service; its checks are removed one by one before.
        """
        service = self.services.pop((node, service_id), None)
        if service is not None:
            self.service_index = self._service_indexes[service.name] = index

    def remove_node(self, node: str, index: int) -> None:
        """
        Remove a node; what it carries is removed before.
        """
        if self.nodes.pop(node, None) is not None:
            self.node_index = index

    def checks_of(self, node: str, service_id: str | None = None) -> list[Check]:
        """
        Give the checks of a node, or of one service on it (empty: the node's
        own), by id.
        """
        return [
            check
            for (where, _), check in sorted(self.checks.items())
            if where == node and service_id in (None, check.service_id)
        ]

    def services_of(self, node: str) -> list[Service]:
        """
        Give the services of a node, by id.
        """
        return [s for (where, _), s in sorted(self.services.items()) if where == node]
