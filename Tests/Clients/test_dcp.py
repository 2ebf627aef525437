"""Changes for outside clients: the change protocol (DCP) on the data port (docs/changes.md)."""

import socket
import struct
import time

import pytest

from rig import dcp
from rig.dcp import Consumer, Position
from rig.node import wait_until
from rig.wire import Connection, Feature, Op, Status, USUAL_FEATURES, vbucket_of

ROLLBACK, RANGE = 0x23, 0x22


@pytest.fixture
def consumer(node, bucket, key):
    with Consumer(node.connect(bucket), name=key.decode()) as consumer:
        assert consumer.opened.status == Status.SUCCESS
        yield consumer


@pytest.fixture(scope="module")
def busy(node):
    """A bucket of eight vBuckets' worth of documents that one test at a time uses."""
    node.create_bucket("busy")
    return "busy"


def history(consumer, vbucket):
    return consumer.failover_log(vbucket)[0][0]


def streamed(consumer, vbucket, position=None, end=dcp.FOREVER, **more):
    """Requests a stream, and returns the position that follows it."""
    position = position or Position()
    reply = consumer.request(vbucket, position, end, **more)
    assert reply.status == Status.SUCCESS, reply
    position.uuid = dcp.log(reply.value)[0][0]
    return {vbucket: position}


# Opening


def test_dcp_open_needs_the_producer_flag_and_refuses_unsupported_flags(node, bucket):
    for flags, word in ((0, b"onsumer"), (2, b"otifier"), (5, b"HELLO"), (0x801, b"800")):
        with Consumer(node.connect(bucket), flags=flags) as refused:
            assert refused.opened.status in (Status.INVALID, Status.NOT_SUPPORTED)
            assert word in refused.opened.value
            # The connection goes on as before.
            assert refused.connection.call(Op.NOOP).status == Status.SUCCESS


def test_open_repeats_the_opaque_and_a_second_open_is_refused(consumer):
    assert consumer.opened.opaque == 0xC0
    again = consumer.call(dcp.OPEN, "another", struct.pack(">II", 0, 1))
    assert again.status == Status.INVALID


def test_streams_need_an_open_and_a_login(node, bucket):
    with node.connect(bucket) as plain:
        request = plain.call(dcp.STREAM_REQUEST, b"", bytes(48), vbucket=0)
        assert request.status == Status.INVALID and b"DCP_OPEN" in request.value
    with Connection(node.kv_port) as stranger:
        stranger.hello(USUAL_FEATURES)
        reply = stranger.call(dcp.OPEN, "stranger", struct.pack(">II", 0, 1), vbucket=0)
        assert reply.status in (Status.ACCESS, Status.NO_BUCKET)


def test_connection_of_the_same_name_closes_the_older_one(node, bucket):
    with Consumer(node.connect(bucket), name="twin") as older:
        with Consumer(node.connect(bucket), name="twin") as newer:
            assert older.connection.is_closed_by_server()
            assert newer.connection.call(Op.NOOP).status == Status.SUCCESS


# Controls


@pytest.mark.parametrize(
    "name, value",
    [
        ("enable_noop", "true"),
        ("set_noop_interval", 180),
        ("set_priority", "medium"),
        ("connection_buffer_size", 20971520),
        ("send_stream_end_on_client_close_stream", "true"),
        ("enable_expiry_opcode", "true"),
        ("enable_out_of_order_snapshots", "true"),
        ("backfill_order", "sequential"),
        ("max_marker_version", "2.2"),
        ("supports_cursor_dropping", "true"),
        ("enable_ext_metadata", "true"),
        ("enable_value_compression", "false"),
    ],
)
def test_controls_that_clients_send_are_accepted(consumer, name, value):
    assert consumer.control(name, value) == Status.SUCCESS


