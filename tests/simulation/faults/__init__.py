"""
What may happen to a cluster: every kind of fault, as data.
"""

from __future__ import annotations

from . import consul, network, operators, processes, resources
from .fault import KINDS, Fault, from_json

__all__ = [
    "KINDS",
    "Fault",
    "consul",
    "from_json",
    "network",
    "operators",
    "processes",
    "resources",
]
