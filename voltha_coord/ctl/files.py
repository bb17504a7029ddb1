"""
Work items that are read from files: one value, or many items.  Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from .._json import RecordError, parse
from ..errors import CoordinationError
from ..work_checks import check_item, encode, kind
from .ids import work_ids

#: So many of the problems of a file are told; the rest is counted.
MOST_PROBLEMS = 3

_YAML = (".yaml", ".yml")
_JSON = ".json"


class _Loader(yaml.SafeLoader):
    """
    YAML in which no name of an object stands twice.
    """

    def compose_mapping_node(self, anchor: Any) -> Any:
        """
        Read an object.

        :raises ConstructorError: when a name stands twice.
        """
        made = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in made.value:
            name = (key.tag, key.value) if isinstance(key.value, str) else None
            if name in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} stands here twice", key.start_mark
                )
            if name is not None:
                seen.add(name)
        return made


def document(name: str, raw: bytes) -> Any:
    """
    Give what a file says: JSON where its name ends so; else YAML, or JSON, which
    is not quite a part of that: tabs and ``1e9`` are something else there.

    :param name: of the file.
    :raises CoordinationError: naming the file, and the place in it.
    """
    if not name.endswith(_YAML):
        try:
            parse(name, raw)
            return json.loads(raw, object_pairs_hook=_once)
        except ValueError as error:
            if name.endswith(_JSON):
                why = error.reason if isinstance(error, RecordError) else error
                raise CoordinationError(f"{name}: {why}") from error
    try:
        return yaml.load(raw.decode("utf-8"), _Loader)
    except UnicodeDecodeError as error:
        raise CoordinationError(f"{name}: not UTF-8") from error
    except RecursionError as error:
        raise CoordinationError(f"{name}: nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:
        words = " ".join(str(error).split())
        raise CoordinationError(f"{name}: not YAML: {words}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands in an object twice")
    return found


def is_typed(name: str) -> bool:
    """
    Whether the name of a file says what is in it.
    """
    return name.endswith((*_YAML, _JSON))


def value(name: str, raw: bytes) -> bytes:
    """
    Give the value of an item that a file holds: the bytes as they are, but for
    YAML, which is written as JSON.

    :raises CoordinationError: when the name says what it is, and it is not.
    """
    if not is_typed(name):
        return raw
    values = document(name, raw)
    if name.endswith(_JSON) and not isinstance(values, Mapping):
        return raw
    problems = check_item(values).problems
    if problems:
        raise CoordinationError(f"{name}: {_few(problems)}")
    return raw if name.endswith(_JSON) else encode(values)


def items(name: str, raw: bytes) -> dict[str, bytes]:
    """
    Give the items of a file: an object of them by id, or a list of objects that
    have an ``id`` each.  An id may hold ranges.

    :return: what each is to hold, by id; without any field that is empty.
    :raises CoordinationError: naming the file, the items, and their fields, when
        any of them cannot be written.
    """
    found: dict[str, bytes] = {}
    problems: list[str] = []
    for place, id, values in _listed(name, document(name, raw)):
        try:
            ids = work_ids([id])
        except CoordinationError as error:
            problems.append(f"{place}: {error}")
            continue
        twice = next((one for one in ids if one in found), None)
        if twice is not None:
            problems.append(f"{place}: {twice} stands there twice")
        if values is None:
            found |= dict.fromkeys(ids, b"")
            continue
        wrong = check_item(values).problems
        problems += [f"{place}: {problem}" for problem in wrong]
        if not wrong:
            found |= dict.fromkeys(ids, encode(values) if values else b"")
    if problems:
        raise CoordinationError(f"{name}: {_few(problems)}; nothing is written")
    return found


def _listed(name: str, content: Any) -> Iterator[tuple[str, str, Any]]:
    if isinstance(content, Mapping):
        for id, values in content.items():
            yield _place(name, repr(id), id), id, values
        return
    if not isinstance(content, list):
        raise CoordinationError(
            f"{name}: {kind(content)}, neither an object of items by id nor a list"
        )
    for number, values in enumerate(content, 1):
        place = f"item {number}"
        if not isinstance(values, Mapping) or "id" not in values:
            said = "has no id" if isinstance(values, Mapping) else kind(values)
            raise CoordinationError(f"{name}: {place}: {said}, not an item with an id")
        id = values["id"]
        rest = {field: value for field, value in values.items() if field != "id"}
        yield _place(name, place, id), id, rest


def _place(name: str, place: str, id: Any) -> str:
    if not isinstance(id, str):
        raise CoordinationError(
            f"{name}: {place}: the id is {kind(id)}, not a text: put it in quotes"
        )
    return id


def _few(problems: Sequence[str]) -> str:
    more = len(problems) - MOST_PROBLEMS
    rest = f"; and {more} more" if more > 0 else ""
    return "; ".join(problems[:MOST_PROBLEMS]) + rest
