"""
Tests of ``twistd voltha_coord``: its options, and the service they make.
"""

from __future__ import annotations

import os
import sys
from io import StringIO
from typing import Any

import structlog
from attrs import evolve
from twisted.application.service import Application, IService
from twisted.internet.base import ReactorBase
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import ILogObserver
from twisted.python.usage import UsageError
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from tests.support.coordinators import RecordingCoordinator
from twisted import __version__ as twisted_version
from voltha_coord import __version__
from voltha_coord._parameters import PARAMETERS
from voltha_coord.clock import boot_time
from voltha_coord.consul.address import Address, from_environment
from voltha_coord.ending import end_process
from voltha_coord.measuring import MachineMeter, WorkMeter
from voltha_coord.options import Options, primary_ipv4
from voltha_coord.service import CoordinatorService
from voltha_coord.settings import Settings
from voltha_coord.tap import makeService, meter_of, use_steady_clock
from voltha_coord.watchdog import Watchdog

HOST = {"HOSTNAME": "host-1"}


def parsed(*arguments: str, **environ: str) -> Options:
    """
    Parse a command line in an environment.
    """
    options = Options({**HOST, **environ})
    options.parseOptions(list(arguments))
    return options


class OptionsTests(SynchronousTestCase):
    """
    Tests of :class:`Options`.
    """

    def refused(self, *arguments: str, **environ: str) -> str:
        """
        Say why a command line is refused.
        """
        return str(self.assertRaises(UsageError, parsed, *arguments, **environ))

    def file(self, content: str) -> str:
        """
        Make a file; give its whole path.
        """
        path: str = os.path.abspath(self.mktemp())
        with open(path, "w") as file:
            file.write(content)
        return path

    def test_defaults(self) -> None:
        """
        Nothing need be given.
        """
        options = parsed()

        self.assertEqual(options["instance-id"], "host-1")
        self.assertEqual(options["rest-port"], 8880)
        self.assertEqual(options["rest-host"], "127.0.0.1")
        self.assertEqual(options["weight"], 1.0)
        self.assertIs(options["no-lead"], False)
        self.assertEqual(options.leader.name, "balanced")
        self.assertEqual(options.worker.name, "track")
        self.assertEqual(options.settings, Settings(stuck_work="exit"))
        self.assertEqual(options.connection, from_environment({}))
        self.assertIsNone(options.embedded_port)
        self.assertEqual(options["internal-host-address"], primary_ipv4())
        self.assertEqual(options["external-host-address"], primary_ipv4())
        self.assertEqual(
            (options["log-format"], options["log-level"]), ("console", "info")
        )

    def test_every_option_by_command_line_and_environment(self) -> None:
        """
        Every option can be given either way, with the same result.
        """
        examples = {
            "instance-id": "m-1",
            "consul": "c1:1,https://c2",
            "internal-host-address": "10.0.0.1",
            "external-host-address": "h.example",
            "rest-port": "0",
            "rest-host": "::1",
            "prefix": "shop/one",
            "leader": "hash-ring",
            "worker": "track",
            "allow-command": "/usr/bin/a,b *",
            "state-directory": "run/here",
            "weight": "2.5",
            "measure": "work",
            "max-cpu": "75.5",
            "max-memory": "80",
            "no-lead": "",
            "failure-detection": "6",
            "lock-delay": "0",
            "session-ttl": "20",
            "node-health": "",
            "isolation": "takeover",
            "emergency-timeout": "5",
            "node-recover-timeout": "60",
            "stuck-work": "report",
            "drain-timeout": "3",
            "token-file": self.file("t0"),
            "datacenter": "dc2",
            "log-format": "json",
            "log-level": "debug",
        }
        self.assertEqual(set(examples), {p.name for p in PARAMETERS})
        for parameter in PARAMETERS:
            text = examples[parameter.name]
            if parameter.kind == "flag":
                given, said = parsed(f"--{parameter.name}"), "1"
            else:
                given, said = parsed(f"--{parameter.name}={text}"), text
            by_environment = parsed(**{parameter.variables[0]: said})

            self.assertEqual(given[parameter.name], by_environment[parameter.name])
            if parameter.name != "worker":
                self.assertNotEqual(given[parameter.name], parsed()[parameter.name])

    def test_originals_variables(self) -> None:
        """
        The environment variables of the original coordinator work.
        """
        options = parsed(
            INSTANCE_ID="v1",
            CONSUL="c:8501",
            REST_PORT="8881",
            INTERNAL_HOST_ADDRESS="10.0.0.1",
            EXTERNAL_HOST_ADDRESS="10.0.0.2",
        )

        self.assertEqual(options["instance-id"], "v1")
        self.assertEqual(options.connection.addresses, (Address(host="c", port=8501),))
        self.assertEqual(options["rest-port"], 8881)
        self.assertEqual(options["internal-host-address"], "10.0.0.1")
        self.assertEqual(options["external-host-address"], "10.0.0.2")

    def test_settings(self) -> None:
        """
        Timings and names end up in the Settings.
        """
        options = parsed(
            "--prefix=a/b",
            "--failure-detection=0",
            "--lock-delay=2",
            "--session-ttl=30",
            "--drain-timeout=4",
            "--node-health",
            "--isolation=keep",
            "--emergency-timeout=5",
            "--node-recover-timeout=60",
            "--stuck-work=report",
        )

        self.assertEqual(
            options.settings,
            Settings(
                prefix="a/b",
                failure_detection=0.0,
                lock_delay=2.0,
                session_ttl=30.0,
                drain_timeout=4.0,
                node_health=True,
                isolation="keep",
                emergency_timeout=5.0,
                node_recover_timeout=60.0,
                stuck_work="report",
            ),
        )

    def test_allowed_commands(self) -> None:
        """
        Patterns of commands may be repeated; elsewhere each has a line of its
        own, commas and blanks are part of it.
        """
        given = parsed("--allow-command=/bin/a -x *", "--allow-command=/bin/b,c")
        by_environment = parsed(VOLTHA_COORD_ALLOW_COMMAND="/bin/a -x *\n/bin/b,c\n")

        for options in (given, by_environment):
            self.assertEqual(
                options.settings.allow_command, ("/bin/a -x *", "/bin/b,c")
            )
        self.assertEqual(parsed().settings.allow_command, ())
        error = self.assertRaises(UsageError, parsed, "--allow-command= ")
        self.assertIn("--allow-command", str(error))

    def test_consul(self) -> None:
        """
        Several agents are tried in turn; Consul's own variables mean what they
        mean to Consul, but for an address given here.
        """
        options = parsed(
            "--consul=c1:1",
            "--consul=c2:2",
            "--datacenter=dc9",
            CONSUL_HTTP_ADDR="c3:3",
            CONSUL_HTTP_TOKEN="t",
        )

        self.assertEqual(
            options.connection,
            evolve(
                from_environment({"CONSUL_HTTP_TOKEN": "t"}, ["c1:1", "c2:2"]),
                datacenter="dc9",
            ),
        )
        by_variable = parsed(CONSUL_HTTP_ADDR="c3:3").connection
        self.assertEqual(by_variable.addresses, (Address(host="c3", port=3),))

    def test_embedded(self) -> None:
        """
        An embedded Consul has a port, Consul's own unless another is named.
        """
        self.assertEqual(parsed("--consul=embedded").embedded_port, 8500)
        self.assertEqual(parsed("--consul=embedded:0").embedded_port, 0)
        self.assertEqual(parsed(CONSUL="embedded:18500").embedded_port, 18500)

    def test_a_host_named_embedded_something(self) -> None:
        """
        Only the very word stands for the embedded Consul.
        """
        options = parsed("--consul=embedded-1.example:8500")

        self.assertIsNone(options.embedded_port)
        self.assertEqual(options.connection.addresses[0].host, "embedded-1.example")

    def test_bad_values(self) -> None:
        """
        What cannot be used is refused with the option and the source.
        """
        for arguments, environ, *words in [
            (["--rest-port=99999"], {}, "--rest-port", "99999", "the command line"),
            (["--weight=0"], {}, "--weight", "the command line"),
            (["--measure=gpu"], {}, "--measure", "machine, work"),
            (["--max-cpu=0"], {}, "--max-cpu", "the command line"),
            ([], {"VOLTHA_COORD_MAX_CPU": "101"}, "--max-cpu", "up to 100"),
            ([], {"VOLTHA_COORD_MAX_MEMORY": "x"}, "--max-memory", "not a number"),
            (["--log-level=loud"], {}, "--log-level", "debug, info", "command line"),
            (["--log-format=xml"], {}, "--log-format", "console, json"),
            (["--instance-id=a b"], {}, "--instance-id", "' '"),
            ([], {"HOSTNAME": "a/b"}, "--instance-id", "'/'", "from HOSTNAME"),
            ([], {"INSTANCE_ID": ".a"}, "--instance-id", "dot", "INSTANCE_ID"),
            (["--prefix=/a"], {}, "--prefix", "'/a'", "the command line"),
            ([], {"VOLTHA_COORD_NO_LEAD": "x"}, "--no-lead", "VOLTHA_COORD_NO_LEAD"),
            (
                ["--leader=x"],
                {},
                "--leader",
                "balanced, hash-ring, resource",
                "command line",
            ),
            ([], {"VOLTHA_COORD_WORKER": "x"}, "--worker", "track", "COORD_WORKER"),
            (["--consul=a:b"], {}, "--consul", "'b' is not a port", "command line"),
            (["--consul=embedded:x"], {}, "--consul", "'x' is not a port"),
            (["--consul=embedded", "--consul=c"], {}, "--consul", "alone"),
            ([], {"CONSUL": "ftp://c"}, "--consul", "'ftp'", "from CONSUL"),
            ([], {"CONSUL_HTTP_SSL": "x"}, "CONSUL_HTTP_SSL"),
            ([], {"CONSUL_HTTP_ADDR": "a:b"}, "CONSUL_HTTP_ADDR"),
            (["--lock-delay=61"], {}, "--lock-delay", "61", "command line"),
            (["--isolation=go"], {}, "--isolation", "stop, keep, takeover", "line"),
            ([], {"VOLTHA_COORD_ISOLATION": "x"}, "--isolation", "COORD_ISOLATION"),
            (["--emergency-timeout=-1"], {}, "--emergency-timeout", "-1", "line"),
            (["--emergency-timeout=x"], {}, "--emergency-timeout", "'x'", "line"),
            (["--node-recover-timeout=1e6"], {}, "--node-recover-timeout", "86400"),
            (["--stuck-work=wait"], {}, "--stuck-work", "report, exit", "line"),
            (["--config=gone.yaml"], {}, "--config", "gone.yaml", "command line"),
            ([], {"VOLTHA_COORD_CONFIG": "gone"}, "gone", "VOLTHA_COORD_CONFIG"),
            (["stray", "more"], {}, "unexpected argument 'stray'"),
            (["--datacenter=a b"], {}, "--datacenter", "'a b'", "the command line"),
            (["--rest-host=a..b"], {}, "--rest-host", "'a..b'", "the command line"),
            ([], {"CONSUL_NAMESPACE": "a b"}, "CONSUL_NAMESPACE", "'a b'"),
        ]:
            text = self.refused(*arguments, **environ)  # type: ignore[arg-type]  # a table
            for word in words:
                self.assertIn(str(word), text)

    def test_combination_without_room(self) -> None:
        """
        Options that leave no room together are refused, each with its source.
        """
        text = self.refused("--session-ttl=10", VOLTHA_COORD_FAILURE_DETECTION="100")

        self.assertTrue(text.startswith("--session-ttl: 10 s leaves no room"), text)
        self.assertTrue(
            text.endswith(
                "(--session-ttl from the command line, "
                "--failure-detection from VOLTHA_COORD_FAILURE_DETECTION)"
            ),
            text,
        )

    def test_one_source(self) -> None:
        """
        Where one option is to blame, its source is told as for any other value,
        and options that have nothing to do with it are not.
        """
        lacking = self.refused("--failure-detection=0.01", "--drain-timeout=4")
        bounds = self.refused("--drain-timeout=4000", VOLTHA_COORD_SESSION_TTL="20")

        self.assertTrue(lacking.startswith("--failure-detection: 0.01 s"), lacking)
        self.assertTrue(
            lacking.endswith("needed (from the command line)"),
            lacking,
        )
        self.assertEqual(
            bounds,
            "--drain-timeout: 4000 is not between 0 and 3600 seconds "
            "(from the command line)",
        )

    def test_prefix_with_a_word_of_ours(self) -> None:
        """
        A prefix is shown as it was written, whatever words are in it.
        """
        text = self.refused("--prefix=/prefix/lock_delay")

        self.assertIn("'/prefix/lock_delay'", text)

    def test_unknown_variables(self) -> None:
        """
        Environment variables that look like options and are none are refused,
        each with the nearest there is; empty ones count as not set.
        """
        text = self.refused(
            VOLTHA_COORD_TOKENFILE="x",
            VOLTHA_COORD_ZZZ="x",
            VOLTHA_COORD_NOTHING="",
        )

        self.assertEqual(
            text,
            "environment variables that are no options: VOLTHA_COORD_TOKENFILE "
            "(is 'VOLTHA_COORD_TOKEN_FILE' meant?), VOLTHA_COORD_ZZZ",
        )

    def test_variables_of_others(self) -> None:
        """
        What voltha-coordctl knows, and what Kubernetes puts beside a service of
        that name, is nobody's mistake.
        """
        options = parsed(
            VOLTHA_COORD_TIMEOUT="3",
            VOLTHA_COORD_SERVICE_HOST="10.0.0.1",
            VOLTHA_COORD_SERVICE_PORT="8880",
            VOLTHA_COORD_SERVICE_PORT_HTTP="8880",
            VOLTHA_COORD_PORT="tcp://10.0.0.1:8880",
            VOLTHA_COORD_PORT_8880_TCP="tcp://10.0.0.1:8880",
            VOLTHA_COORD_PORT_8880_TCP_ADDR="10.0.0.1",
        )

        self.assertEqual(options["rest-port"], 8880)

    def test_token_file(self) -> None:
        """
        The token file can be an option, which wins over Consul's variable; twistd
        may go elsewhere before it is read.
        """
        ours, theirs = self.file("one"), self.file("two")

        options = parsed(
            f"--token-file={os.path.relpath(ours)}", CONSUL_HTTP_TOKEN_FILE=theirs
        )
        by_variable = parsed(CONSUL_HTTP_TOKEN_FILE=os.path.relpath(theirs))

        self.assertEqual(options.connection.token_file, ours)
        self.assertEqual(options.files, [ours])
        self.assertEqual(by_variable.connection.token_file, theirs)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir("/")
        self.assertEqual(options.read_again()["token-file"].value, ours)

    def test_unusable_files(self) -> None:
        """
        A file that cannot be read is refused at once, with what named it, and
        with its path once.
        """
        gone = "'/no/file' cannot be read: No such file or directory"
        secure = {"CONSUL_HTTP_SSL": "1"}
        for arguments, environ, text in [
            (
                ["--token-file=/no/file"],
                {"CONSUL_HTTP_TOKEN_FILE": "/no/file"},
                f"--token-file: token file {gone} (from the command line)",
            ),
            (
                [],
                {"VOLTHA_COORD_TOKEN_FILE": "/no/file"},
                f"--token-file: token file {gone} (from VOLTHA_COORD_TOKEN_FILE)",
            ),
            (
                [],
                {"CONSUL_HTTP_TOKEN_FILE": "/no/file"},
                f"CONSUL_HTTP_TOKEN_FILE: token file {gone}",
            ),
            (
                [],
                {"CONSUL_CACERT": "/no/file", **secure},
                f"CONSUL_CACERT: CA file {gone}",
            ),
            (
                [],
                {"CONSUL_CAPATH": "/no/file", **secure},
                f"CONSUL_CAPATH: CA path {gone}",
            ),
            (
                [],
                {"CONSUL_CLIENT_CERT": "/no/file", **secure},
                f"CONSUL_CLIENT_CERT: client certificate {gone}",
            ),
        ]:
            self.assertEqual(self.refused(*arguments, **environ), text)

    def test_embedded_needs_nothing_else(self) -> None:
        """
        What Consul's own variables say of an address and of TLS does not count
        with an embedded Consul.
        """
        options = parsed(
            "--consul=embedded:8501",
            CONSUL_HTTP_ADDR="a:b",
            CONSUL_HTTP_SSL="1",
            CONSUL_CACERT="/no/file",
        )

        self.assertEqual(options.connection.addresses, (Address(port=8501),))

    def test_help_of_what_is_wrong(self) -> None:
        """
        After wrong usage, of whatever kind, the help that twistd prints is one
        line; else it has every option.
        """
        options = Options(HOST)
        self.assertIn("--weight=", options.getUsage())
        for wrong in ("--weight=x", "--no-such-option", "argument"):
            options = Options(HOST)
            self.assertRaises(UsageError, options.parseOptions, [wrong])
            self.assertEqual(
                options.getUsage(), "twistd voltha_coord --help lists the options."
            )

    def test_version(self) -> None:
        """
        ``--version`` prints our version and Twisted's.
        """
        out = StringIO()
        self.patch(sys, "stdout", out)

        ended = self.assertRaises(SystemExit, parsed, "--version")

        self.assertEqual(ended.code, 0)
        self.assertEqual(
            out.getvalue(), f"voltha_coord {__version__} (Twisted {twisted_version})\n"
        )

    def test_file(self) -> None:
        """
        A file gives options too, lists among them; it yields to the rest.
        """
        path = self.mktemp()
        with open(path, "w") as file:
            file.write("consul: [c1, c2]\nweight: 3\nno-lead: true\nrest-port: off\n")

        options = parsed(f"--config={path}", "--weight=4")

        self.assertEqual([a.host for a in options.connection.addresses], ["c1", "c2"])
        self.assertEqual(options["weight"], 4.0)
        self.assertIs(options["no-lead"], True)
        self.assertIsNone(options["rest-port"])

    def test_isolation_in_a_file(self) -> None:
        """
        A file names them the same; a bare no of YAML's is none of the words.
        """
        path = self.file("isolation: keep\nstuck_work: report\nemergency-timeout: 4\n")
        settings = parsed(f"--config={path}").settings
        refused = self.refused(f"--config={self.file('isolation: off')}")

        self.assertEqual(
            (settings.isolation, settings.stuck_work, settings.emergency_timeout),
            ("keep", "report", 4.0),
        )
        self.assertIn("--isolation: False is none of stop, keep, takeover", refused)

    def test_read_again(self) -> None:
        """
        Reading again sees the file as it is then, below the same command line,
        even from another directory.
        """
        path = self.mktemp()
        with open(path, "w") as file:
            file.write("weight: 3\nlog-level: info\n")
        options = parsed(f"--config={path}", "--log-level=error")
        with open(path, "w") as file:
            file.write("weight: 5\nlog-level: debug\n")
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(os.path.dirname(os.path.abspath(path)))

        values = options.read_again()

        self.assertEqual(values["weight"].value, 5.0)
        self.assertEqual(values["log-level"].value, "error")

    def test_help(self) -> None:
        """
        The help shows every option, with its environment variables.
        """
        shown = "".join(str(Options({})).split())

        for parameter in PARAMETERS:
            self.assertIn(f"--{parameter.name}", shown)
            for variable in parameter.variables:
                self.assertIn(variable, shown)

    def test_primary_address(self) -> None:
        """
        The default address is one of this host's.
        """
        self.assertRegex(primary_ipv4(), r"^\d+\.\d+\.\d+\.\d+$")