@pytest.mark.parametrize(
    "name, value",
    [
        ("enable_noop", "perhaps"),
        ("set_noop_interval", 0),
        ("connection_buffer_size", "much"),
        ("enable_value_compression", "true"),
        ("enable_stream_id", "true"),
        ("enable_sync_writes", "true"),
        ("no_such_control", "true"),
    ],
)
def test_unknown_and_impossible_controls_are_refused(consumer, name, value):
    assert consumer.control(name, value) in (Status.INVALID, Status.NOT_SUPPORTED)


# Streams


def test_backfill_then_live_changes_in_snapshots(node, bucket, consumer):
    vbucket = 17
    with node.connect(bucket) as kv:
        for number in range(300):
            assert kv.set(f"backfill-{number}", b'{"n":1}', vbucket=vbucket).status == 0
        positions = streamed(consumer, vbucket)
        state = consumer.read(positions, lambda state: len(state.documents) == 300)
        assert kv.set("backfill-7", b'{"n":2}', vbucket=vbucket).status == 0
        assert kv.call(Op.DELETE, "backfill-8", vbucket=vbucket).status == 0
        state = consumer.read(positions, lambda state: len(state.changes) == 2)
        changed, deleted = state.changes
        assert (changed.op, changed.key, changed.value) == (
            dcp.MUTATION,
            b"backfill-7",
            b'{"n":2}',
        )
        assert changed.revision == 2 and changed.cas == kv.get("backfill-7", vbucket=vbucket).cas
        assert (deleted.op, deleted.key, deleted.value) == (dcp.DELETION, b"backfill-8", b"")
        assert len(deleted.extras) == 18


def test_flags_expiry_and_datatype_of_a_document_are_sent(node, bucket, consumer):
    vbucket = 18
    expiry = int(time.time()) + 5_000
    with node.connect(bucket) as kv:
        reply = kv.set("whole", b'{"a":1}', flags=0x2000006, expiry=expiry, vbucket=vbucket)
        assert reply.status == 0
    positions = streamed(consumer, vbucket)
    (change,) = consumer.read(positions, lambda state: state.changes).changes
    seqno, revision, flags, end, lock, meta, use = struct.unpack(">QQIIIHB", change.extras)
    assert (flags, end, lock, meta, use) == (0x2000006, expiry, 0, 0, 0)
    assert change.datatype == 1


def test_datatype_of_json_is_sent_to_a_client_that_did_not_agree_to_it(node, bucket):
    vbucket = 30
    with node.connect(bucket) as kv:
        assert kv.set("whole", b'{"a":1}', vbucket=vbucket).status == 0
        assert kv.set("bytes", b"{", vbucket=vbucket).status == 0
    with Consumer(node.connect(bucket, features=(Feature.XERROR,)), name="plain") as consumer:
        positions = streamed(consumer, vbucket)
        changes = consumer.read(positions, lambda state: len(state.changes) == 2).changes
        assert [change.datatype for change in changes] == [1, 0]


def test_values_are_omitted_if_requested(node, bucket, key):
    vbucket = 19
    with node.connect(bucket) as kv:
        assert kv.set("thin", b'{"a":1}', vbucket=vbucket).status == 0
    for flags, datatype in ((0x09, 0), (0x41, 1)):
        with Consumer(node.connect(bucket), name=f"thin-{flags}", flags=flags) as consumer:
            positions = streamed(consumer, vbucket)
            (change,) = consumer.read(positions, lambda state: state.changes).changes
            assert (change.value, change.datatype) == (b"", datatype)


