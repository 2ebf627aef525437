#!/usr/bin/env python3
"""Makes the data directory of a release, for the releases after it: README.md has how to run it."""

import hashlib
import json
import pathlib
import struct
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from rig import recorded, wire  # noqa: E402
from rig.node import Node, wait_until  # noqa: E402
from rig.recorded import Recorded  # noqa: E402
from rig.views import Views  # noqa: E402
from rig.wire import Op, Status, vbucket_of  # noqa: E402

# The log of the cluster has them. They differ from those that `rig/ports.py` assigns.
PORTS = ("--kv-port", "31210", "--admin-port", "31091", "--views-port", "31092")
PORTS += ("--peer-port", "31093")
BUCKETS = {"kept": "valueOnly", "ejected": "fullEviction"}
USER = {"name": "reader", "password": "secret-reader", "roles": "bucket_full_access[*]"}
YEAR_2100 = 4_102_444_800
MAJORITY = b"\x11\x01"
MAP = "function (doc, meta) { if (doc && doc.kind) emit(%s); }"
VIEWS = {
    "by_number": {"map": MAP % "doc.n, [meta.id, doc.kind]"},
    "kinds": {"map": MAP % "doc.kind, doc.n", "reduce": "_sum"},
}


class Writer:
    """A connection that records the keys and the last seqno of each vBucket."""

    def __init__(self, node, bucket, keys, positions):
        self.connection = node.connect(bucket)
        self.keys, self.positions = keys, positions

    def call(self, op, key, extras=b"", value=b"", **fields):
        key = key.encode() if isinstance(key, str) else key
        reply = self.connection.call(op, key, extras, value, **fields)
        if reply.status != Status.SUCCESS:
            raise RuntimeError(f"{key}: {reply!r}")
        uuid, seqno = reply.token
        place = vbucket_of(key, self.connection.vbuckets)
        self.positions[str(place)] = {"uuid": f"{uuid:016x}", "seqno": seqno}
        self.keys.setdefault(key)
        return reply

    def set(self, key, value, flags=0, expiry=0, op=Op.SET, **fields):
        value = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.call(op, key, struct.pack(">II", flags, expiry), value, **fields)

    def count(self, op, key, delta, initial):
        return self.call(op, key, struct.pack(">QQI", delta, initial, 0))


def write_first(writer):
    """Documents of every kind."""
    for number in range(24):
        value = {"n": number, "kind": ("tree", "bird", "fish")[number % 3], "name": f"Nº {number}"}
        writer.set(f"thing-{number:02}", value, flags=number)
    writer.set("nested", {"a": {"b": [1, -2.5, None, True, {"ß": "\u2028"}]}, "empty": {}, "": []})
    for name, text in {
        "string": b'"text"', "number": b"-12.50e3", "null": b"null", "array": b"[1,2,3]",
        "spaces": b' { "a" : 1 } ', "limits": b"[9223372036854775807,18446744073709551615,0.1]",
    }.items():
        writer.set(f"json-{name}", text)
    writer.set("not-json", b'{"a":1')
    writer.set("binary", bytes(range(256)), flags=0xFFFFFFFF)
    writer.set("random", b"".join(hashlib.sha256(bytes([n])).digest() for n in range(64)))
    writer.set("empty", b"")
    writer.set("empty-with-flags", b"", flags=7)
    writer.set("large", b"A value that compresses well. " * 10_000)
    writer.set("large-json", [{"n": n, "text": "abc"} for n in range(4_000)])
    writer.set("expires", {"kind": "ghost", "n": 100}, expiry=YEAR_2100)
    writer.set("expires-binary", b"\0\1\2", flags=5, expiry=YEAR_2100 + 1)
    writer.set("durable", {"written": "by a majority"}, frames=MAJORITY)
    writer.set("k" * 250, {"key": "of 250 bytes"})
    for key in ("naïve/日本語", "emoji 🌲", "a b%20c", "quote\"'", "_system", "e\u0301"):
        writer.set(key, {"key": key})
    writer.set(b"\xff\xfe not utf-8", b"key of bytes")
    writer.count(Op.INCR, "counter", 1, 41)
    writer.count(Op.INCR, "counter-largest", 1, (1 << 64) - 1)
    for number in range(6):
        writer.set(f"deleted-{number}", {"kind": "gone", "n": number}, flags=number)
    writer.set("back", {"version": 1})
    writer.set("joined", b"middle")
    writer.set("brief", {"kind": "gone"}, expiry=1)


