"""
What voltha_coord plugs into: twistd, its own ``--leader`` and ``--worker``.

Nothing of what the names stand for is imported before it is used.
"""

from __future__ import annotations

from twisted.application.service import ServiceMaker

from voltha_coord.plugins import LeaderPlugin, WorkerPlugin

voltha_coord = ServiceMaker(
    "voltha_coord",
    "voltha_coord.tap",
    "Run one member of a cluster that Consul coordinates.",
    "voltha_coord",
)

balanced = LeaderPlugin(
    "balanced",
    "voltha_coord.leader.Leader",
    "voltha_coord.planning.balanced.BalancedPlanner",
)

hash_ring = LeaderPlugin(
    "hash-ring",
    "voltha_coord.leader.Leader",
    "voltha_coord.planning.hash_ring.HashRingPlanner",
)

resource = LeaderPlugin(
    "resource",
    "voltha_coord.leader.Leader",
    "voltha_coord.planning.placing.ResourcePlanner",
    emergency="voltha_coord.planning.placing.plan_alone",
    by_resources=True,
)

track = WorkerPlugin("track", "voltha_coord.worker.Worker")

process = WorkerPlugin(
    "process",
    "voltha_coord.worker.Worker",
    runner_of="voltha_coord.runners.process.make_runner",
)