def test_deletions_have_their_time_and_expirations_their_opcode_where_asked(node, bucket):
    vbucket = 20
    with node.connect(bucket) as kv:
        assert kv.set("gone", b"1", vbucket=vbucket).status == 0
        assert kv.call(Op.DELETE, "gone", vbucket=vbucket).status == 0
        assert kv.set("expired", b"1", expiry=1, vbucket=vbucket).status == 0
        wait_until(lambda: kv.get("expired", vbucket=vbucket).status == Status.NOT_FOUND)
    with Consumer(node.connect(bucket), name="times", flags=0x21) as consumer:
        assert consumer.control("enable_expiry_opcode", "true") == Status.SUCCESS
        positions = streamed(consumer, vbucket)
        state = consumer.read(positions, lambda state: len(state.changes) == 2)
        kinds = {change.key: (change.op, len(change.extras)) for change in state.changes}
        assert kinds == {b"gone": (dcp.DELETION, 21), b"expired": (dcp.EXPIRATION, 20)}
        times = [int.from_bytes(change.extras[16:20], "big") for change in state.changes]
        assert all(abs(at - time.time()) < 3_600 for at in times)
    with Consumer(node.connect(bucket), name="plain") as consumer:
        state = consumer.read(streamed(consumer, vbucket), lambda state: len(state.changes) == 2)
        assert {change.op for change in state.changes} == {dcp.DELETION}


def test_stream_with_an_end_seqno_ends_at_it(node, bucket, consumer):
    vbucket = 21
    with node.connect(bucket) as kv:
        for number in range(10):
            assert kv.set(f"end-{number}", b"1", vbucket=vbucket).status == 0
        at = kv.set("end-last", b"1", vbucket=vbucket).token[1]
        assert kv.set("end-later", b"1", vbucket=vbucket).status == 0
    positions = streamed(consumer, vbucket, end=at)
    state = consumer.read(positions, lambda state: state.ends)
    assert state.ends == {vbucket: "finished"}
    assert positions[vbucket].seqno >= at
    # The vBucket has no stream any more, so it may be requested again.
    assert consumer.request(vbucket).status == Status.SUCCESS


def test_one_shot_stream_ends_at_the_present_although_the_last_change_is_invisible(
    node, bucket, consumer
):
    vbucket = 22
    with node.connect(bucket, features=(*USUAL_FEATURES, Feature.SYNC_REPLICATION)) as kv:
        assert kv.set("once", b"1", vbucket=vbucket).status == 0
        # Majority durability on one node: a prepare and its commit.
        durable = bytes([0x11, 0x01])
        assert kv.set("once-durable", b"1", vbucket=vbucket, frames=durable).status == 0
    positions = streamed(consumer, vbucket, flags=0x04)
    state = consumer.read(positions, lambda state: state.ends)
    assert state.ends == {vbucket: "finished"}
    assert set(state.documents) == {b"once", b"once-durable"}


def test_stream_of_disk_only_has_the_persisted_documents_and_ends(node, bucket, consumer):
    vbucket, disk_only = 35, 0x02
    positions = streamed(consumer, vbucket, flags=disk_only)
    assert consumer.read(positions, lambda state: state.ends).changes == []
    with node.connect(bucket) as kv:
        for number in range(10):
            uuid, last = kv.set(f"disk-{number}", b"1", vbucket=vbucket).token
        wait_until(lambda: kv.observe_seqno(vbucket, uuid)[0] >= last)
    positions = streamed(consumer, vbucket, flags=disk_only)
    state = consumer.read(positions, lambda state: state.ends)
    assert state.ends == {vbucket: "finished"}
    assert state.documents == {f"disk-{number}".encode(): b"1" for number in range(10)}
    # From that position on there is nothing, and the stream ends again.
    again = streamed(consumer, vbucket, positions[vbucket], flags=disk_only)
    assert consumer.read(again, lambda state: state.ends).changes == []


def test_empty_vbucket_has_an_empty_stream_that_stays_open(node, bucket, consumer):
    vbucket = 23
    positions = streamed(consumer, vbucket)
    with node.connect(bucket) as kv:
        assert kv.set("first", b"1", vbucket=vbucket).status == 0
    state = consumer.read(positions, lambda state: state.changes)
    assert state.changes[0].seqno == 1