def write_again(writer):
    """Later versions, after a restart: the files have older ones, too."""
    writer.count(Op.INCR, "counter", 5, 0)
    writer.count(Op.DECR, "counter", 4, 0)
    for number in range(6):
        writer.call(Op.DELETE, f"deleted-{number}")
    writer.call(Op.DELETE, "back")
    writer.set("back", {"version": 2}, op=Op.ADD)
    writer.call(Op.APPEND, "joined", value=b"-end")
    writer.call(Op.PREPEND, "joined", value=b"begin-")
    writer.set("thing-00", {"n": -1, "kind": "tree", "replaced": True}, op=Op.REPLACE)
    writer.set("thing-01", {"n": 1, "kind": "stone"}, flags=11, expiry=YEAR_2100)


def await_expiry(writer, key):
    """Waits until a document has become a tombstone, which takes a seqno."""
    connection, place = writer.connection, vbucket_of(key, writer.connection.vbuckets)

    def is_deleted():
        # The read of an expired document deletes it.
        connection.get(key)
        return recorded.observe(connection, key).get("deleted") == 1

    wait_until(is_deleted, 20, f"{key} expires")
    position = writer.positions[str(place)]
    _, position["seqno"] = connection.observe_seqno(place, int(position["uuid"], 16))


def await_disk(node, bucket, positions):
    """Waits until all changes are on disk."""
    with node.connect(bucket) as connection:
        for place, position in positions.items():
            uuid = int(position["uuid"], 16)
            wait_until(
                lambda: connection.observe_seqno(int(place), uuid)[0] == position["seqno"],
                20,
                f"vBucket {place} is persisted",
            )


def rows(node, bucket):
    """The rows of all views, with every change."""
    views = Views(node, bucket)
    return {
        "by_number": views.fresh("old", "by_number").content,
        "kinds": views.fresh("old", "kinds", group=True).content,
    }


def record(node, bucket, keys, positions):
    settings = node.admin.get(f"/pools/default/buckets/{bucket}").json
    with node.connect(bucket) as connection:
        documents = [
            {"key": recorded.as_json(key), **recorded.observe(connection, key)} for key in keys
        ]
    return {
        "uuid": settings["uuid"],
        "evictionPolicy": settings["evictionPolicy"],
        "numVBuckets": settings["numVBuckets"],
        "ram": settings["quota"]["ram"],
        "design": Views(node, bucket).get("old").json,
        "documents": documents,
        "rows": rows(node, bucket),
        "positions": positions,
    }


def make(name):
    with Node(*PORTS) as node:
        node.start().provision(256)
        path = "/settings/rbac/users/local/" + urllib.parse.quote(USER["name"])
        form = {"name": "A Reader", "password": USER["password"], "roles": USER["roles"]}
        if node.admin.put(path, form).status != 200:
            raise RuntimeError("the user was refused")
        written = {bucket: ({}, {}) for bucket in BUCKETS}
        for bucket, policy in BUCKETS.items():
            node.create_bucket(bucket, numVBuckets=64, evictionPolicy=policy)
            if Views(node, bucket).put("old", VIEWS).status != 201:
                raise RuntimeError("the design document was refused")
            write_first(Writer(node, bucket, *written[bucket]))
        if node.stop() != 0:
            raise RuntimeError(node.log())
        node.start()
        answers = {"buckets": {}, "user": USER}
        for bucket in BUCKETS:
            node.await_bucket(bucket)
            writer = Writer(node, bucket, *written[bucket])
            write_again(writer)
            await_expiry(writer, b"brief")
            await_disk(node, bucket, writer.positions)
            answers["buckets"][bucket] = record(node, bucket, *written[bucket])
        answers["featureLevel"] = node.admin.get("/pools/default").json["featureLevel"]
        answers["users"] = node.admin.get("/settings/rbac/users/local").json
        if node.stop() != 0:
            raise RuntimeError(node.log())
        target = Recorded(name)
        target.pack(node.data)
        target.write_answers(answers)


if __name__ == "__main__":
    make(sys.argv[1])
