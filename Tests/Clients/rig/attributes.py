"""Extended attributes in their stored form, and versions of other clusters."""

import struct

from rig.wire import USUAL_FEATURES, Feature, Status

SET, SET_QUIET, ADD, ADD_QUIET, DELETE, DELETE_QUIET = 0xA2, 0xA3, 0xA4, 0xA5, 0xA8, 0xA9
JSON, SNAPPY, XATTR = 1, 2, 4
SKIP_CONFLICT_RESOLUTION, FORCE_ACCEPT, REGENERATE_CAS, IS_EXPIRATION = 1, 2, 4, 0x10
FEATURES = (*USUAL_FEATURES, Feature.XATTR)


def stored(attributes, body=b""):
    """A body behind its attributes; these are texts by name."""
    pairs = b""
    for name, value in attributes.items():
        pair = name.encode() + b"\0" + value.encode() + b"\0"
        pairs += struct.pack(">I", len(pair)) + pair
    return struct.pack(">I", len(pairs)) + pairs + body


def split(value):
    """The attributes and the body of a stored value."""
    total = int.from_bytes(value[:4], "big")
    pairs, body, found = value[4 : 4 + total], value[4 + total :], {}
    while pairs:
        count = int.from_bytes(pairs[:4], "big")
        name, text, rest = pairs[4 : 4 + count].split(b"\0")
        assert rest == b""
        found[name.decode()] = text.decode()
        pairs = pairs[4 + count :]
    return found, body


def extras(revision, cas, flags=0, expiry=0, options=None, extended=None):
    """The extras of a version, in the shortest form that has them."""
    data = struct.pack(">IIQQ", flags, expiry, revision, cas)
    data += b"" if options is None else struct.pack(">I", options)
    return data + (b"" if extended is None else struct.pack(">H", extended))


def write(kv, key, attributes, body=b"", op=SET, revision=1, cas=1000, datatype=XATTR, **more):
    """Stores a version with attributes; the reply has to be a success."""
    reply = kv.call(
        op, key, extras(revision, cas, **more), stored(attributes, body), datatype=datatype
    )
    assert reply.status == Status.SUCCESS, reply
    return reply
