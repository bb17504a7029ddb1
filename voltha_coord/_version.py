"""
The version, from the installed package.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("voltha_coord")
except PackageNotFoundError:  # pragma: no cover - a source tree not installed
    __version__ = "0+unknown"