def test_resume_continues_behind_the_position(node, bucket, key):
    vbucket = 24
    with node.connect(bucket) as kv:
        for number in range(20):
            assert kv.set(f"resume-{number}", b"1", vbucket=vbucket).status == 0
        with Consumer(node.connect(bucket), name="resume") as consumer:
            positions = streamed(consumer, vbucket)
            consumer.read(positions, lambda state: len(state.changes) == 20)
        assert kv.set("resume-later", b"1", vbucket=vbucket).status == 0
        with Consumer(node.connect(bucket), name="resume") as consumer:
            streamed(consumer, vbucket, positions[vbucket])
            state = consumer.read(positions, lambda state: state.changes)
            assert [change.key for change in state.changes] == [b"resume-later"]


def test_unknown_history_rolls_back_to_zero_and_a_future_position_to_the_high_seqno(
    node, bucket, consumer
):
    vbucket = 25
    with node.connect(bucket) as kv:
        uuid, seqno = kv.set("known", b"1", vbucket=vbucket).token
    unknown = consumer.request(vbucket, Position(uuid ^ 1, seqno))
    assert (unknown.status, unknown.value) == (ROLLBACK, bytes(8))
    future = consumer.request(vbucket, Position(uuid, seqno + 10))
    assert (future.status, int.from_bytes(future.value, "big")) == (ROLLBACK, seqno)
    assert uuid == history(consumer, vbucket) == history_of(consumer, vbucket)


def history_of(consumer, vbucket):
    return consumer.failover_log(vbucket, dcp.GET_FAILOVER_LOG)[0][0]


def test_contradictory_seqnos_and_unknown_flags_are_refused(node, bucket, consumer):
    vbucket = 26
    backwards = Position(1, 10)
    assert consumer.request(vbucket, backwards, end=5).status == RANGE
    outside = Position(1, 10)
    outside.snapshot = (11, 12)
    assert consumer.request(vbucket, outside).status == RANGE
    assert consumer.request(vbucket, flags=0x8000).status == Status.INVALID
    filtered = consumer.request(vbucket, value=b'{"collections":["8"]}')
    assert filtered.status == Status.INVALID and b"collections" in filtered.value
    assert consumer.request(vbucket, value=b"{").status == Status.INVALID
    for scope in (b'{"scope":"8"}', b'{"collections":["0","8"]}', b'{"collections":[]}'):
        assert consumer.request(vbucket, value=scope).status == Status.INVALID
    assert consumer.request(5_000).status == Status.NOT_MY_VBUCKET


def test_stream_from_zero_is_accepted_with_the_snapshot_range_of_an_earlier_position(
    node, bucket, consumer
):
    """Sync Gateway 1.4.1 keeps the range after a rollback to zero, and repeats a refused request."""
    vbucket = 34
    with node.connect(bucket) as kv:
        uuid, seqno = kv.set("kept", b"1", vbucket=vbucket).token
    beyond = Position(uuid, 1)
    beyond.snapshot = (7, 9)
    assert consumer.request(vbucket, beyond).status == RANGE
    kept = Position(uuid ^ 1)
    kept.snapshot = (7, 9)
    strict_uuid = 0x20
    assert consumer.request(vbucket, kept, flags=strict_uuid).status == RANGE
    positions = streamed(consumer, vbucket, kept)
    state = consumer.read(positions, lambda state: b"kept" in state.documents)
    assert (state.changes[-1].key, state.changes[-1].seqno) == (b"kept", seqno)


@pytest.mark.parametrize("chosen", [b'{"collections":["0"]}', b'{"scope":"0","uid":"0"}'])
def test_filter_for_the_default_collection_selects_every_change(node, bucket, consumer, chosen):
    key = b"filtered"
    vbucket = vbucket_of(key)
    with node.connect(bucket) as kv:
        cas = kv.set(key, b"1").cas
    positions = streamed(consumer, vbucket, value=chosen)
    state = consumer.read(positions, lambda state: key in state.documents)
    assert [each.cas for each in state.changes if each.key == key] == [cas]


