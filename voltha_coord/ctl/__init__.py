"""
The ``voltha-coordctl`` command: looks at a cluster through Consul.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """
    Be the command; ends the process.
    """
    from .commands import voltha_coordctl

    voltha_coordctl(prog_name="voltha-coordctl")
