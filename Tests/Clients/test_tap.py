"""The older change protocol (TAP) on the data port (sync-gateway-mount.md, section 2.4)."""

import socket
import struct

import pytest

from rig.wire import RESPONSE, Closed, Connection, Op, Status, frame

CONNECT, MUTATION, DELETE, _, OPAQUE = range(0x40, 0x45)
BACKFILL, DUMP, LIST, TAKEOVER, ACK, KEYS_ONLY, CHECKPOINT = (1 << bit for bit in range(7))
NO_HISTORY = b"\xff" * 8
BEGIN, CLOSE, END = 1, 7, 8


class Tap:
    """A connection after TAP_CONNECT, to which there is no response."""

    def __init__(self, connection, flags=0, value=b"", answers=True):
        self.connection, self.answers = connection, answers
        self.marks = 0
        connection.send(frame(CONNECT, extras=struct.pack(">I", flags), value=value))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def receive(self):
        while True:
            message = self.connection.receive()
            assert message.magic == 0x80, message
            if message.op == Op.NOOP:
                continue
            engine, flags = struct.unpack(">HH", message.extras[:4])
            assert engine == 0, "data of an engine would be part of the document"
            if flags & 1:
                self.marks += 1
                if self.answers:
                    self.connection.send(frame(message.op, opaque=message.opaque, magic=RESPONSE))
            return message

    def events(self):
        """All messages until the end of the backfill, as (kind, key or event)."""
        found = []
        while not found or found[-1] != (OPAQUE, END):
            message = self.receive()
            subject = message.key
            if message.op == OPAQUE:
                subject = int.from_bytes(message.extras[8:12], "big")
            found.append((message.op, subject))
        return found


@pytest.fixture(scope="module")
def tapped(node):
    node.create_bucket("tapped")
    with node.connect("tapped") as kv:
        for number in range(500):
            assert kv.set(f"tap-{number}", b"%d" % number).status == 0
    return "tapped"


def test_connection_without_history_gets_later_changes_alone(node, tapped):
    with node.connect(tapped) as kv, Tap(node.connect(tapped), BACKFILL, NO_HISTORY) as tap:
        # The client's own requests are answered beside the changes.
        assert tap.connection.call(Op.NOOP).status == Status.SUCCESS
        stored = kv.set("later", b'{"a":1}', flags=0x2000006, expiry=1_999_999_999)
        assert stored.status == 0
        message = tap.receive()
        assert (message.op, message.key, message.value) == (MUTATION, b"later", b'{"a":1}')
        assert struct.unpack(">II", message.extras[8:16]) == (0x2000006, 1_999_999_999)
        assert message.cas == stored.cas
        assert kv.call(Op.DELETE, "later").status == 0
        deleted = tap.receive()
        assert (deleted.op, deleted.key, deleted.value) == (DELETE, b"later", b"")


def test_full_history_lies_between_begin_and_end_of_the_backfill(node, tapped):
    with node.connect(tapped) as kv, Tap(node.connect(tapped)) as tap:
        events = tap.events()
        assert events[0] == (OPAQUE, BEGIN)
        keys = [key for op, key in events if op == MUTATION and key.startswith(b"tap-")]
        assert sorted(keys) == sorted(b"tap-%d" % number for number in range(500))
        assert kv.set("tap-0", b"again").status == 0
        assert tap.receive().key == b"tap-0"


def test_dump_ends_with_the_connection(node, tapped):
    with Tap(node.connect(tapped), DUMP) as tap:
        tap.events()
        closing = tap.receive()
        assert (closing.op, int.from_bytes(closing.extras[8:12], "big")) == (OPAQUE, CLOSE)
        with pytest.raises(Closed):
            tap.receive()


