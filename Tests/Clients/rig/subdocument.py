"""Sub-document requests, byte by byte, and attributes as they are sent."""

import json
import struct

from .wire import Op

GET, EXISTS, DICT_ADD, UPSERT, DELETE, REPLACE = range(0xC5, 0xCB)
PUSH_LAST, PUSH_FIRST, ARRAY_INSERT, ADD_UNIQUE, COUNTER = range(0xCB, 0xD0)
LOOKUP, MUTATION, COUNT, REPLACE_BODY = range(0xD0, 0xD4)
GET_DOC, SET_DOC, DELETE_DOC = Op.GET, Op.SET, Op.DELETE

PATH_MISSING, PATH_EXISTS, PATH_INVALID, TOO_MANY_PATHS = 0xC0, 0xC9, 0xC2, 0xCB
MULTI_PATH_FAILURE, SUCCESS_DELETED, FAILURE_DELETED = 0xCC, 0xCD, 0xD3
ATTRIBUTES = 0x04


class Path:
    """Flags of a path. A macro is always in an attribute."""

    MKDIR, XATTR, BINARY = 0x01, 0x04, 0x20
    MACRO = 0x14


class Doc:
    """Flags of a request."""

    MKDOC, ADD, ACCESS_DELETED, CREATE_AS_DELETED, REVIVE, REPLICA_READ = 1, 2, 4, 8, 0x10, 0x20


CAS, CRC32C = b'"${Mutation.CAS}"', b'"${Mutation.value_crc32c}"'
SEQNO = b'"${Mutation.seqno}"'


def attribute(path, value, op=UPSERT, flags=Path.XATTR):
    """The specification of a write of an attribute; `value` is JSON text or an object."""
    return op, flags, path, value if isinstance(value, bytes) else json.dumps(value).encode()


def macro(path, text=CAS):
    return UPSERT, Path.MACRO, path, text


def body(value):
    """The specification of a write of the whole body."""
    return SET_DOC, 0, "", value


def _lookup(specs):
    for op, flags, path in specs:
        path = path.encode()
        yield struct.pack(">BBH", op, flags, len(path)) + path


def _mutations(specs):
    for op, flags, path, *value in specs:
        path, value = path.encode(), value[0] if value else b""
        yield struct.pack(">BBHI", op, flags, len(path), len(value)) + path + value


def lookup(kv, key, *specs, doc_flags=0, **fields):
    """Sends `(op, flags, path)`..., and returns the reply with `results`: status and value of each."""
    extras = bytes([doc_flags]) if doc_flags else b""
    reply = kv.call(LOOKUP, key, extras, b"".join(_lookup(specs)), **fields)
    reply.results, at = [], 0
    while reply.status in (0, MULTI_PATH_FAILURE, SUCCESS_DELETED, FAILURE_DELETED):
        if at == len(reply.value):
            break
        status, count = struct.unpack_from(">HI", reply.value, at)
        reply.results.append((status, reply.value[at + 6 : at + 6 + count]))
        at += 6 + count
    return reply


def mutate(kv, key, *specs, doc_flags=0, expiry=None, **fields):
    """Sends `(op, flags, path, value)`..., and returns the reply.

    `failed` is the index and status of the path that failed, or None; `results` is the value by
    index of the paths that have one.
    """
    extras = b"" if expiry is None else expiry.to_bytes(4, "big")
    extras += bytes([doc_flags]) if doc_flags else b""
    reply = kv.call(MUTATION, key, extras, b"".join(_mutations(specs)), **fields)
    reply.failed, reply.results, at = None, {}, 0
    if reply.status in (MULTI_PATH_FAILURE, FAILURE_DELETED):
        reply.failed = struct.unpack(">BH", reply.value)
    elif reply.status in (0, SUCCESS_DELETED):
        while at < len(reply.value):
            index, status, count = struct.unpack_from(">BHI", reply.value, at)
            assert status == 0, reply
            reply.results[index] = reply.value[at + 7 : at + 7 + count]
            at += 7 + count
    return reply


def split(message):
    """The attributes of a change, by name as bytes, and its body."""
    value = message.value
    if not message.datatype & ATTRIBUTES:
        return {}, value
    (total,) = struct.unpack_from(">I", value)
    section, rest, found, at = value[4 : 4 + total], value[4 + total :], {}, 0
    while at < total:
        (count,) = struct.unpack_from(">I", section, at)
        name, text, end = section[at + 4 : at + 4 + count].split(b"\0")
        assert end == b"" and name not in found, section
        found[name.decode()] = text
        at += 4 + count
    assert at == total, section
    return found, rest


def cas_text(cas):
    """What `${Mutation.CAS}` stands for."""
    return "0x" + cas.to_bytes(8, "little").hex()


def crc32c_text(data):
    """What `${Mutation.value_crc32c}` stands for."""
    sum = 0xFFFFFFFF
    for byte in data:
        sum ^= byte
        for _ in range(8):
            sum = sum >> 1 ^ (0x82F63B78 if sum & 1 else 0)
    return f"0x{sum ^ 0xFFFFFFFF:08x}"