def test_second_stream_of_a_vbucket_is_refused_until_the_first_is_closed(consumer):
    vbucket = 27
    streamed(consumer, vbucket)
    assert consumer.request(vbucket).status == Status.EXISTS
    assert consumer.close_stream(vbucket) == Status.SUCCESS
    assert consumer.close_stream(vbucket) == Status.NOT_FOUND
    assert consumer.request(vbucket).status == Status.SUCCESS


def test_closed_stream_ends_with_a_message_if_requested(consumer):
    assert consumer.control("send_stream_end_on_client_close_stream", "true") == 0
    positions = streamed(consumer, 28)
    assert consumer.close_stream(28) == Status.SUCCESS
    assert consumer.read(positions, lambda state: state.ends).ends == {28: "closed"}


def test_streams_of_all_vbuckets_share_one_connection(node, busy):
    with node.connect(busy) as kv:
        written = {}
        for number in range(3_000):
            key = f"all-{number}".encode()
            assert kv.set(key, b"%d" % number).status == 0
            written[key] = b"%d" % number
    with Consumer(node.connect(busy), name="all") as consumer:
        assert consumer.control("connection_buffer_size", 1 << 20) == Status.SUCCESS
        positions = {}
        for vbucket in range(1_024):
            positions |= streamed(consumer, vbucket)
        consumer.acknowledges = True
        state = consumer.read(positions, lambda state: len(state.documents) >= 3_000)
        assert state.documents == written
        stats = consumer.connection.stat("dcp")
        assert stats["eq_dcpq:all:num_streams"] == "1024"
        assert int(stats["eq_dcpq:all:items_sent"]) == 3_000
        totals = consumer.connection.stat("dcpagg :")
        assert totals[":total:count"] == "1"


# Flow control


def test_full_buffer_stops_the_streams_and_an_acknowledgement_resumes_them(node, bucket):
    vbucket = 30
    with node.connect(bucket) as kv:
        for number in range(200):
            assert kv.set(f"window-{number}", bytes(1_000), vbucket=vbucket).status == 0
    with Consumer(node.connect(bucket, seconds=1), name="window") as consumer:
        assert consumer.control("connection_buffer_size", 10_000) == Status.SUCCESS
        positions = streamed(consumer, vbucket)
        state = dcp.State(positions)
        received = 0
        with pytest.raises(socket.timeout):
            while True:
                state.take(consumer.receive())
                received += consumer.last_bytes
        assert 10_000 <= received < 12_000, "one message may exceed the buffer"
        # More than was sent counts as all of it.
        consumer.acknowledge(1_000_000)
        consumer.acknowledges = True
        while len(state.documents) < 200:
            state.take(consumer.receive())


def test_slow_consumer_continues_from_disk_without_a_gap(node, bucket):
    vbucket = 31
    with node.connect(bucket) as kv, Consumer(node.connect(bucket), name="slow") as consumer:
        assert consumer.control("connection_buffer_size", 1_000) == Status.SUCCESS
        positions = streamed(consumer, vbucket)
        for number in range(5_000):
            reply = kv.set(f"slow-{number % 1_000}", b"%d" % number, vbucket=vbucket)
            assert reply.status == 0
        consumer.acknowledge(1_000)
        consumer.acknowledges = True
        last = reply.token[1]
        state = consumer.read(positions, lambda _: positions[vbucket].seqno == last)
        expected = {b"slow-%d" % (n % 1_000): b"%d" % n for n in range(5_000)}
        assert state.documents == expected


# No-ops


@pytest.mark.parametrize("magic", [0x81, 0x80])
def test_noop_is_sent_and_both_kinds_of_answers_count(node, bucket, magic):
    with Consumer(node.connect(bucket), name=f"noop-{magic}") as consumer:
        assert consumer.control("set_noop_interval", 1) == Status.SUCCESS
        assert consumer.control("enable_noop", "true") == Status.SUCCESS
        for _ in range(3):
            message = consumer._receive()
            assert (message.op, message.magic) == (dcp.NOOP, 0x80)
            consumer.answer_noop(message, magic)
        # An answer gets no response: the next message is the response to this request.
        assert consumer.connection.call(Op.NOOP).op == Op.NOOP


