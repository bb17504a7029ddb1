"""
The contract of the agent's and the catalog's listings: specs 4.6.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import inlineCallbacks

from voltha_coord._types import Steps

from .base import ContractBase
from .calls import SERVICE, Answer


class CatalogContract(ContractBase):
    """
    What agent and catalog show of nodes, services and checks.
    """

    @inlineCallbacks
    def _registered(self) -> Steps[str]:
        """
        Register a service, and wait until the catalog has it.
        """
        check_id = self.check_id()
        yield self.calls.ask(
            "PUT",
            "/v1/agent/service/register",
            {
                "ID": check_id,
                "Name": SERVICE,
                "Address": "192.0.2.7",
                "Port": 8880,
                "Tags": ["voltha"],
                "Meta": {"prefix": self.backend.prefix},
                "Check": {"CheckID": check_id, "TTL": "30s", "Status": "passing"},
            },
        )
        yield self.eventually(
            lambda: self.calls.check(check_id), lambda check: check is not None
        )
        return check_id

    @inlineCallbacks
    def test_agent_lists(self) -> Steps[None]:
        """
        4.6: the agent shows its own services and checks, by id.
        """
        check_id = yield self._registered()
        services = yield self.calls.ask("GET", "/v1/agent/services")
        service = yield self.calls.ask("GET", f"/v1/agent/service/{check_id}")
        checks = yield self.calls.ask("GET", "/v1/agent/checks")
        unknown = yield self.calls.ask("GET", "/v1/agent/service/none")
        yield self.calls.deregister(check_id)

        for shown in (services.json[check_id], service.json):
            self.assertEqual(
                {name: shown[name] for name in ("ID", "Service", "Address", "Port")},
                {
                    "ID": check_id,
                    "Service": SERVICE,
                    "Address": "192.0.2.7",
                    "Port": 8880,
                },
            )
            self.assertEqual(shown["Tags"], ["voltha"])
            self.assertEqual(shown["Meta"], {"prefix": self.backend.prefix})
        check = checks.json[check_id]
        self.assertEqual(
            (check["Status"], check["ServiceID"], check["Type"]),
            ("passing", check_id, "ttl"),
        )
        self.assertEqual(check["Name"], f"Service '{SERVICE}' check")
        self.assertEqual(unknown.status, 404)

    @inlineCallbacks
    def test_catalog_of_service(self) -> Steps[None]:
        """
        4.6: the catalog shows where a service is, and how it is reached.
        """
        check_id = yield self._registered()
        names = yield self.calls.ask("GET", "/v1/catalog/services")
        answer = yield self.calls.ask("GET", f"/v1/catalog/service/{SERVICE}")
        nobody = yield self.calls.ask("GET", "/v1/catalog/service/none")
        yield self.calls.deregister(check_id)

        self.assertIn("voltha", names.json[SERVICE])
        (row,) = (r for r in answer.json if r["ServiceID"] == check_id)
        self.assertEqual(
            (row["Node"], row["Address"], row["ServiceAddress"], row["ServicePort"]),
            (self.backend.node, "127.0.0.1", "192.0.2.7", 8880),
        )
        self.assertEqual(row["ServiceMeta"], {"prefix": self.backend.prefix})
        self.assertEqual(nobody.json, [])

    @inlineCallbacks
    def test_catalog_of_nodes(self) -> Steps[None]:
        """
        4.6: the catalog shows nodes, and the services of each: with ACLs, 1.8
        shows those whose *id* the policy names, so that ours is not asked for.
        """
        check_id = yield self._registered()
        nodes = yield self.calls.ask("GET", "/v1/catalog/nodes")
        node = yield self.calls.ask("GET", f"/v1/catalog/node/{self.backend.node}")
        nowhere = yield self.calls.ask("GET", "/v1/catalog/node/none")
        yield self.calls.deregister(check_id)

        self.assertEqual([n["Node"] for n in nodes.json], [self.backend.node])
        self.assertEqual(node.json["Node"]["Node"], self.backend.node)
        self.assertIsInstance(node.json["Services"], dict)
        self.assertIsNone(nowhere.json)

    @inlineCallbacks
    def test_health_by_state(self) -> Steps[None]:
        """
        4.6: ``health/state`` shows the checks of one status, or of any.
        """
        check_id = yield self._registered()
        found: dict[str, bool] = {}
        for status in ("passing", "critical", "any"):
            answer: Answer = yield self.calls.ask("GET", f"/v1/health/state/{status}")
            found[status] = check_id in [check["CheckID"] for check in answer.json]
        yield self.calls.deregister(check_id)

        self.assertEqual(found, {"passing": True, "critical": False, "any": True})

    @inlineCallbacks
    def test_missing_names(self) -> Steps[None]:
        """
        4.6: a listing of something without its name is a bad request.
        """
        answers: list[Any] = []
        for path in ("health/node/", "health/service/", "session/node/"):
            answers.append((yield self.calls.ask("GET", f"/v1/{path}")))

        self.assertEqual(
            [(a.status, a.text) for a in answers],
            [
                (400, "Missing node name"),
                (400, "Missing service name"),
                (400, "Missing node name"),
            ],
        )

    @inlineCallbacks
    def test_agent_members(self) -> Steps[None]:
        """
        4.6: ``agent/members`` shows the nodes gossip knows, alive.
        """
        answer = yield self.calls.ask("GET", "/v1/agent/members")

        self.assertEqual(
            [(m["Name"], m["Status"]) for m in answer.json], [(self.backend.node, 1)]
        )
