"""A node that is asked to stop: writes are refused, what was acknowledged is persisted, then it ends."""

import signal
import socket
import struct
import threading
import time

import pytest

from rig.load import Writer
from rig.node import Node, wait_until
from rig.views import Views
from rig.wire import USUAL_FEATURES, Closed, Connection, Feature, Op, Status, frame, vbucket_of
from test_privileges_kv import READ_AND_WRITE, TABLE, WRITE
from test_process import half_a_post

STOPPING = "stopping: writes are refused"
DURABLE = b"\x11\x01"  # Framing extras: durability, one byte, majority.
META = struct.pack(">IIQQ", 0, 0, 7, 1 << 60)
EXPIRY = struct.pack(">I", 10_000)
COUNTER = struct.pack(">QQI", 1, 0, 0)
STORE = bytes(8)


def one_path(value=b"1", path=b"n"):
    """The extras and the value of a mutation of one path."""
    return struct.pack(">HB", len(path), 0), path + value


# By opcode: extras and value of a request that succeeds on a document that exists, and its body.
OBJECT, LIST, NUMBER = b'{"n":1,"l":[1]}', b"[1]", b"5"
WRITES = {
    0x01: (STORE, b"v", OBJECT),  # SET
    0x11: (STORE, b"v", OBJECT),
    0x02: (STORE, b"v", None),  # ADD
    0x12: (STORE, b"v", None),
    0x03: (STORE, b"v", OBJECT),  # REPLACE
    0x13: (STORE, b"v", OBJECT),
    0x04: (b"", b"", OBJECT),  # DELETE
    0x14: (b"", b"", OBJECT),
    0x05: (COUNTER, b"", NUMBER),  # INCREMENT
    0x15: (COUNTER, b"", NUMBER),
    0x06: (COUNTER, b"", NUMBER),  # DECREMENT
    0x16: (COUNTER, b"", NUMBER),
    0x0E: (b"", b"v", OBJECT),  # APPEND
    0x19: (b"", b"v", OBJECT),
    0x0F: (b"", b"v", OBJECT),  # PREPEND
    0x1A: (b"", b"v", OBJECT),
    0x1C: (EXPIRY, b"", OBJECT),  # TOUCH
    0x1D: (EXPIRY, b"", OBJECT),  # GAT, GATQ, GATK, GATKQ
    0x1E: (EXPIRY, b"", OBJECT),
    0x23: (EXPIRY, b"", OBJECT),
    0x24: (EXPIRY, b"", OBJECT),
    0xA2: (META, b"v", None),  # SET_WITH_META
    0xA3: (META, b"v", None),
    0xA4: (META, b"v", None),  # ADD_WITH_META
    0xA5: (META, b"v", None),
    0xA8: (META, b"", None),  # DELETE_WITH_META
    0xA9: (META, b"", None),
    0xC7: (*one_path(path=b"m"), OBJECT),  # SUBDOC_DICT_ADD
    0xC8: (*one_path(), OBJECT),  # SUBDOC_DICT_UPSERT
    0xC9: (*one_path(b""), OBJECT),  # SUBDOC_DELETE
    0xCA: (*one_path(), OBJECT),  # SUBDOC_REPLACE
    0xCB: (*one_path(path=b"l"), OBJECT),  # SUBDOC_ARRAY_PUSH_LAST
    0xCC: (*one_path(path=b"l"), OBJECT),  # SUBDOC_ARRAY_PUSH_FIRST
    0xCD: (*one_path(path=b"l[0]"), OBJECT),  # SUBDOC_ARRAY_INSERT
    0xCE: (*one_path(b"2", b"l"), OBJECT),  # SUBDOC_ARRAY_ADD_UNIQUE
    0xCF: (*one_path(), OBJECT),  # SUBDOC_COUNTER
    0xD1: (b"", b"\xc8\0\0\1\0\0\0\1n2", OBJECT),  # SUBDOC_MULTI_MUTATION
}
# It has no request that succeeds without an attribute to copy into the body.
NOT_WALKED = {0xD3}


def opcodes_of(*privileges):
    return {int(op, 16) for row in TABLE for op in row[0].split() if row[4] in privileges}


def key_of(opcode, round):
    return f"{round}-{opcode:02x}".encode()