def test_client_that_answers_no_noop_loses_its_connection(node, bucket):
    with Consumer(node.connect(bucket), name="silent") as consumer:
        assert consumer.control("set_noop_interval", 1) == Status.SUCCESS
        assert consumer.control("enable_noop", "true") == Status.SUCCESS
        assert consumer.connection.is_closed_by_server()


# What ends streams


def test_deleted_bucket_ends_its_streams(node):
    node.create_bucket("short")
    with Consumer(node.connect("short"), name="short") as consumer:
        positions = streamed(consumer, 3)
        node.admin.delete("/pools/default/buckets/short")
        state = consumer.read(positions, lambda state: state.ends)
        assert state.ends == {3: "stateChanged"}


def test_flushed_bucket_ends_its_streams_and_the_connection(node):
    node.create_bucket("flushed")
    with Consumer(node.connect("flushed"), name="flushed") as consumer:
        positions = streamed(consumer, 3)
        reply = node.admin.post("/pools/default/buckets/flushed/controller/doFlush", {})
        assert reply.status == 200, reply
        state = consumer.read(positions, lambda state: state.ends)
        assert state.ends == {3: "stateChanged"}
        assert consumer.connection.is_closed_by_server()


@pytest.mark.parametrize("is_flushed", [True, False])
def test_full_buffer_delays_no_end_of_a_stream_whose_bucket_is_gone(node, is_flushed):
    node.create_bucket("crammed")
    with node.connect("crammed") as kv:
        for number in range(10):
            assert kv.set(f"crammed-{number}", bytes(1_000), vbucket=3).status == 0
    with Consumer(node.connect("crammed"), name="crammed") as consumer:
        assert consumer.control("connection_buffer_size", 100) == Status.SUCCESS
        positions = streamed(consumer, 3)
        consumer.read(positions, lambda state: len(state.changes) == 1)
        if is_flushed:
            reply = node.admin.post("/pools/default/buckets/crammed/controller/doFlush", {})
            assert reply.status == 200, reply
            # Too late for the bucket that it belongs to, and no error.
            consumer.acknowledge(1_000)
        else:
            node.admin.delete("/pools/default/buckets/crammed")
        state = consumer.read(positions, lambda state: state.ends)
        assert state.ends == {3: "stateChanged"}
        assert consumer.connection.is_closed_by_server()
    if is_flushed:
        node.admin.delete("/pools/default/buckets/crammed")


def test_seqnos_of_all_vbuckets_are_the_visible_ones(node, bucket):
    vbucket = 33
    with node.connect(bucket) as kv:
        seqno = kv.set("seqno", b"1", vbucket=vbucket).token[1]
        reply = kv.call(dcp.ALL_SEQNOS, b"", struct.pack(">I", 1), vbucket=0)
        found = dict(
            struct.unpack(">HQ", reply.value[at : at + 10])
            for at in range(0, len(reply.value), 10)
        )
        assert len(found) == 1_024 and found[vbucket] == seqno


def test_malformed_requests_are_refused_and_cost_nothing(node, bucket, consumer):
    for op, extras, value in (
        (dcp.STREAM_REQUEST, bytes(47), b""),
        (dcp.OPEN, b"", b""),
        (dcp.CONTROL, b"", b"1"),
        (dcp.CLOSE_STREAM, b"1", b""),
        (dcp.BUFFER_ACK, b"1", b""),
    ):
        reply = consumer.call(op, b"", extras, value)
        assert reply.status == Status.INVALID
    huge = Position(1, 1 << 60)
    assert consumer.request(1, huge).status == ROLLBACK
    assert consumer.call(dcp.ADD_STREAM, extras=bytes(4)).status == Status.NOT_SUPPORTED
    # Commands of a consumer have no meaning here.
    assert consumer.call(dcp.MUTATION, "key", bytes(31)).status == Status.UNKNOWN_COMMAND
