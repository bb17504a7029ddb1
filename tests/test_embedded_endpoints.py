"""
Tests of the embedded Consul's words, each as real Consul 1.8.7 was heard to
say it.
"""

# ruff: noqa: E501 (one refusal a line)

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.embedded.durations import parse_duration

from .support.consul_on_clock import Embedded

_NO_UUID = "failed session lookup: index error: UUID must be 36 characters"

#: Method, path, body; what real Consul answered.
_REFUSALS: tuple[tuple[str, str, object, int, str], ...] = (
    ("PUT", "session/create", {"TTL": "abc"}, 500, "Session TTL 'abc' invalid: time: invalid duration \"abc\""),
    ("PUT", "session/create", {"TTL": "-10s"}, 500, "Invalid Session TTL '-10000000000', must be between [10s=24h0m0s]"),
    ("PUT", "session/create", {"LockDelay": "abc"}, 400, 'Request decode failed: time: invalid duration "abc"'),
    ("PUT", "session/create", {"LockDelay": "1"}, 400, 'Request decode failed: time: missing unit in duration "1"'),
    ("PUT", "session/create", {"TTL": 15}, 400, "Request decode failed: json: cannot unmarshal number into Go struct field .TTL of type string"),
    ("PUT", "session/create", {"Node": "nope"}, 500, "Missing node registration"),
    ("PUT", "session/renew/", b"", 400, "Missing session"),
    ("PUT", "session/destroy/nope", b"", 500, _NO_UUID),
    ("PUT", "session/renew/nope", b"", 500, _NO_UUID),
    ("PUT", "agent/service/register", {}, 400, "Missing service name"),
    ("PUT", "agent/service/register", b"xx", 400, "Request decode failed: invalid character 'x' looking for beginning of value"),
    ("PUT", "agent/service/register", {"Name": "x", "Check": {"TTL": "-1s"}}, 400, "Invalid check: TTL must be > 0 for TTL checks"),
    ("PUT", "agent/service/register", {"Name": "x", "Check": {"TTL": "abc"}}, 400, 'Request decode failed: time: invalid duration "abc"'),
    ("PUT", "agent/service/register", {"Name": "x", "Check": {"TTL": "1s", "Status": "bogus"}}, 400, "Status for checks must 'passing', 'warning', 'critical'"),
    ("PUT", "agent/service/deregister/", b"", 500, "ServiceID missing"),
    ("GET", "agent/service/nope", b"", 404, "unknown service ID: nope"),
    ("PUT", "agent/check/pass/nope", b"", 500, 'CheckID "nope" does not have associated TTL'),
    ("PUT", "agent/check/update/nope", {"Status": "bogus"}, 400, "Invalid check status: 'bogus'"),
    ("PUT", "agent/check/register", {"TTL": "1s"}, 400, "Missing check name"),
    ("PUT", "agent/check/register", {"Name": "n"}, 400, "Invalid check: TTL must be > 0 for TTL checks"),
    ("PUT", "agent/check/register", {"Name": "n", "TTL": "1s", "Status": "bogus"}, 400, "Bad check status"),
    ("PUT", "agent/check/register", {"Name": "n", "TTL": "1s", "ServiceID": "nope"}, 500, 'ServiceID "nope" does not exist'),
    ("PUT", "catalog/deregister", {}, 500, "Must provide node"),
    ("GET", "health/state/", b"", 400, "Missing check state"),
    ("GET", "health/service/x?passing=xx", b"", 400, "Invalid value for ?passing"),
    ("GET", "kv/a?dc=nope", b"", 500, "No path to datacenter"),
    ("PUT", "kv/a?cas=x", b"", 500, 'strconv.ParseUint: parsing "x": invalid syntax'),
    ("PUT", "kv/a?flags=-1", b"", 500, 'strconv.ParseUint: parsing "-1": invalid syntax'),
    ("PUT", "kv/a?flags=18446744073709551616", b"", 500, 'strconv.ParseUint: parsing "18446744073709551616": value out of range'),
    ("PUT", "kv/a?release=", b"", 500, "missing session"),
    ("DELETE", "kv/a?cas=3&recurse=", b"", 400, "Conflicting flags: cas=3&recurse="),
    ("POST", "kv/a", b"", 405, "method POST not allowed"),
    ("PUT", "txn", {"a": 1}, 400, "Failed to parse body: json: cannot unmarshal object into Go value of type api.TxnOps"),
    ("PUT", "txn", [{"KV": {"Verb": "set", "Key": "a", "Value": "!!"}}], 400, "Failed to parse body: illegal base64 data at input byte 0"),
    ("PUT", "txn", [{"Session": {}}], 400, 'Failed to parse body: json: unknown field "Session"'),
)  # fmt: skip