def answer(connection, opcode, key, extras, value):
    """The status of a request; None if it has no response."""
    place = vbucket_of(key, connection.vbuckets)
    connection.send(
        frame(opcode, key, extras, value, vbucket=place, opaque=7) + frame(Op.NOOP, opaque=8)
    )
    found = None
    while True:
        reply = connection.receive()
        if reply.opaque == 8:
            return found
        found = reply.status


@pytest.fixture
def node():
    with Node("--memcached-port", "0", "--memcached-bucket", "kept") as node:
        yield node.start().provision().create_bucket("kept", numVBuckets=64)


def begin_stop(node):
    """Sends the signal, and waits until writes are refused."""
    node.process.send_signal(signal.SIGTERM)
    wait_until(lambda: STOPPING in node.log(), 10, "the stop has begun")


def test_tested_writes_are_those_of_the_table_of_privileges():
    assert set(WRITES) | NOT_WALKED == opcodes_of(WRITE, READ_AND_WRITE)


def test_during_a_stop_every_write_is_a_temporary_failure_and_reads_are_answered(node):
    with node.connect("kept") as connection, Connection(node.memcached_port) as plain:
        for opcode, (_, _, body) in WRITES.items():
            for round in ("before", "during"):
                if body is not None:
                    assert connection.set(key_of(opcode, round), body).status == 0
        assert connection.set(b"locked", b"1").status == 0
        assert connection.set(b"read", b'{"n":1}').status == 0
        assert plain.set(b"plain", b"1").status == 0
        wrong = {}
        for opcode, (extras, value, _) in WRITES.items():
            status = answer(connection, opcode, key_of(opcode, "before"), extras, value)
            if status not in (None, Status.SUCCESS):
                wrong[f"{opcode:#x}"] = status
        assert wrong == {}, "a request that is to be refused must otherwise succeed"
        # The administration port waits a second for the rest of a request, and the node with it.
        form, rest = half_a_post(node, "late")
        time.sleep(0.2)
        begin_stop(node)
        found = {
            opcode: answer(connection, opcode, key_of(opcode, "during"), extras, value)
            for opcode, (extras, value, _) in WRITES.items()
        }
        locks = connection.call(Op.GETL, b"locked", bytes(4)).status
        durable = connection.set(b"durable", b"1", frames=DURABLE).status
        plain_writes = plain.set(b"plain", b"2").status, plain.call(Op.FLUSH, vbucket=0).status
        read = connection.get(b"read")
        lookup = answer(connection, Op.SUBDOC_GET, b"read", *one_path(b""))
        reason = connection.set(b"reason", b"1").value
        kept = plain.get(b"plain").value
        assert node.is_running
        form.close()
    assert {f"{op:#x}": status for op, status in found.items() if status != Status.TEMPORARY} == {}
    assert locks == durable == Status.TEMPORARY
    assert plain_writes == (Status.TEMPORARY, Status.TEMPORARY)
    assert read.status == 0 and read.value == b'{"n":1}' and lookup == 0 and kept == b"1"
    assert b"stopping" in reason
    assert node.process.wait(20) == 0
    node.start()
    with node.connect("kept") as connection:
        for opcode, (_, _, body) in WRITES.items():
            reply = connection.get(key_of(opcode, "during"))
            assert (reply.value if body else reply.status) == (body or Status.NOT_FOUND)


def test_document_that_arrives_during_a_stop_is_not_acknowledged(node):
    """A request whose head arrived before the signal is carried out to its end."""
    path = "/pools/default/buckets/kept/docs/late"
    assert node.admin.post(path, {"value": '{"version":1}'}).status == 200
    form = b"value=%7B%22version%22%3A2%7D"
    connection = socket.create_connection(("127.0.0.1", node.admin_port), timeout=20)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{node.admin_port}\r\n"
        "Authorization: Basic QWRtaW5pc3RyYXRvcjpwYXNzd29yZA==\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\n"
        f"Content-Length: {len(form)}\r\n\r\n"
    )
    connection.sendall(head.encode() + form[:-1])
    time.sleep(0.2)
    begin_stop(node)
    connection.sendall(form[-1:])
    assert b" 503 " in connection.recv(4096).split(b"\r\n")[0]
    connection.close()
    assert node.process.wait(20) == 0
    node.start()
    assert node.admin.get(path).json["json"] == '{"version":1}'


