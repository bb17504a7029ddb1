"""
What the example plugs into ``voltha_coord``; found by name, imported when used.

There is no ``__init__.py`` beside this file, nor in the folder above: with one
Twisted would not look here.
"""

from __future__ import annotations

from voltha_coord.plugins import LeaderPlugin, WorkerPlugin

heartbeat = WorkerPlugin(
    "heartbeat", "voltha_coord.worker.Worker", "my_plugin.Heartbeat"
)

standby = LeaderPlugin(
    "standby", "voltha_coord.leader.Leader", "my_plugin.StandbyPlanner"
)
