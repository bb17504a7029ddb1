"""
What the embedded Consul answers: JSON, plain texts, and what it refuses.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from ..consul.transport import Response

_TEXT = "text/plain; charset=utf-8"

#: Every answer names what it varies by.
VARY = {"vary": "Accept-Encoding"}

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class Problem(Exception):
    """
    A request that ends with an error status and Consul's words for it.
    """

    def __init__(
        self, status: int, text: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers or {}

    def response(self) -> Response:
        """
        Give it as an answer.
        """
        headers = {"content-type": _TEXT, **VARY, **self.headers}
        return Response(self.status, headers, self.text.encode())


def answer_json(
    value: object, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """
    Give an answer that carries JSON.
    """
    return Response(
        status,
        {"content-type": "application/json", **VARY, **(headers or {})},
        _encode(value).encode(),
    )


def answer_nothing(
    status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """
    Give an answer without a body.
    """
    return Response(status, {**VARY, **(headers or {})}, b"")


_GO_TYPES = {
    str: "string",
    int: "number",
    float: "number",
    bool: "bool",
    list: "array",
    dict: "object",
}


def parse_json(body: bytes, prefix: str) -> Any:
    """
    Parse a body.

    :raises Problem: 400, beginning with ``prefix``.
    """
    try:
        return json.loads(body)
    except ValueError as e:
        where = getattr(e, "pos", 0)
        try:
            text = body.decode()
        except UnicodeDecodeError:
            text = body.decode("latin-1")
        if where >= len(text):
            raise Problem(400, f"{prefix}: unexpected end of JSON input") from None
        raise Problem(
            400,
            f"{prefix}: invalid character '{text[where]}' looking for beginning of "
            f"value",
        ) from None


class Fields:
    """
    The fields of a JSON object as Go reads them: names in any case, with or
    without underscores; ``null`` and a missing field are the same.
    """

    def __init__(self, value: object, prefix: str = "Request decode failed") -> None:
        self._prefix = prefix
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.mistyped(value, "value", "struct")
        self._values = {_fold(name): item for name, item in value.items()}

    def mistyped(self, value: object, name: str, wanted: str) -> Problem:
        """
        Give the complaint about a field of the wrong type.
        """
        found = _GO_TYPES.get(type(value), "null")
        return Problem(
            400,
            f"{self._prefix}: json: cannot unmarshal {found} into Go struct field "
            f".{name} of type {wanted}",
        )

    def has(self, name: str) -> bool:
        """
        Whether the field is there, be it ``null``.
        """
        return _fold(name) in self._values

    def raw(self, name: str) -> Any:
        """
        Give the field as it came.
        """
        return self._values.get(_fold(name))

    def text(self, name: str, default: str = "") -> str:
        """
        Give a field that must be a string.

        :raises Problem: 400, if it is not.
        """
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.mistyped(value, name, "string")
        return value

    def number(self, name: str, default: int = 0) -> int:
        """
        Give a field that must be an integer.

        :raises Problem: 400, if it is not.
        """
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.mistyped(value, name, "int")
        return value

    def items(self, name: str) -> list[Any] | None:
        """
        Give a field that must be an array, ``None`` if it is missing.

        :raises Problem: 400, if it is not.
        """
        value = self.raw(name)
        if value is not None and not isinstance(value, list):
            raise self.mistyped(value, name, "[]string")
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        """
        Give a field that must be an array of strings, ``None`` if missing.

        :raises Problem: 400, if it is not.
        """
        value = self.items(name)
        if value is None:
            return None
        for item in value:
            if not isinstance(item, str):
                raise self.mistyped(item, name, "string")
        return tuple(value)

    def table(self, name: str) -> dict[str, Any]:
        """
        Give a field that must be an object; empty if missing.

        :raises Problem: 400, if it is not.
        """
        value = self.raw(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.mistyped(value, name, "map[string]string")
        return value


@lru_cache(maxsize=1024)
def _fold(name: str) -> str:
    return name.replace("_", "").lower()