class WordsTests(SynchronousTestCase):
    """
    Statuses and texts of what is refused.
    """

    def test_refusals(self) -> None:
        """
        Every refusal has the status and the words of the real one.
        """
        consul = Embedded()
        for method, path, body, status, text in _REFUSALS:
            path, _, query = path.partition("?")
            params = dict(pair.split("=") for pair in query.split("&")) if query else {}
            answer = consul.ask(method, path, body, **params)
            self.assertEqual(
                (answer.status, answer.body.decode()), (status, text), (path, body)
            )

    def test_transaction_without_key(self) -> None:
        """
        A transaction names the operation that has no key, or an odd session.
        """
        consul = Embedded()
        found = []
        for kv in (
            {"Verb": "set"},
            {"Verb": "lock", "Key": "a"},
            {"Verb": "lock", "Key": "a", "Session": "nope"},
        ):
            answer = consul.ask("PUT", "txn", [{"KV": kv}])
            found += [(answer.status, json.loads(answer.body)["Errors"][0]["What"])]

        self.assertEqual(
            found,
            [(409, "Must provide key"), (409, "missing session"), (409, _NO_UUID)],
        )

    def test_nul_in_a_key(self) -> None:
        """
        A key with a NUL, which no path can hold, is a bad request: the
        real Consul takes it, and this one does not.
        """
        operation = {"KV": {"Verb": "set", "Key": "a\x00b"}}
        answer = Embedded().ask("PUT", "txn", [operation])

        self.assertEqual(answer.status, 400)

    def test_options(self) -> None:
        """
        OPTIONS tells the methods of an endpoint.
        """
        answer = Embedded().ask("OPTIONS", "kv/a")

        self.assertEqual(answer.headers["allow"], "OPTIONS,GET,PUT,DELETE")