def test_dump_without_history_is_complete_at_once(node, tapped):
    with Tap(node.connect(tapped), DUMP | BACKFILL, NO_HISTORY) as tap:
        message = tap.receive()
        assert message.op == OPAQUE
        assert int.from_bytes(message.extras[8:12], "big") == CLOSE
        with pytest.raises(Closed):
            tap.receive()


def test_list_of_vbuckets_selects_them(node, tapped):
    with node.connect(tapped) as kv:
        for vbucket in (1, 2, 3):
            assert kv.set(f"listed-{vbucket}", b"1", vbucket=vbucket).status == 0
    value = struct.pack(">HHH", 2, 1, 3)
    with Tap(node.connect(tapped), LIST, value) as tap:
        keys = {key for op, key in tap.events() if op == MUTATION}
        assert {b"listed-1", b"listed-3"} <= keys and b"listed-2" not in keys


def test_keys_without_values_where_asked(node, tapped):
    with Tap(node.connect(tapped), KEYS_ONLY) as tap:
        assert int.from_bytes(tap.receive().extras[8:12], "big") == BEGIN
        message = tap.receive()
        assert message.op == MUTATION and message.key and not message.value


def test_unanswered_marks_stop_the_feed_and_answers_resume_it(node):
    node.create_bucket("marked")
    with node.connect("marked") as kv:
        for number in range(300):
            assert kv.set(f"mark-{number}", bytes(16_000)).status == 0
    with Tap(node.connect("marked", seconds=2), ACK, answers=False) as tap:
        messages = []
        with pytest.raises(socket.timeout):
            while True:
                messages.append(tap.receive())
        assert 0 < len(messages) < 300 and tap.marks >= 16
        tap.answers = True
        for message in messages:
            if struct.unpack(">H", message.extras[2:4])[0] & 1:
                tap.connection.send(frame(message.op, opaque=message.opaque, magic=RESPONSE))
        keys = {message.key for message in messages if message.op == MUTATION}
        while len(keys) < 300:
            message = tap.receive()
            if message.op == MUTATION:
                keys.add(message.key)


def test_tap_client_that_closes_first_continues_at_its_position(node):
    """A client drops what it has not handled when it closes: changes are repeated, not lost."""
    node.create_bucket("reopened")
    with node.connect("reopened") as kv:
        assert kv.set("before", b"1").status == 0
        with Tap(node.connect("reopened"), BACKFILL, NO_HISTORY) as tap:
            assert tap.connection.call(Op.NOOP).status == Status.SUCCESS
            assert kv.set("sent", b"1").status == 0
            assert tap.receive().key == b"sent"
        assert kv.set("between", b"1").status == 0
        with Tap(node.connect("reopened"), BACKFILL, NO_HISTORY) as tap:
            assert {tap.receive().key for _ in range(2)} == {b"sent", b"between"}


def test_flush_closes_the_connection(node):
    node.create_bucket("flushed")
    with Tap(node.connect("flushed"), BACKFILL, NO_HISTORY) as tap:
        assert tap.connection.call(Op.NOOP).status == Status.SUCCESS
        reply = node.admin.post("/pools/default/buckets/flushed/controller/doFlush", {})
        assert reply.status == 200, reply
        assert tap.connection.is_closed_by_server()


@pytest.mark.parametrize(
    "flags, value",
    [(TAKEOVER, b""), (CHECKPOINT, b""), (BACKFILL, b"\0"), (LIST, b"\0\5\0")],
)
def test_tap_requests_of_servers_are_refused(node, tapped, flags, value):
    with node.connect(tapped) as connection:
        reply = connection.call(CONNECT, extras=struct.pack(">I", flags), value=value)
        assert reply.status in (Status.NOT_SUPPORTED, Status.INVALID)
        assert connection.call(Op.NOOP).status == Status.SUCCESS


def test_tap_needs_a_login(node):
    with Connection(node.kv_port) as stranger:
        reply = stranger.call(CONNECT, extras=bytes(4))
        assert reply.status in (Status.ACCESS, Status.NO_BUCKET)