class MeterTests(SynchronousTestCase):
    """
    Tests of :func:`meter_of`.
    """

    def test_measured(self) -> None:
        """
        Where the leader plans by resources, what the options ask for is measured,
        and so much of it may be used.
        """
        machine = meter_of(parsed("--leader=resource", "--max-cpu=50"))
        work = meter_of(
            parsed("--leader=resource", "--measure=work", "--max-memory=25")
        )

        assert machine is not None and work is not None
        self.assertIsInstance(machine, MachineMeter)
        self.assertIsInstance(work, WorkMeter)
        capacity = machine.capacity()
        self.assertEqual(capacity["cpu_limit"], 50 * capacity["ncpu"])
        self.assertEqual(
            work.capacity()["memory_limit"], int(capacity["memory_total"] * 0.25)
        )

    def test_not_measured(self) -> None:
        """
        Under any other leader nothing is measured, whatever the options say.
        """
        self.assertIsNone(meter_of(parsed("--measure=work", "--max-cpu=50")))


class MakeServiceTests(SynchronousTestCase):
    """
    Tests of :func:`makeService`.
    """

    def setUp(self) -> None:
        """
        Leave structlog as it was, and print nowhere.
        """
        if structlog.is_configured():
            self.addCleanup(structlog.configure, **structlog.get_config())
        else:
            self.addCleanup(structlog.reset_defaults)
        self.reactor = MemoryReactorClock()
        self.made: list[RecordingCoordinator] = []

    def make(self, *arguments: str, twistd: Any = None) -> CoordinatorService:
        """
        Make the service of a command line.
        """
        options: Any = parsed(*arguments)
        options.parent = {"nodaemon": True} if twistd is None else twistd

        def make(**bound: Any) -> RecordingCoordinator:
            self.made.append(RecordingCoordinator(**bound))
            return self.made[-1]

        return makeService(options, self.reactor, make)

    def test_service(self) -> None:
        """
        It makes a service, and nothing is opened or scheduled before that is
        started.
        """
        service = self.make("--consul=embedded")

        verifyObject(IService, service)
        self.assertEqual(self.reactor.tcpServers, [])
        self.assertEqual(self.reactor.getDelayedCalls(), [])
        self.assertEqual(self.made, [])

    def test_listens(self) -> None:
        """
        Started, it listens where it was told to, and makes the Coordinator with
        that port.
        """
        service = self.make("--rest-port=8881", "--rest-host=127.0.0.2")
        service.startService()

        ((port, _, _, interface),) = self.reactor.tcpServers
        self.assertEqual((port, interface), (8881, "127.0.0.2"))
        self.assertEqual(self.made[0].made_with, ((), {"rest_port": 8881}))
        self.end(service)

    def test_off(self) -> None:
        """
        Without a web face nothing listens, and no port is published.
        """
        service = self.make("--rest-port=off")
        service.startService()

        self.assertEqual(self.reactor.tcpServers, [])
        self.assertEqual(self.made[0].made_with, ((), {"rest_port": 0}))
        self.end(service)

    def test_embedded(self) -> None:
        """
        The embedded Consul listens on loopback only, before the Coordinator,
        which is told where.
        """
        service = self.make("--consul=embedded:8501", "--rest-port=off")
        service.startService()

        ((port, _, _, interface),) = self.reactor.tcpServers
        self.assertEqual((port, interface), (8501, "127.0.0.1"))
        self.assertEqual(
            self.made[0].made_with,
            ((), {"rest_port": 0, "consul": "127.0.0.1:8501"}),
        )
        self.end(service)

    def end(self, service: CoordinatorService) -> None:
        """
        Stop the service.
        """
        stopping = service.stopService()
        self.made[0].ending.callback(None)
        self.successResultOf(stopping)

    def application(self, **twistd: Any) -> Any:
        """
        Join an application, as twistd does.
        """
        application = Application("voltha_coord")
        self.make(twistd=twistd).setServiceParent(application)
        return application

    def test_watchdog(self) -> None:
        """
        A process that is to end when its work does not stop is watched over, as
        long as the service runs: of which lease, and of what work, is asked of
        the Coordinator there is.
        """
        service: Any = self.make("--rest-port=off")
        (watchdog,) = [one for one in service if isinstance(one, Watchdog)]
        self.assertEqual((watchdog._deadline(), watchdog._here()), (None, ()))

        service.startService()
        self.made[0].work_deadline = 5.0
        self.made[0].unstopped_work = ("x",)
        self.assertTrue(watchdog.running)
        self.assertEqual((watchdog._deadline(), watchdog._here()), (5.0, ("x",)))
        self.assertIs(watchdog._end, end_process)
        self.end(service)

        self.assertFalse(watchdog.running)

    def test_no_watchdog(self) -> None:
        """
        Where work is to go on without a lease, or stuck work is only to be
        reported, nothing watches.
        """
        for arguments in (
            ["--stuck-work=report"],
            ["--isolation=keep"],
            ["--isolation=takeover"],
        ):
            service: Any = self.make(*arguments)

            self.assertEqual([o for o in service if isinstance(o, Watchdog)], [])

    def test_log_in_the_foreground(self) -> None:
        """
        Twistd is given our log, on standard output in the foreground.
        """
        out = StringIO()
        self.patch(sys, "stdout", out)

        observer = self.application(nodaemon=True).getComponent(ILogObserver)
        observer({"log_time": 0.0, "log_format": "hello", "log_namespace": "x"})

        self.assertIn("hello", out.getvalue())

    def test_log_file(self) -> None:
        """
        A log file that twistd was told of is written to.
        """
        path = self.mktemp()

        application = self.application(logfile=path, nodaemon=False)
        observer = application.getComponent(ILogObserver)
        observer({"log_time": 0.0, "log_format": "hello", "log_namespace": "x"})

        with open(path) as file:
            self.assertIn("hello", file.read())

    def test_log_of_twistds_own(self) -> None:
        """
        With ``--syslog``, ``--logger``, another runner than twistd, or an
        observer of the application's, the log is left alone, and no file made.
        """
        here = set(os.listdir())
        foreground: dict[str, Any] = {"nodaemon": True}
        for told in (
            {**foreground, "syslog": True},
            {**foreground, "logger": "x"},
            {"logFile": sys.stdout},
        ):
            component = self.application(**told).getComponent(ILogObserver, None)
            self.assertIsNone(component)
        self.assertEqual(set(os.listdir()), here)
        application: Any = Application("voltha_coord")
        application.setComponent(ILogObserver, print)
        self.make().setServiceParent(application)
        self.assertIs(application.getComponent(ILogObserver), print)


class SteadyClockTests(SynchronousTestCase):
    """
    Tests of the clock the reactor gets.
    """

    def reactor(self, *scheduled: Any) -> Any:
        """
        Make something that is a reactor, but never runs.
        """

        class Idle(ReactorBase):
            def installWaker(self) -> None:  # noqa: N802 (Twisted's name)
                """
                Nothing wakes it.
                """

            def getDelayedCalls(self) -> Any:
                """
                Say what is scheduled.
                """
                return scheduled

        return Idle()

    def test_steady(self) -> None:
        """
        A reactor on which nothing is scheduled gets a clock nobody can set.
        """
        reactor = self.reactor()

        use_steady_clock(reactor)

        self.assertLess(abs(reactor.seconds() - boot_time()), 5.0)

    def test_late(self) -> None:
        """
        A reactor with timers keeps the clock they count on.
        """
        reactor = self.reactor(object())
        before = reactor.seconds

        use_steady_clock(reactor)

        self.assertEqual(reactor.seconds, before)

    def test_own_clock(self) -> None:
        """
        A test's reactor keeps its own clock.
        """
        reactor = MemoryReactorClock()

        use_steady_clock(reactor)
        reactor.advance(3)

        self.assertEqual(reactor.seconds(), 3)
