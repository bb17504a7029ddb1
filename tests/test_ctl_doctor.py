"""
Tests for the doctor: its findings, and that it only looks.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from voltha_coord.consul.api import ConsulApi
from voltha_coord.consul.model import Entry, SessionInfo
from voltha_coord.consul.requester import Requester
from voltha_coord.consul.transport import Request, Response
from voltha_coord.ctl.agent import Facts, numbers, of_agent
from voltha_coord.ctl.cluster import of_cluster
from voltha_coord.ctl.doctor import AUTHORIZE, LISTED, Doctor
from voltha_coord.ctl.findings import Finding, Level, named, one_line
from voltha_coord.ctl.reading import view
from voltha_coord.embedded.memory import MemoryTransport
from voltha_coord.outage import ridden_out
from voltha_coord.records import (
    StatusReport,
    TransferRequest,
    WorkStatus,
    encode_status,
)
from voltha_coord.settings import Settings

from .support.keyspace import (
    KEYS,
    leads,
    member,
    original,
    owned,
    running,
    work,
)
from .support.recording import RecordedConsul, RecordingTransport

HEALTHY = Facts(
    address="http://h:8500",
    cluster_leader="10.0.0.1:8300",
    version="1.8.7",
    node="n1",
    server=True,
    heartbeat=1.0,
    rights={"keys": True, "session": True, "service": True},
    rights_from="ACLs are off",
)


def agent_findings(**changes: Any) -> dict[str, Finding]:
    """
    Give the findings about a healthy Consul with some differences; the worst
    of each check.
    """
    return worst(of_agent(evolve(HEALTHY, **changes), Settings()))


def worst(findings: Any) -> dict[str, Finding]:
    """
    Give the worst finding of each check.
    """
    order = [Level.OK, Level.WARN, Level.WRONG]
    found: dict[str, Finding] = {}
    for finding in findings:
        before = found.get(finding.check)
        if before is None or order.index(before.level) < order.index(finding.level):
            found[finding.check] = finding
    return found


class AgentTests(SynchronousTestCase):
    """
    Findings about Consul and the clock.
    """

    def test_healthy(self) -> None:
        """
        A healthy Consul gives no advice.
        """
        findings = agent_findings()

        self.assertEqual({f.level for f in findings.values()}, {Level.OK})
        self.assertEqual({f.advice for f in findings.values()}, {""})
        self.assertEqual(
            list(findings),
            [
                "reachable",
                "version",
                "cluster leader",
                "acl",
                "liveness",
                "raft",
                "clock",
            ],
        )

    def test_version(self) -> None:
        """
        A version without service checks on sessions is wrong, an unknown one a
        warning.
        """
        self.assertIs(agent_findings(version="1.6.10")["version"].level, Level.WRONG)
        self.assertIs(agent_findings(version="1.7.0")["version"].level, Level.OK)
        self.assertIs(agent_findings(version="1.22.0+ent")["version"].level, Level.OK)
        self.assertIs(agent_findings(version=None)["version"].level, Level.WARN)
        self.assertEqual(numbers("1.21.5-rc1"), (1, 21, 5))
        self.assertEqual(numbers("unknown"), ())

    def test_no_cluster_leader(self) -> None:
        """
        Servers without a leader are wrong (field report 104).
        """
        finding = agent_findings(cluster_leader="")["cluster leader"]

        self.assertIs(finding.level, Level.WRONG)

    def test_denied(self) -> None:
        """
        A denied listing looks empty, and is wrong (field report 105).
        """
        finding = agent_findings(denied=("members", "work"))["acl"]

        self.assertIs(finding.level, Level.WRONG)
        self.assertIn("members, work", finding.found)
        ours = list(of_agent(evolve(HEALTHY, denied=("work",)), Settings(prefix="p/q")))
        advice = {finding.check: finding.advice for finding in ours}["acl"]
        self.assertIn('key_prefix "p/q/" read', advice)

    def test_unknown_token(self) -> None:
        """
        Of a token that Consul does not know that is said, and nothing that is
        only its consequence (B5).
        """
        findings = agent_findings(token_unknown=True, version=None, rights=None)

        self.assertIs(findings["acl"].level, Level.WRONG)
        self.assertIn("unknown or expired", findings["acl"].found)
        self.assertNotIn("grant", findings["acl"].advice)
        self.assertEqual(
            list(findings), ["reachable", "cluster leader", "acl", "clock"]
        )

    def test_may_not_write(self) -> None:
        """
        A token that may only look is enough for looking; it is said.
        """
        rights = {"keys": False, "session": True, "service": True}
        finding = agent_findings(rights=rights)["acl"]

        self.assertIs(finding.level, Level.WARN)
        self.assertIn("keys", finding.found)
        self.assertIs(agent_findings(rights=None)["acl"].level, Level.OK)

    def test_liveness(self) -> None:
        """
        Without service:write death is noticed by the TTL alone.
        """
        rights = {"keys": True, "session": True, "service": False}
        finding = agent_findings(rights=rights)["liveness"]

        self.assertIs(finding.level, Level.WARN)
        self.assertIn("30 s", finding.found)
        self.assertIn("service", finding.advice)
        self.assertIn("3 s", agent_findings()["liveness"].found)

    def test_liveness_without_checks(self) -> None:
        """
        Where no check is wanted, death is not said to be noticed in no time.
        """
        settings = Settings(failure_detection=0)
        finding = worst(of_agent(HEALTHY, settings))["liveness"]

        self.assertIn("noticed in 30 s", finding.found)

    def test_living_by_ttl(self) -> None:
        """
        Members whose session has no check are named.
        """
        sessions = {
            "a": SessionInfo("1", ttl=15, service_checks=("c",)),
            "b": SessionInfo("2", ttl=15),
        }
        finding = agent_findings(sessions=sessions)["liveness"]

        self.assertIs(finding.level, Level.WARN)
        self.assertIn("alone: b", finding.found)

    def test_raft(self) -> None:
        """
        With Consul's default multiplier an election outlasts the default TTL;
        the advised TTL rides it out.
        """
        slow = agent_findings(heartbeat=5.0)["raft"]

        self.assertIs(slow.level, Level.WARN)
        self.assertIn("22.0 s", slow.found)
        self.assertIn("session_ttl 26", slow.advice)
        patient = {"a": SessionInfo("1", ttl=26.0, service_checks=("c",))}
        fine = agent_findings(heartbeat=5.0, sessions=patient)["raft"]
        self.assertIs(fine.level, Level.OK)

    def test_raft_of_the_shortest(self) -> None:
        """
        The member with the shortest TTL is the one that is judged: the
        original's 10 s ride out 6.8.
        """
        sessions = {
            "a": SessionInfo("1", ttl=26.0, service_checks=("c",)),
            "o": SessionInfo("2", ttl=10.0),
        }

        self.assertIn("6.8 s", agent_findings(sessions=sessions)["raft"].found)
        self.assertAlmostEqual(ridden_out(Settings(), 10.0), 6.8)

    def test_raft_unknown(self) -> None:
        """
        Without the agent's settings only the lease is told; of a client agent
        it is said that its servers may differ.
        """
        self.assertIn("may not be read", agent_findings(heartbeat=None)["raft"].found)
        self.assertIn("client", agent_findings(server=False)["raft"].found)

    def test_clock(self) -> None:
        """
        A step of the wall clock is told, and a clock that is far from the
        agent's.
        """
        stepped = agent_findings(step=-1.5, watched=1.0)["clock"]

        self.assertIs(stepped.level, Level.WARN)
        self.assertIn("-1.50 s", stepped.found)
        self.assertIs(agent_findings(step=0.1)["clock"].level, Level.OK)
        self.assertIs(agent_findings(apart=-90.0)["clock"].level, Level.WARN)
        self.assertIs(agent_findings(apart=2.0)["clock"].level, Level.OK)


class ClusterTests(SynchronousTestCase):
    """
    Findings about the keys.
    """

    def findings(
        self, *entries: Entry, names: tuple[str, ...] = (), version: str = "1.8.7"
    ) -> dict[str, Finding]:
        """
        Give the findings about some entries.
        """
        every = (*(entry.key for entry in entries), *names)
        return worst(of_cluster(view(KEYS, entries), every, version))

    def test_healthy(self) -> None:
        """
        A cluster that runs everything is fine.
        """
        findings = self.findings(member("a"), *leads("a"), *running("a", "x", "y"))

        self.assertEqual({f.level for f in findings.values()}, {Level.OK})
        self.assertIn("2 wanted, 2 running", findings["work"].found)
        self.assertIn("4711", findings["term"].found)

    def test_empty(self) -> None:
        """
        A prefix without anything may be the wrong one, and nothing else is
        said of it (A7).
        """
        findings = self.findings()

        self.assertEqual(list(findings), ["keys"])
        self.assertIs(findings["keys"].level, Level.WARN)
        self.assertIn("nothing under service/voltha/", findings["keys"].found)
        self.assertIn("--prefix", findings["keys"].advice)

    def test_nobody(self) -> None:
        """
        Work that waits without a member is wrong; work that is to be stopped
        waits for nobody (A7).
        """
        finding = self.findings(work("x"), work("y"))["members"]

        self.assertIs(finding.level, Level.WRONG)
        self.assertIn("2 work items wait", finding.found)
        stopped = self.findings(work("x", b'{"order":"stop"}'))["members"]
        self.assertIs(stopped.level, Level.OK)

    def wanted(self, *entries: Entry) -> dict[str, Finding]:
        """
        Give the findings about what operators want, by how they begin.
        """
        every = of_cluster(view(KEYS, entries), [entry.key for entry in entries])
        names = ("intents", "freeze", "hand-over")
        return {f.found.split(":")[0]: f for f in every if f.check in names}

    def test_wanted_away(self) -> None:
        """
        Members that operators want away are named, and apart from them those
        that are not there, with what to do about it.
        """
        found = self.wanted(
            member("a"),
            member("c"),
            member("d", session=None),
            Entry(KEYS.node_intent("a"), b"leave"),
            Entry(KEYS.node_intent("b"), b"leave"),
            Entry(KEYS.node_intent("d"), b"maintenance"),
        )
        here = found["given no new work, as operators want it"]
        gone = found["for members that are not there"]

        self.assertEqual(
            list(found), [here.found.split(":")[0], gone.found.split(":")[0]]
        )
        self.assertTrue(here.found.endswith(": a (leave)"))
        self.assertIs(here.level, Level.OK)
        self.assertTrue(gone.found.endswith(": b (leave), d (maintenance)"))
        self.assertIs(gone.level, Level.WARN)
        self.assertIn("voltha-coordctl node b online", gone.advice)

    def test_nobody_takes_work(self) -> None:
        """
        That no member can take work is a warning with the reason; it is wrong
        once an item has no member.
        """
        away = [member("a"), Entry(KEYS.node_intent("a"), b"maintenance")]
        stopped = work("s", b'{"order":"stop"}')
        calm = self.wanted(*away, *running("a", "x"), stopped)[
            "no member can take work"
        ]
        wrong = self.wanted(*away, work("y"))["no member can take work"]
        lost = self.wanted(*away, *running("b", "x"))["no member can take work"]

        self.assertTrue(calm.found.endswith(": all are in maintenance"))
        self.assertIn("node ID online", calm.advice)
        self.assertEqual(
            [f.level for f in (calm, wrong, lost)],
            [Level.WARN, Level.WRONG, Level.WRONG],
        )
        self.assertNotIn("no member can take work", self.wanted(member("a")))
        self.assertEqual(self.wanted(work("y")), {})

    def test_frozen(self) -> None:
        """
        That planning is frozen is a warning with the reason.
        """
        for value, words in (
            (b"upgrade", "planning is frozen (upgrade)"),
            (b"", "planning is frozen;"),
            (b"a\x1b[2Jb\n", "planning is frozen (a [2Jb)"),
        ):
            (finding,) = self.wanted(Entry(KEYS.freeze, value)).values()
            self.assertIs(finding.level, Level.WARN)
            self.assertIn(words, finding.found)
            self.assertEqual(finding.advice, "voltha-coordctl unfreeze")

    def test_transfer(self) -> None:
        """
        A request to hand leadership over that lies about is a warning that
        says which it is, and how to be rid of it.
        """
        for request, words in (
            (TransferRequest("b", 4711, "x"), "to b, asked of a, which has not"),
            (TransferRequest("", 4711, "x"), "to any other, asked of a, which has"),
            (TransferRequest("b", 4710, "x"), "asked of a leader that leads no more"),
            (TransferRequest("b", 4711, "x", "b is gone"), "to b, refused: b is gone"),
        ):
            (finding,) = self.wanted(
                member("a"), *leads("a"), Entry(KEYS.transfer, request.encode())
            ).values()
            self.assertIs(finding.level, Level.WARN)
            self.assertIn(words, finding.found)
            self.assertIn(f"consul kv delete {KEYS.transfer}", finding.advice)

    def test_members(self) -> None:
        """
        A member without a session is wrong; one of the original is a warning.
        """
        dead = self.findings(member("a"), *leads("a"), member("b", session=None))
        mixed = self.findings(member("a"), *leads("a"), original("o"))

        self.assertIs(dead["members"].level, Level.WRONG)
        self.assertIn("service/voltha/members/b", dead["members"].advice)
        self.assertIs(mixed["members"].level, Level.WARN)
        self.assertIn("original: o", mixed["members"].found)

    def test_leader(self) -> None:
        """
        No leader among members is wrong, as is a key that no session holds, and
        as it is when no member may lead; without members there is to be none.
        """
        self.assertIs(self.findings(member("a"))["leader"].level, Level.WRONG)
        stuck = self.findings(member("a"), Entry(KEYS.leader, b"a"))["leader"]
        self.assertIs(stuck.level, Level.WRONG)
        self.assertIn("no session", stuck.found)
        for unfit in (member("a", can_lead=False), member("a", leaving=True)):
            nobody = self.findings(unfit)["leader"]
            self.assertIs(nobody.level, Level.WRONG)
            self.assertIn("no member that may lead", nobody.found)
            self.assertIn("--no-lead", nobody.advice)
        self.assertIs(self.findings(Entry(KEYS.freeze))["leader"].level, Level.OK)

    def test_term(self) -> None:
        """
        A leader key without its term is wrong, but for an original's.
        """
        key, term = leads("a")

        self.assertIs(self.findings(member("a"), key)["term"].level, Level.WRONG)
        other = self.findings(member("a"), key, leads("b")[1])["term"]
        self.assertIs(other.level, Level.WRONG)
        self.assertIn("the term is b's", other.found)
        self.assertIs(self.findings(original("a"), key)["term"].level, Level.WARN)
        self.assertIs(self.findings(term)["term"].level, Level.OK)

    def test_owners(self) -> None:
        """
        Owner records nobody answers for are counted and named.
        """
        finding = self.findings(
            member("a"), *leads("a"), owned("c", "x"), owned("a", "y", "old")
        )["owners"]

        self.assertIs(finding.level, Level.WRONG)
        self.assertIn("for 2: x, y", finding.found)

    def test_commands_in_name_only(self) -> None:
        """
        A command on a member that runs no commands is running in name only;
        one whose process is told of is not.
        """
        command = work("x", b'{"config":{"command":["sleep","9"]}}')
        keys = [entry for entry in running("a", "x") if entry.key != command.key]
        in_name = self.findings(member("a"), *leads("a"), *keys, command)
        plain = self.findings(member("a"), *leads("a"), *running("a", "x"))
        report = StatusReport({"x": WorkStatus(details={"pid": 7})})
        told = [
            Entry(KEYS.status("a", n), chunk)
            for n, chunk in enumerate(encode_status(report))
        ]
        others = [entry for entry in keys if not entry.key.startswith(KEYS.statuses)]
        real = self.findings(member("a"), *leads("a"), *others, *told, command)

        self.assertIs(in_name["commands"].level, Level.WARN)
        self.assertIn("1 run in name only", in_name["commands"].found)
        self.assertNotIn("commands", plain)
        self.assertNotIn("commands", real)

    def test_kept(self) -> None:
        """
        Owner records of a member that is missed are what its items are kept by.
        """
        lost = Entry(KEYS.lost_member("c"), b'{"since":1}')
        finding = self.findings(
            member("a"), *leads("a"), owned("c", "x"), owned("a", "y"), lost
        )["owners"]

        self.assertIs(finding.level, Level.WARN)
        self.assertIn("1 kept for members that are gone (c): x", finding.found)

    def test_work(self) -> None:
        """
        The first item that is in trouble is told with its reason.
        """
        finding = self.findings(
            member("a"), *leads("a"), *running("a", "x"), work("y"), work("z")
        )["work"]

        self.assertIs(finding.level, Level.WRONG)
        self.assertIn("2 in trouble: y: not assigned", finding.found)

    def test_values_and_strays(self) -> None:
        """
        Unreadable values and stray keys are warnings: they stop nothing.
        """
        findings = self.findings(
            Entry(KEYS.owner("x"), b"{}"), Entry("service/voltha/members/a/b", b"")
        )

        self.assertIs(findings["values"].level, Level.WARN)
        self.assertIs(findings["stray keys"].level, Level.WARN)
        self.assertIn("service/voltha/members/a/b", findings["stray keys"].found)

    def test_each_value(self) -> None:
        """
        Unreadable values are named with their reasons, by what they are of,
        with what becomes of those.
        """
        cluster = view(
            KEYS,
            [
                member("a"),
                Entry(KEYS.member("b"), b"[1]", session="s"),
                Entry(KEYS.owner("x"), b"{}"),
                Entry(KEYS.owner("y"), b"?"),
                work("x", b'{"weight":"much"}'),
                Entry(KEYS.node_intent("a"), b"holiday"),
            ],
        )
        found = {
            finding.found.partition(":")[0]: finding
            for finding in of_cluster(cluster, [KEYS.member("a")])
            if finding.check == "values"
        }

        self.assertEqual(list(found), ["intent", "members", "owners", "work"])
        for work_id in ("x", "y"):
            self.assertIn(f"{KEYS.owner(work_id)} (", found["owners"].found)
        self.assertIn("2 unreadable", found["owners"].found)
        self.assertIn("the leader", found["owners"].advice)
        self.assertIn("the member", found["members"].advice)
        self.assertIn("write it again", found["work"].advice)
        self.assertIn("no effect", found["intent"].advice)

    def test_names(self) -> None:
        """
        Names that Consul 1.21.5 refuses are a warning, and wrong on that very
        version (field report 114).
        """
        names = ("service/voltha/work/id@domain", "service/voltha/work/a..b")

        for version, level in (("1.8.7", Level.WARN), ("1.21.5", Level.WRONG)):
            finding = self.findings(names=names, version=version)["key names"]
            self.assertIs(finding.level, level)
            self.assertIn("refuses 2", finding.found)
        fine = self.findings(names=("service/voltha/work/device_group_0001",))
        self.assertNotIn("key names", fine)

    def test_others(self) -> None:
        """
        Keys of others under the prefix are left alone.
        """
        findings = self.findings(names=("service/voltha/data/core/1",))

        self.assertIs(findings["other keys"].level, Level.OK)
        self.assertIn("data", findings["other keys"].found)

    def test_named(self) -> None:
        """
        Of a long list the first three are named.
        """
        self.assertEqual(named(["b", "a"]), "a, b")
        self.assertEqual(named(list("edcba")), "a, b, c and 2 more")

    def test_one_line(self) -> None:
        """
        A text from outside is one line, of what can be printed, and not long.
        """
        self.assertEqual(one_line(" ä\x1b[31m\nb\u202e "), "ä [31m b")
        self.assertEqual(one_line("x" * 201), "x" * 200 + "…")


class RefusingTransport(RecordingTransport):
    """
    To an agent that does not know the token, as 1.8.7 says it.
    """

    def request(self, request: Request) -> Deferred[Response]:
        """
        Tell who leads, and nothing else.
        """
        answered = super().request(request)
        if request.path == "/v1/status/leader":
            return answered
        answered.cancel()
        answered.addErrback(lambda failure: failure.trap(CancelledError))
        return answered.addBoth(lambda _: Response(403, {}, b"ACL not found"))


class DoctorTests(SynchronousTestCase):
    """
    The doctor at an embedded Consul.
    """

    def setUp(self) -> None:
        """
        Have a Consul.
        """
        self.clock = Clock()
        self.consul = RecordedConsul(self.clock)
        self.addCleanup(self.consul.stop)

    def examine(self) -> dict[str, Finding]:
        """
        Let the doctor look.
        """
        doctor = Doctor(
            self.consul.api(),
            KEYS,
            Settings(),
            now=self.clock.seconds,
            wall=lambda: self.clock.seconds() + 1e9,
            wait=lambda seconds: succeed(None),
        )
        (findings,) = self.consul.run(doctor.examine())
        return worst(findings)

    def test_only_looks(self) -> None:
        """
        It opens no session, registers nothing, and writes no key (field report
        25): the Raft index stays, and every request reads.
        """
        index = self.consul.state.index

        self.examine()

        self.assertEqual(self.consul.state.index, index)
        self.assertEqual(self.consul.state.sessions.all(), [])
        sent = {(r.method, r.path) for r in self.consul.requests}
        self.assertEqual(
            {path for method, path in sent if method != "GET"},
            {"/v1/txn", AUTHORIZE},
        )
        bodies = [r.body for r in self.consul.requests if r.path == "/v1/txn"]
        self.assertTrue(bodies)
        for body in bodies:
            self.assertEqual(body.count(b'"Verb"'), body.count(b"get-tree"))

    def test_healthy(self) -> None:
        """
        An empty Consul that answers is fine.
        """
        findings = self.examine()

        self.assertEqual([f for f in findings.values() if f.level is Level.WRONG], [])
        self.assertIn("check", findings["liveness"].found)

    def test_unreachable(self) -> None:
        """
        A Consul that does not answer gives one finding.
        """
        self.consul.agent.kill()

        findings = self.examine()

        self.assertEqual(list(findings), ["reachable"])
        self.assertIs(findings["reachable"].level, Level.WRONG)

    def test_no_leader(self) -> None:
        """
        Servers without a leader are told; the keys cannot be read.
        """
        self.consul.state.lose_leader()
        api = self.consul.api()
        doctor = Doctor(
            api,
            KEYS,
            Settings(),
            now=self.clock.seconds,
            wall=self.clock.seconds,
            wait=lambda seconds: succeed(None),
        )
        examined = doctor.examine()
        self.clock.pump([1.0] * 60)
        findings = worst(self.successResultOf(examined))

        self.assertIs(findings["cluster leader"].level, Level.WRONG)
        self.assertIs(findings["keys"].level, Level.WRONG)

    def test_denied(self) -> None:
        """
        What may not be listed is told, and nothing is said of keys that only
        look missing.
        """
        self.consul.state.deny = lambda resource, *_: resource == "key"

        findings = self.examine()

        self.assertIs(findings["acl"].level, Level.WRONG)
        self.assertIn(f"{len(LISTED) - 3} more", findings["acl"].found)
        self.assertNotIn("members", findings)

    def test_unknown_token(self) -> None:
        """
        A Consul that refuses the token everywhere gives the one finding, and
        is asked for nothing more (B5).
        """
        transport = RefusingTransport(
            MemoryTransport(self.consul.agent, self.clock), "refusing:8500"
        )
        doctor = Doctor(
            ConsulApi(Requester([transport])),
            KEYS,
            Settings(),
            now=self.clock.seconds,
            wall=self.clock.seconds,
            wait=lambda seconds: succeed(None),
        )

        (examined,) = self.consul.run(doctor.examine())
        findings = worst(examined)

        wrong = [f.check for f in findings.values() if f.level is not Level.OK]
        self.assertEqual(wrong, ["acl"])
        self.assertIn("unknown or expired", findings["acl"].found)
        self.assertEqual(
            [request.path for request in transport.requests],
            ["/v1/status/leader", "/v1/agent/self"],
        )
