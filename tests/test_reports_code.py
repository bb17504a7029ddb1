"""
What users of such systems reported about how they were built, seen in the code
itself: somebody else's client in the middle of everything, digests that a machine
forbids, and processes that are copies of their parents.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import voltha_coord

PACKAGE = Path(voltha_coord.__file__).parent
ROOT = Path(__file__).resolve().parent.parent

#: The library whose endpoints applications are given.
CLIENT = "consul"

#: Digests that a machine in FIPS mode refuses to make for security.
REFUSED = {"md5", "sha1"}

#: What makes a process that begins as a copy of another.
COPYING = {"fork", "forkpty"}


@cache
def modules() -> dict[str, ast.Module]:
    """
    Give every module of the package, by its path.
    """
    return {
        str(path.relative_to(PACKAGE.parent)): ast.parse(path.read_text("utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def imported(tree: ast.Module) -> set[str]:
    """
    Give the packages that a module imports by their full names.
    """
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(str(node.module).partition(".")[0])
    return names


class CodeTests(SynchronousTestCase):
    """
    The code.
    """

    def test_client(self) -> None:
        """
        Nothing that keeps a member alive, elects or works goes through
        python-consul2: it gives its endpoints to applications, and its exceptions
        their names (field report 101).
        """
        users = {name for name, tree in modules().items() if CLIENT in imported(tree)}
        makers = {
            name
            for name, tree in modules().items()
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.level
            if node.module in ("client", "consul.client")
        }

        self.assertEqual(
            users, {"voltha_coord/consul/client.py", "voltha_coord/errors.py"}
        )
        self.assertEqual(makers, {"voltha_coord/coordinator.py"})

    def test_client_is_for_applications(self) -> None:
        """
        The Coordinator itself makes no request through it, but for those three
        calls that an application makes on it (field report 101).
        """
        tree = modules()["voltha_coord/coordinator.py"]
        uses = {
            ast.unparse(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and ast.unparse(node).startswith("self.consul.")
        }

        self.assertEqual(
            uses,
            {"self.consul.kv"}
            | {f"self.consul.kv.{verb}" for verb in ("get", "put", "delete")},
        )

    def test_digests(self) -> None:
        """
        No digest is made that a machine in FIPS mode refuses; the ring of the
        original, whose owners are made of MD5, says that it is not for security
        (field report 125).
        """
        made = []
        for name, tree in modules().items():
            self.assertNotIn("_md5", imported(tree))
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module == "hashlib":
                    names = {alias.name for alias in node.names}
                    self.assertEqual(names & {*REFUSED, "new"}, set(), name)
                if not isinstance(node, ast.Call):
                    continue
                called = ast.unparse(node.func)
                self.assertNotEqual(called, "hashlib.new", name)
                if called.removeprefix("hashlib.") in REFUSED:
                    words = {
                        word.arg: ast.unparse(word.value) for word in node.keywords
                    }
                    self.assertEqual(words.get("usedforsecurity"), "False", name)
                    made.append(name)

        self.assertEqual(made, ["voltha_coord/planning/hash_ring.py"])

    def test_no_copies(self) -> None:
        """
        Neither the package nor its tests and examples make a process that is a copy
        of one that runs, with none of its threads and all of its connections: each
        begins anew (field report 150).
        """
        folders = [PACKAGE, *(ROOT / name for name in ("tests", "examples", "twisted"))]
        paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
        for path in paths:
            text = path.read_text("utf-8")
            if not any(word in text for word in ("multiprocessing", *COPYING)):
                continue
            tree = ast.parse(text)
            self.assertNotIn("multiprocessing", imported(tree), path)
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and node.attr in COPYING:
                    self.assertNotEqual(ast.unparse(node.value), "os", path)

        self.assertGreater(len(paths), 100)
