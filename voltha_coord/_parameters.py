"""
What ``twistd voltha_coord`` can be told: its options, declared.
"""

from __future__ import annotations

from . import _logging, config
from .config import Parameter
from .consul.address import DEFAULT_PORT
from .ending import STUCK_STATUS
from .keys import check_instance_id
from .load import MACHINE, MAX_PERCENT, MEASURED
from .settings import EXIT, ISOLATIONS, STUCK_WORK, Settings

#: What ``--consul`` calls a Consul inside this process.
EMBEDDED = "embedded"

_SETTING = Settings()

#: All but the one that names the file.
PARAMETERS = (
    Parameter(
        "instance-id",
        check_instance_id,
        None,
        "what this member is called; no two members of a cluster share it",
        aliases=("INSTANCE_ID",),
        shown_default="HOSTNAME, else the host's name",
    ),
    Parameter(
        "consul",
        config.texts,
        None,
        "where Consul is: host:port, a URL, unix:///path, or embedded[:port] for "
        "one inside this process; may be repeated: agents are tried in turn",
        aliases=("CONSUL",),
        kind="list",
        shown_default=f"CONSUL_HTTP_ADDR, else localhost:{DEFAULT_PORT}",
    ),
    Parameter(
        "internal-host-address",
        config.host,
        None,
        "the host's address inside the cluster",
        aliases=("INTERNAL_HOST_ADDRESS",),
        shown_default="the primary IPv4 address",
    ),
    Parameter(
        "external-host-address",
        config.host,
        None,
        "the host's address for others; the member record shows it",
        aliases=("EXTERNAL_HOST_ADDRESS",),
        shown_default="the primary IPv4 address",
    ),
    Parameter(
        "rest-port",
        config.port_or_off,
        8880,
        "the port of /health, /ready and /status; 0 picks one, off disables",
        aliases=("REST_PORT",),
    ),
    Parameter("rest-host", config.host, "127.0.0.1", "the address that port is on"),
    Parameter(
        "prefix",
        config.text,
        _SETTING.prefix,
        "the keys of this cluster live under it",
    ),
    Parameter(
        "leader",
        config.text,
        "balanced",
        "how the leader divides the work: balanced, hash-ring, resource (where there "
        "is CPU and memory for it), or a plugin's name",
    ),
    Parameter(
        "worker",
        config.text,
        "track",
        "what running a work item means: track (nothing), process (the command in "
        "its config is kept running; see --allow-command), or a plugin's name",
    ),
    Parameter(
        "allow-command",
        config.patterns,
        (),
        "a pattern of the commands that --worker process may run: the program's "
        "absolute path, or with blanks the whole command line; * stands for "
        "anything; may be repeated; without any, nothing runs",
        kind="list",
        shown_default="none",
    ),
    Parameter(
        "state-directory",
        config.text,
        None,
        "where --worker process writes down what runs",
        shown_default="a directory of this user's",
    ),
    Parameter(
        "weight", config.weight, 1.0, "the member's share of the work beside others'"
    ),
    Parameter(
        "measure",
        config.one_of(*MEASURED),
        MACHINE,
        "what a leader that plans by resources is told; machine: what is used of the "
        "machine, or of the container; work: what this member's items use, for "
        "several members on one machine",
    ),
    Parameter(
        "max-cpu",
        config.percent,
        MAX_PERCENT,
        "percent of the CPU that may be in use; beyond it such a leader starts nothing "
        "here",
    ),
    Parameter(
        "max-memory",
        config.percent,
        MAX_PERCENT,
        "percent of the memory that may be in use",
    ),
    Parameter(
        "no-lead", config.boolean, False, "never stand for leadership", kind="flag"
    ),
    Parameter(
        "failure-detection",
        config.number,
        _SETTING.failure_detection,
        "seconds in which the death of this process is noticed; 0: twice session-ttl",
    ),
    Parameter(
        "lock-delay",
        config.number,
        _SETTING.lock_delay,
        "seconds Consul keeps a lost lock to itself",
    ),
    Parameter(
        "session-ttl",
        config.number,
        _SETTING.session_ttl,
        "TTL of the Consul session in seconds: what outage of Consul is ridden out",
    ),
    Parameter(
        "node-health",
        config.boolean,
        _SETTING.node_health,
        "end the session also when Consul finds the whole node failed",
        kind="flag",
    ),
    Parameter(
        "isolation",
        config.one_of(*ISOLATIONS),
        _SETTING.isolation,
        "what becomes of work while Consul is out of reach; stop: it stops in time, "
        "so that it never runs twice; keep: it goes on here, and may run elsewhere "
        "too until contact; takeover: and node-recover-timeout later the last-known "
        "items of the other members run here as well; every member that is cut off "
        "does so, so an item may run on each of them",
    ),
    Parameter(
        "emergency-timeout",
        config.number,
        _SETTING.emergency_timeout,
        "seconds out of reach after which a member with keep or takeover is in an "
        "emergency",
    ),
    Parameter(
        "node-recover-timeout",
        config.number,
        _SETTING.node_recover_timeout,
        "seconds for which the resource leader keeps the items of a member that is "
        "gone for it; and seconds out of reach after which a member with takeover "
        "runs the items of the others",
    ),
    Parameter(
        "stuck-work",
        config.one_of(*STUCK_WORK),
        EXIT,
        "what is done about work that has not stopped when other members may begin "
        f"it; exit: this process ends at once, with status {STUCK_STATUS}; report: "
        "it is said in the log, and nothing else",
    ),
    Parameter(
        "drain-timeout",
        config.number,
        _SETTING.drain_timeout,
        "seconds that stopping may take in all",
    ),
    Parameter(
        "token-file",
        config.text,
        None,
        "a file with the ACL token; SIGHUP reads it again",
        shown_default="CONSUL_HTTP_TOKEN_FILE, else CONSUL_HTTP_TOKEN",
    ),
    Parameter(
        "datacenter",
        config.datacenter,
        None,
        "the Consul datacenter to ask",
        shown_default="the agent's own",
    ),
    Parameter(
        "log-format",
        config.one_of(*_logging.FORMATS),
        "console",
        f"{' or '.join(_logging.FORMATS)}",
    ),
    Parameter(
        "log-level",
        config.one_of(*_logging.LEVELS),
        "info",
        f"the least that is logged: {', '.join(_logging.LEVELS)}",
    ),
)

#: Names the file that may hold the others.
CONFIG = Parameter(
    "config",
    config.text,
    None,
    "a YAML file of options, by the same names; SIGHUP reads it again",
)
