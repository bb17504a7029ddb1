"""
Makes the benchmarks' worker known: ``twistd voltha_coord --worker recording``.
"""

from __future__ import annotations

from voltha_coord.plugins import WorkerPlugin

recording = WorkerPlugin("recording", "recording.make_worker")
