"""
Random requests, the same to the embedded and to the real Consul.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from voltha_coord._types import Steps

from .backends import Backend, MemoryBackend, RealBackend
from .calls import Answer, Calls, op

_KEYS = ("a", "a/1", "a/2", "ab", "b/1", "b/1/x")
_PREFIXES = ("", "a", "a/", "b/", "c/")
_VALUES = (b"", b"1", b"2")
_VERBS = (
    "set",
    "cas",
    "lock",
    "unlock",
    "get",
    "get-tree",
    "check-index",
    "check-session",
    "check-not-exists",
    "delete",
    "delete-cas",
    "delete-tree",
)
_KINDS = (
    "put",
    "cas",
    "acquire",
    "release",
    "get",
    "list",
    "names",
    "delete",
    "delete-cas",
    "delete-tree",
    "session",
    "txn",
    "txn",
    "txn",
)
_STEPS = 400
_SEEDS = (1, 2)


class _Run:
    """
    A run of random requests.  Two runs of one seed choose the same, although
    ids and indexes differ between the backends.
    """

    def __init__(self, backend: Backend, seed: int) -> None:
        self._random = random.Random(seed)
        self._calls = Calls(backend)
        self._prefix = backend.prefix
        self._sessions: list[str] = []
        self._indexes: dict[str, int] = {}
        self._seen: list[str] = []

    @inlineCallbacks
    def run(self) -> Steps[list[str]]:
        """
        Make the requests, and give the answers in words that do not depend on
        the backend.
        """
        for _ in range(2):
            yield self._begin_session()
        for _ in range(_STEPS):
            yield self._step()
        for session in self._sessions:
            yield self._calls.destroy(session)
        return list(self._common())

    def _common(self) -> Iterator[str]:
        found = "\n".join(self._seen)
        indexes = sorted({int(n) for n in re.findall(r"@(\d+)", found)})
        ranks = {str(index): f"#{rank}" for rank, index in enumerate(indexes)}
        for number, session in enumerate(self._sessions):
            found = found.replace(session, f"session-{number}")
        found = found.replace(self._prefix, "")
        return iter(re.sub(r"@(\d+)", lambda m: ranks[m[1]], found).split("\n"))

    def _note(self, what: str, answer: Answer) -> None:
        text = answer.text
        if answer.headers.get("content-type", "").startswith("application/json"):
            found = answer.json
            self._remember(found)
            if isinstance(found, dict):
                found = {name: found[name] for name in ("Results", "Errors")}
            text = json.dumps(found, sort_keys=True)
        text = re.sub(r'(Index": )(\d+)', self._mark, text)
        text = re.sub(r"(modify index )(\d+) != (\d+)", r"\1@\2 != @\3", text)
        if "x-consul-index" in answer.headers:
            text += f" @{answer.index}"
        self._seen.append(f"{what} -> {answer.status} {text}")

    @staticmethod
    def _mark(found: re.Match[str]) -> str:
        # OpIndex and LockIndex count from zero, and are alike as they are.
        before = found.string[: found.start()]
        if before.endswith(("Create", "Modify")):
            return f"{found[1]}@{found[2]}"
        return found[0]

    def _remember(self, found: Any) -> None:
        if isinstance(found, dict):
            rows = [row["KV"] for row in found.get("Results") or []]
        elif isinstance(found, list):
            rows = [row for row in found if isinstance(row, dict)]
        else:
            rows = []
        for row in rows:
            if "ModifyIndex" in row and "Key" in row:
                self._indexes[row["Key"]] = row["ModifyIndex"]

    @inlineCallbacks
    def _begin_session(self) -> Steps[None]:
        session = yield self._calls.session(
            Behavior=self._random.choice(("release", "delete"))
        )
        self._sessions.append(session)

    def _index(self, key: str) -> int:
        return self._random.choice((0, self._indexes.get(key, 0)))

    @inlineCallbacks
    def _step(self) -> Steps[None]:
        draw = self._random
        key = self._prefix + draw.choice(_KEYS)
        prefix = self._prefix + draw.choice(_PREFIXES)
        value, session = draw.choice(_VALUES), draw.choice(self._sessions)
        kind = draw.choice(_KINDS)
        flags = draw.choice((0, 0, 5))
        calls = self._calls
        if kind == "put":
            answer = yield calls.put(key, value, flags=flags)
        elif kind == "cas":
            answer = yield calls.put(key, value, cas=self._index(key))
        elif kind in ("acquire", "release"):
            answer = yield calls.put(key, value, **{kind: session})
        elif kind == "get":
            answer = yield calls.get(key)
        elif kind == "list":
            answer = yield calls.get(prefix, recurse=True)
        elif kind == "names":
            answer = yield calls.get(prefix, keys=True, separator="/")
        elif kind == "delete":
            answer = yield calls.delete(key)
        elif kind == "delete-cas":
            answer = yield calls.delete(key, cas=self._index(key))
        elif kind == "delete-tree":
            answer = yield calls.delete(prefix, recurse=True)
        elif kind == "txn":
            answer = yield calls.txn(*self._operations())
        else:
            answer = yield calls.destroy(session)
            yield self._begin_session()
        self._note(f"{kind} {key} {prefix} {session}", answer)

    def _operations(self) -> list[dict[str, Any]]:
        draw = self._random
        operations = []
        for _ in range(draw.randint(1, 4)):
            verb = draw.choice(_VERBS)
            tree = verb in ("get-tree", "delete-tree")
            key = self._prefix + draw.choice(_PREFIXES if tree else _KEYS)
            more: dict[str, Any] = {"index": self._index(key)}
            if verb in ("lock", "unlock", "check-session"):
                more["session"] = draw.choice(self._sessions)
            operations.append(op(verb, key, draw.choice(_VALUES), **more))
        return operations


class DifferentialTests(TestCase):
    """
    The embedded Consul answers as the real one does.
    """

    timeout = 120

    @inlineCallbacks
    def _history(self, kind: type[Backend], seed: int) -> Steps[list[str]]:
        backend = kind()
        self.addCleanup(backend.tear_down)
        answers: list[str] = yield _Run(backend, seed).run()
        return answers

    @inlineCallbacks
    def test_same_answers(self) -> Steps[None]:
        """
        4.1 to 4.3: to the same requests both give the same statuses, texts,
        entries and order of indexes, those of empty reads included.
        """
        for seed in _SEEDS:
            embedded: list[str] = yield self._history(MemoryBackend, seed)
            real: list[str] = yield self._history(RealBackend, seed)
            self.assertEqual(len(real), _STEPS)
            for position, (mine, theirs) in enumerate(zip(embedded, real, strict=True)):
                self.assertEqual(mine, theirs, f"seed {seed}, step {position}")