class RegistrationTests(SynchronousTestCase):
    """
    Services and checks, in all the ways they may be registered.
    """

    def setUp(self) -> None:
        """
        Make a Consul.
        """
        self.consul = Embedded()

    def _checks(self) -> list[str]:
        return list(self.consul.json("GET", "agent/checks"))

    def test_default_ids(self) -> None:
        """
        A check without an id is named after its service, and counted where
        there are several; names may be in any case.
        """
        ttl = {"TTL": "1s"}
        register = "agent/service/register"
        self.consul.ask("PUT", register, {"name": "one", "check": {"ttl": "1s"}})
        self.consul.ask("PUT", register, {"Name": "two", "Checks": [ttl, ttl]})
        self.consul.ask("PUT", register, {"Name": "none", "Check": {"TTL": "0s"}})

        self.assertEqual(
            self._checks(), ["service:one", "service:two:1", "service:two:2"]
        )

    def test_checks_are_replaced(self) -> None:
        """
        Registering a service again removes the checks it has no longer.
        """
        register = "agent/service/register"
        for check_id in ("old", "new"):
            check = {"CheckID": check_id, "TTL": "1s"}
            self.consul.ask("PUT", register, {"Name": "x", "Check": check})

        self.assertEqual(self._checks(), ["new"])
        self.assertIsNone(self.consul.check_status("old"))

    def test_node_check(self) -> None:
        """
        A check may be the node's own, and be deregistered; one of a service
        carries the service's name.
        """
        self.consul.service()
        register = "agent/check/register"
        self.consul.ask(
            "PUT", register, {"Name": "n", "TTL": "1s", "Status": "passing"}
        )
        self.consul.ask(
            "PUT", register, {"Name": "s", "TTL": "1s", "ServiceID": "check"}
        )
        checks = self.consul.json("GET", "agent/checks")
        bound = self.consul.session(NodeChecks=["n"])
        self.consul.ask("PUT", "agent/check/deregister/n")
        missing = self.consul.ask("PUT", "agent/check/deregister/n")

        self.assertEqual(checks["n"]["ServiceName"], "")
        self.assertEqual(checks["s"]["ServiceName"], "voltha-coord")
        self.assertFalse(self.consul.alive(bound))
        self.assertEqual(missing.status, 200)

    def test_critical_node_check_hides_services(self) -> None:
        """
        A critical node check takes every service of its node out of
        ``health/service?passing``; a critical service check only its own.
        """
        self.consul.service()
        self.consul.service("other")
        register = "agent/check/register"
        self.consul.ask(
            "PUT", register, {"Name": "n", "TTL": "9s", "Status": "passing"}
        )

        def passing() -> list[str]:
            rows = self.consul.json("GET", "health/service/voltha-coord", passing=True)
            return [row["Service"]["ID"] for row in rows]

        self.assertEqual(passing(), ["check", "other"])
        self.consul.ask("PUT", "agent/check/fail/other")
        self.assertEqual(passing(), ["check"])
        self.consul.ask("PUT", "agent/check/fail/n")
        self.assertEqual(passing(), [])

    def test_catalog_deregister(self) -> None:
        """
        The catalog forgets a check, a service, a node; unknown nodes are no
        error.
        """
        self.consul.service()
        session = self.consul.session(ServiceChecks=[{"ID": "check"}])
        forget = "catalog/deregister"
        unknown = self.consul.ask("PUT", forget, {"Node": "nope"})
        self.consul.ask("PUT", forget, {"Node": "node-1", "CheckID": "check"})
        self.assertIsNone(self.consul.check_status())
        self.assertFalse(self.consul.alive(session))
        self.consul.ask("PUT", forget, {"Node": "node-1", "ServiceID": "check"})
        self.assertEqual(self.consul.json("GET", "catalog/service/voltha-coord"), [])
        self.consul.ask("PUT", forget, {"Node": "node-1"})

        self.assertEqual(unknown.body, b"true")
        self.assertEqual(self.consul.json("GET", "catalog/nodes"), [])

    def test_old_field_of_checks(self) -> None:
        """
        ``Checks`` binds serfHealth too, unless ``NodeChecks`` is there, which
        drops it; an empty one removes serfHealth.
        """
        self.consul.service()
        found = []
        wishes: tuple[dict[str, object], ...] = (
            {"Checks": ["check"]},
            {"Checks": ["check"], "NodeChecks": []},
            {"Checks": []},
            {"NodeChecks": None},
        )
        for fields in wishes:
            created = self.consul.json("PUT", "session/create", fields)
            (session,) = self.consul.json("GET", f"session/info/{created['ID']}")
            found.append((session["NodeChecks"], session.get("Checks")))

        self.assertEqual(
            found,
            [(["serfHealth"], ["check"]), ([], None), ([], None), (None, None)],
        )


class DurationTests(SynchronousTestCase):
    """
    Durations as Go writes them.
    """

    def test_good(self) -> None:
        """
        Parts, fractions, signs and units.
        """
        found = {
            text: parse_duration(text)
            for text in ("0", "1h2m3s", "1.5s", ".5ms", "-10s", "+1us", "3µs", "7ns")
        }

        self.assertEqual(
            found,
            {
                "0": 0,
                "1h2m3s": 3_723_000_000_000,
                "1.5s": 1_500_000_000,
                ".5ms": 500_000,
                "-10s": -10_000_000_000,
                "+1us": 1_000,
                "3µs": 3_000,
                "7ns": 7,
            },
        )

    def test_bad(self) -> None:
        """
        What is none is refused, in Go's words.
        """
        for text, words in (
            ("", "invalid duration"),
            ("s", "invalid duration"),
            ("1", "missing unit"),
            ("1x", 'unknown unit "x"'),
            ("1s2", "missing unit"),
        ):
            error = self.assertRaises(ValueError, parse_duration, text)
            self.assertIn(words, str(error))
