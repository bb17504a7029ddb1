"""
A transaction's body, and how long it will be.  Pure.

Written by hand rather than through ``json.dumps(op.to_json())``: a leader
encodes tens of thousands of operations in one pass.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii as _quoted

from .model import Op

#: ``{"KV":{"Verb":"","Key":}}`` and the comma that follows.
_FRAME_BYTES = len('{"KV":{"Verb":"","Key":}},')
_VALUE_BYTES = len(',"Value":""')
_INDEX_BYTES = len(',"Index":')
_SESSION_BYTES = len(',"Session":')
_FLAGS_BYTES = len(',"Flags":')

#: The brackets around the operations (the last one has no comma).
BODY_FRAME_BYTES = 1


def encode_op(op: Op) -> str:
    """
    Write one operation as Consul's transaction endpoint takes it.
    """
    text = f'{{"KV":{{"Verb":"{op.verb}","Key":{_quoted(op.key)}'
    if op.value is not None:
        text += f',"Value":"{b2a_base64(op.value, newline=False).decode("ascii")}"'
    if op.index is not None:
        text += f',"Index":{op.index}'
    if op.session is not None:
        text += f',"Session":{_quoted(op.session)}'
    if op.flags:
        text += f',"Flags":{op.flags}'
    return text + "}}"


def encoded_size(op: Op) -> int:
    """
    Give the bytes of an operation inside a body, its comma included, without
    encoding the value.
    """
    size = _FRAME_BYTES + len(op.verb) + len(_quoted(op.key))
    if op.value is not None:
        size += _VALUE_BYTES + 4 * ((len(op.value) + 2) // 3)
    if op.index is not None:
        size += _INDEX_BYTES + len(str(op.index))
    if op.session is not None:
        size += _SESSION_BYTES + len(_quoted(op.session))
    if op.flags:
        size += _FLAGS_BYTES + len(str(op.flags))
    return size


def encode_body(ops: Iterable[Op]) -> bytes:
    """
    Write a transaction's body: at least one operation.
    """
    return f"[{','.join(map(encode_op, ops))}]".encode("ascii")
