"""
Tests of how the real Consul for tests is found, and of the policy it runs with.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from ..support.real_consul import (
    POLICY,
    REQUIRE,
    ConsulMissing,
    find_binary,
    require_binary,
)

_DOCS = Path(__file__).resolve().parents[2] / "docs" / "acl-policy.md"


def _rules(text: str) -> list[tuple[str, str]]:
    return re.findall(r'^(\w+ "[^"]*") \{\s*policy = "(\w+)"\s*\}', text, re.M)


class FindTests(SynchronousTestCase):
    """
    Finding the binary.
    """

    def _set(self, name: str, value: str | None) -> None:
        self.patch(os, "environ", dict(os.environ))
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value

    def test_named(self) -> None:
        """
        ``CONSUL_BIN`` wins.
        """
        path = Path(self.mktemp())
        path.write_text("")
        path.chmod(0o755)
        self._set("CONSUL_BIN", str(path))

        self.assertEqual(find_binary(), str(path))

    def test_missing_skips(self) -> None:
        """
        A Consul that is not there skips a test, with the reason.
        """
        self._set("CONSUL_BIN", "/nonexistent/consul")
        self._set(REQUIRE, None)

        error = self.assertRaises(SkipTest, require_binary)
        self.assertIn("CONSUL_BIN", str(error))

    def test_missing_fails_where_required(self) -> None:
        """
        Where one is required, it fails.
        """
        self._set("CONSUL_BIN", "/nonexistent/consul")
        self._set(REQUIRE, "1")

        self.assertRaises(ConsulMissing, require_binary)


class PolicyTests(SynchronousTestCase):
    """
    The policy that is documented.
    """

    def test_documented(self) -> None:
        """
        The policy in the documentation has the rules the suite runs with.
        """
        rules = _rules(POLICY.read_text())

        self.assertEqual(len(rules), 5)
        self.assertEqual(_rules(_DOCS.read_text()), rules)