class Durable(threading.Thread):
    """Durable writes to keys of its own; `acknowledged` has the last version of each key."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.connection = node.connect("kept", [*USUAL_FEATURES, Feature.SYNC_REPLICATION])
        self.acknowledged, self.others, self.failure = {}, set(), None

    def run(self):
        version = 0
        try:
            while True:
                version += 1
                key = f"durable-{version % 50}".encode()
                reply = self.connection.set(key, str(version).encode(), frames=DURABLE)
                if reply.status == 0:
                    self.acknowledged[key] = version
                else:
                    self.others.add(reply.status)
        except (Closed, OSError):
            self.connection.close()


class Poster(threading.Thread):
    """Documents over the administration port; `acknowledged` as above."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.admin, self.acknowledged, self.others = node.admin, {}, set()

    def run(self):
        version = 0
        while True:
            version += 1
            key = f"posted-{version % 50}"
            try:
                path = f"/pools/default/buckets/kept/docs/{key}"
                reply = self.admin.post(path, {"value": str(version)})
            except Exception:  # The port is closed, or cut the request off.
                return
            if reply.status == 200:
                self.acknowledged[key.encode()] = version
            else:
                self.others.add(reply.status)


class Watcher(Writer):
    """A writer that notes, by vBucket, whether a write was acknowledged after a refused one."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.refused, self.late = set(), []

    def note(self, key, version, reply):
        vbucket = vbucket_of(key, self.connection.vbuckets)
        if reply.status == Status.TEMPORARY:
            self.refused.add(vbucket)
        elif vbucket in self.refused:
            self.late.append((key, version))
        super().note(key, version, reply)


def test_every_write_acknowledged_before_a_stop_survives_it(node):
    for number in range(2):
        writers = [Watcher(node, "kept", f"{number}-{writer}") for writer in range(4)]
        durable, poster = Durable(node), Poster(node)
        threads = [*writers, durable, poster]
        for thread in threads:
            thread.start()
        time.sleep(1.5)
        # Requests keep coming while the node persists: the form holds its end back for a second.
        form, _ = half_a_post(node, f"late-{number}")
        time.sleep(0.1)
        assert node.stop() == 0
        form.close()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        node.start()
        assert [writer.failure for writer in writers] == [None] * 4
        assert [writer.late for writer in writers] == [[]] * 4
        assert any(writer.refused for writer in writers), "no write came during the stop"
        assert durable.others <= {Status.TEMPORARY, Status.SYNC_WRITE_AMBIGUOUS}
        assert poster.others <= {503}
        assert durable.acknowledged and poster.acknowledged
        node.await_bucket("kept")
        with node.connect("kept") as connection:
            for writer in writers:
                for key, versions in writer.acknowledged.items():
                    if not versions:
                        continue
                    stored = connection.get(key)
                    allowed = {versions[-1][0]} | {
                        version for version in writer.unanswered[key] if version > versions[-1][0]
                    }
                    assert stored.value in {writer.value(key, version) for version in allowed}
            for thread in (durable, poster):
                for key, version in thread.acknowledged.items():
                    assert int(connection.get(key).value) >= version, key


def test_stop_with_several_hundred_idle_views_takes_at_most_two_seconds(node):
    # Each index follows each vBucket: 300 000 readers of changes.
    node.create_bucket("viewed", numVBuckets=1_024)
    views = Views(node, "viewed")
    with node.connect("viewed") as connection:
        for number in range(20):
            connection.set(f"key-{number}".encode(), b'{"n":%d}' % number)
    for document in range(30):
        sources = {
            f"v{view}": f"function (doc, meta) {{ emit([doc.n, {document}, {view}], null); }}"
            for view in range(10)
        }
        assert views.put(f"d{document}", sources).status == 201
    for document in range(30):
        for view in ("v0", "v9"):
            assert len(views.query(f"d{document}", view, stale="false").rows) == 20
    wait_until(
        lambda: len(list((node.data / "indexes").rglob("*.sqlite"))) >= 300, 60, "300 indexes"
    )
    node.process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert node.process.wait(60) == 0
    assert time.monotonic() - began < 2
    # What the files have is used again.
    node.start()
    for document in (0, 29):
        assert len(views.query(f"d{document}", "v9", stale="false").rows) == 20


def test_log_has_the_progress_of_a_stop(node):
    with node.connect("kept") as connection:
        assert connection.set(b"key", b"1").status == 0
    assert node.stop() == 0
    assert f"{STOPPING}; changes to persist: " in node.log()
