"""Every command on documents, by its bytes."""

import struct
import time

import pytest

from rig.node import PASSWORD, USER
from rig.wire import Connection, Feature, Op, Status, USUAL_FEATURES, frame, vbucket_of

LOCKED_CAS = 0xFFFF_FFFF_FFFF_FFFF


def pipeline(connection, *requests):
    """Sends requests at once, a NOOP behind them, and returns the answers before the NOOP's."""
    connection.send(b"".join(requests) + frame(Op.NOOP, opaque=0xE0D))
    replies = []
    while True:
        reply = connection.receive()
        if reply.op == Op.NOOP:
            return replies
        replies.append(reply)


def stored(key, value, op=Op.SET, opaque=0, **more):
    extras = struct.pack(">II", 0, 0)
    return frame(op, key, extras, value, vbucket=vbucket_of(key), opaque=opaque, **more)


# Read and write


def test_get_returns_flags_value_and_cas_of_the_set(kv, key):
    reply = kv.set(key, b"value", flags=0xDEADBEEF)
    assert reply.status == Status.SUCCESS and reply.cas != 0 and reply.value == b""
    found = kv.get(key)
    assert (found.flags, found.value, found.cas) == (0xDEADBEEF, b"value", reply.cas)
    assert found.key == b""


def test_getk_returns_the_key_too(kv, key):
    kv.set(key, b"value")
    found = kv.call(Op.GETK, key)
    assert (found.key, found.value) == (key, b"value")


def test_add_needs_no_document_and_replace_needs_one(kv, key):
    assert kv.set(key, b"1", op=Op.REPLACE).status == Status.NOT_FOUND
    assert kv.set(key, b"1", op=Op.ADD).status == Status.SUCCESS
    assert kv.set(key, b"2", op=Op.ADD).status == Status.EXISTS
    assert kv.set(key, b"3", op=Op.REPLACE).status == Status.SUCCESS
    assert kv.get(key).value == b"3"


def test_add_with_cas_is_invalid(kv, key):
    assert kv.set(key, b"1", op=Op.ADD, cas=5).status == Status.INVALID


def test_cas_guards_every_kind_of_change(kv, key):
    stale = kv.set(key, b"10").cas
    fresh = kv.set(key, b"11").cas
    assert fresh > stale
    changes = [
        lambda cas: kv.set(key, b"12", cas=cas),
        lambda cas: kv.set(key, b"13", op=Op.REPLACE, cas=cas),
        lambda cas: kv.call(Op.APPEND, key, value=b"1", cas=cas),
        lambda cas: kv.call(Op.PREPEND, key, value=b"1", cas=cas),
        lambda cas: kv.counter(Op.INCR, key, cas=cas),
        lambda cas: kv.call(Op.DELETE, key, cas=cas),
    ]
    for change in changes:
        assert change(stale).status == Status.EXISTS
        assert change(kv.get(key).cas).status == Status.SUCCESS
    for change in changes[:4] + changes[5:]:
        assert change(fresh).status == Status.NOT_FOUND


def test_mutation_tokens_have_the_vbuckets_uuid_and_growing_seqnos(kv, key):
    uuid, first = kv.set(key, b"1").token
    replies = [
        kv.set(key, b"2"),
        kv.call(Op.APPEND, key, value=b"3"),
        kv.set(key, b"4"),
        kv.counter(Op.INCR, key),
        kv.call(Op.DELETE, key),
    ]
    for reply in replies:
        assert reply.status == Status.SUCCESS
        same, seqno = reply.token
        assert same == uuid and seqno > first
        first = seqno


def test_deletion_leaves_a_tombstone_with_its_cas(kv, key):
    kv.set(key, b"1")
    cas = kv.call(Op.DELETE, key).cas
    assert cas != 0
    assert kv.get(key).status == Status.NOT_FOUND
    assert kv.call(Op.DELETE, key).status == Status.NOT_FOUND
    meta = kv.call(Op.GET_META, key, extras=b"\x02")
    assert meta.status == Status.SUCCESS
    assert int.from_bytes(meta.extras[:4], "big") == 1
    assert meta.cas == cas


def test_get_meta_returns_metadata_without_the_value(kv, key):
    expiry = int(time.time()) + 1000
    cas = kv.set(key, b'{"a":1}', flags=7, expiry=expiry).cas
    meta = kv.call(Op.GET_META, key, extras=b"\x02")
    deleted, flags, found, revision, datatype = struct.unpack(">IIIQB", meta.extras)
    assert (deleted, flags, found, datatype, meta.cas) == (0, 7, expiry, 1, cas)
    kv.set(key, b"{}")
    again = struct.unpack(">IIIQB", kv.call(Op.GET_META, key, extras=b"\x02").extras)[3]
    assert again == revision + 1
    assert len(kv.call(Op.GET_META, key).extras) == 20
    assert kv.call(Op.GET_META, b"never-there").status == Status.NOT_FOUND


def test_append_and_prepend_extend_an_existing_value_only(kv, key):
    assert kv.call(Op.APPEND, key, value=b"x").status == Status.NOT_STORED
    assert kv.call(Op.PREPEND, key, value=b"x").status == Status.NOT_STORED
    kv.set(key, b"b", flags=9)
    assert kv.call(Op.APPEND, key, value=b"c").status == Status.SUCCESS
    assert kv.call(Op.PREPEND, key, value=b"a").status == Status.SUCCESS
    found = kv.get(key)
    assert (found.value, found.flags) == (b"abc", 9)


def test_json_is_detected_again_after_an_append(kv, key):
    kv.set(key, b'{"a":1}')
    kv.call(Op.APPEND, key, value=b" and more")
    assert kv.get(key).datatype == 0
    kv.set(key, b'"text')
    assert kv.get(key).datatype == 0
    kv.call(Op.APPEND, key, value=b'"')
    assert kv.get(key).datatype == 1


def test_datatype_that_was_not_negotiated_is_invalid(kv, key):
    assert kv.set(key, b"x", datatype=2).status == Status.INVALID
    assert kv.set(key, b"x", datatype=4).status == Status.INVALID
    assert kv.set(key, b"{}", datatype=1).status == Status.SUCCESS


@pytest.mark.parametrize("value", [b'{"x": NaN}', b'1,{"id":"v"},2'])
def test_value_that_is_wrongly_declared_as_json_is_stored_without_the_datatype(kv, key, value):
    assert kv.set(key, value, datatype=1).status == Status.SUCCESS
    found = kv.get(key)
    assert (found.value, found.datatype) == (value, 0)
    assert kv.set(key, b"{}", datatype=1).status == Status.SUCCESS
    assert kv.get(key).datatype == 1


# Counters


def test_counters_answer_with_eight_bytes(kv, key):
    assert kv.counter(Op.INCR, key, expiry=0xFFFFFFFF).status == Status.NOT_FOUND
    first = kv.counter(Op.INCR, key, 5, 10)
    assert first.status == Status.SUCCESS and len(first.value) == 8 and first.number == 10
    assert kv.counter(Op.INCR, key, 5).number == 15
    assert kv.counter(Op.DECR, key, 20).number == 0
    assert kv.get(key).value == b"0"


def test_incrementing_wraps_at_64_bits(kv, key):
    kv.set(key, str(2**64 - 1).encode())
    assert kv.counter(Op.INCR, key, 2).number == 1


@pytest.mark.parametrize("value", [b"", b"x", b"-1", b"1.5", b"18446744073709551616", b"1 "])
def test_counter_on_a_value_that_is_not_a_number_is_refused(kv, key, value):
    kv.set(key, value)
    assert kv.counter(Op.INCR, key).status == Status.DELTA_BAD
    assert kv.get(key).value == value


# Expiry


def gone_within(connection, key, seconds=6):
    deadline = time.monotonic() + seconds
    while connection.get(key).status == Status.SUCCESS:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def late_in_a_second():
    """Waits for the end of a second: a relative time rounded down would nearly be over."""
    time.sleep((0.95 - time.time()) % 1)


def test_expiry_of_a_second_lasts_at_least_a_second(kv, key):
    late_in_a_second()
    start = time.monotonic()
    kv.set(key, b"1", expiry=1)
    assert gone_within(kv, key)
    assert time.monotonic() - start >= 1
    assert kv.set(key, b"2", op=Op.REPLACE).status == Status.NOT_FOUND
    assert kv.set(key, b"2", op=Op.ADD).status == Status.SUCCESS


def test_document_with_past_expiry_expires_at_once(kv, key):
    kv.set(key, b"1", expiry=int(time.time()) - 10)
    assert kv.get(key).status == Status.NOT_FOUND


def test_touch_and_get_and_touch_set_the_expiry(kv, key):
    extras = struct.pack(">I", 1)
    assert kv.call(Op.TOUCH, key, extras).status == Status.NOT_FOUND
    assert kv.call(Op.GAT, key, extras).status == Status.NOT_FOUND
    kv.set(key, b"1", flags=3)
    assert kv.call(Op.TOUCH, key, struct.pack(">I", 1000)).status == Status.SUCCESS
    found = kv.call(Op.GAT, key, extras)
    assert (found.value, found.flags) == (b"1", 3)
    assert gone_within(kv, key)


def test_set_with_preserve_expiry_keeps_the_expiry(node, bucket, key):
    with node.connect(bucket, [*USUAL_FEATURES, Feature.PRESERVE_TTL]) as connection:
        if Feature.PRESERVE_TTL not in connection.features:
            pytest.fail("preserve-expiry is not granted")
        expiry = int(time.time()) + 1000
        connection.set(key, b"1", expiry=expiry)
        assert connection.set(key, b"2", frames=b"\x50").status == Status.SUCCESS
        meta = connection.call(Op.GET_META, key, extras=b"\x02")
        assert int.from_bytes(meta.extras[8:12], "big") == expiry
        connection.set(key, b"3")
        meta = connection.call(Op.GET_META, key, extras=b"\x02")
        assert int.from_bytes(meta.extras[8:12], "big") == 0


# Locks


def test_locked_document_is_readable_and_refuses_changes(kv, key):
    kv.set(key, b"1")
    seconds = struct.pack(">I", 20)
    locked = kv.call(Op.GETL, key, seconds)
    assert (locked.status, locked.value) == (Status.SUCCESS, b"1")
    found = kv.get(key)
    assert (found.status, found.cas) == (Status.SUCCESS, LOCKED_CAS)
    assert kv.call(Op.GETL, key, seconds).status == Status.LOCKED
    assert kv.set(key, b"2").status == Status.LOCKED
    assert kv.set(key, b"2", cas=locked.cas + 1).status == Status.LOCKED
    assert kv.call(Op.DELETE, key).status == Status.LOCKED
    assert kv.call(Op.APPEND, key, value=b"x").status == Status.LOCKED
    assert kv.counter(Op.INCR, key).status == Status.LOCKED
    assert kv.call(Op.TOUCH, key, seconds).status == Status.LOCKED
    assert kv.call(Op.UNLOCK, key, cas=locked.cas + 1).status == Status.LOCKED
    assert kv.call(Op.UNLOCK, key, cas=locked.cas).status == Status.SUCCESS
    assert kv.call(Op.UNLOCK, key, cas=locked.cas).status == Status.NOT_LOCKED
    assert kv.set(key, b"3").status == Status.SUCCESS


def test_write_with_the_locks_cas_unlocks(kv, key):
    kv.set(key, b"1")
    cas = kv.call(Op.GETL, key).cas
    assert kv.set(key, b"2", cas=cas).status == Status.SUCCESS
    assert kv.set(key, b"3").status == Status.SUCCESS


def test_lock_of_a_second_lasts_at_least_a_second(node, bucket, kv, key):
    kv.set(key, b"1")
    late_in_a_second()
    start = time.monotonic()
    assert kv.call(Op.GETL, key, struct.pack(">I", 1)).status == Status.SUCCESS
    with node.connect(bucket) as other:
        while (reply := other.set(key, b"2")).status == Status.LOCKED:
            assert time.monotonic() < start + 6, "the lock never ended"
            time.sleep(0.02)
    assert reply.status == Status.SUCCESS
    assert time.monotonic() - start >= 1


def test_locks_need_a_document(kv, key):
    assert kv.call(Op.GETL, key).status == Status.NOT_FOUND
    assert kv.call(Op.UNLOCK, key, cas=1).status == Status.NOT_FOUND


# Quiet commands


def test_quiet_reads_answer_only_hits(kv, key):
    kv.set(key, b"1")
    replies = pipeline(
        kv,
        frame(Op.GETQ, b"missing-1", vbucket=vbucket_of(b"missing-1"), opaque=1),
        frame(Op.GETQ, key, vbucket=vbucket_of(key), opaque=2),
        frame(Op.GETKQ, b"missing-2", vbucket=vbucket_of(b"missing-2"), opaque=3),
        frame(Op.GETKQ, key, vbucket=vbucket_of(key), opaque=4),
    )
    assert [reply.opaque for reply in replies] == [2, 4]
    assert replies[1].key == key


def test_quiet_writes_answer_only_failures(kv, key):
    replies = pipeline(
        kv,
        stored(key, b"1", Op.SETQ, 1),
        stored(key, b"2", Op.ADDQ, 2),
        stored(key, b"3", Op.REPLACEQ, 3),
        frame(Op.APPENDQ, key, value=b"4", vbucket=vbucket_of(key), opaque=4),
        frame(Op.PREPENDQ, key, value=b"0", vbucket=vbucket_of(key), opaque=5),
        frame(Op.INCRQ, key, struct.pack(">QQI", 1, 0, 0), vbucket=vbucket_of(key), opaque=6),
        frame(Op.DELETEQ, key, vbucket=vbucket_of(key), opaque=7),
        frame(Op.DELETEQ, key, vbucket=vbucket_of(key), opaque=8),
    )
    assert [(reply.opaque, reply.status) for reply in replies] == [
        (2, Status.EXISTS),
        (8, Status.NOT_FOUND),
    ]


# vBuckets


def test_vbucket_number_beyond_the_map_is_not_my_vbucket(kv, key):
    reply = kv.set(key, b"1", vbucket=1024)
    assert reply.status == Status.NOT_MY_VBUCKET
    assert kv.get(key, vbucket=0xFFFF).status == Status.NOT_MY_VBUCKET


def test_active_copy_refuses_replica_reads(kv, key):
    kv.set(key, b"1")
    # Never a document: an active copy does not answer as a replica.
    assert kv.call(Op.GET_REPLICA, key).status == Status.NOT_MY_VBUCKET


@pytest.mark.parametrize("count", [64, 128, 256])
def test_bucket_may_have_fewer_vbuckets(node, count):
    name = f"vbuckets-{count}"
    node.create_bucket(name, numVBuckets=count)
    with node.connect(name) as connection:
        assert connection.vbuckets == count
        for number in range(200):
            key = f"key-{number}".encode()
            assert connection.set(key, b"1").status == Status.SUCCESS
        assert connection.get(b"x", vbucket=count).status == Status.NOT_MY_VBUCKET


# Observing


def test_observe_seqno_reports_persisted_and_current_seqno(kv, key):
    uuid, seqno = kv.set(key, b"1").token
    vbucket = vbucket_of(key)
    deadline = time.monotonic() + 5
    while True:
        persisted, current = kv.observe_seqno(vbucket, uuid)
        assert persisted <= current and current >= seqno
        if persisted >= seqno:
            break
        assert time.monotonic() < deadline
    assert kv.stat("vbucket-seqno")[f"vb_{vbucket}:high_seqno"] == str(current)


def test_observe_seqno_of_an_unknown_history_is_not_found(kv, key):
    uuid, _ = kv.set(key, b"1").token
    reply = kv.call(
        Op.OBSERVE_SEQNO, value=(uuid ^ 1).to_bytes(8, "big"), vbucket=vbucket_of(key)
    )
    assert reply.status == Status.NOT_FOUND


def test_observe_reports_state_and_cas_of_documents(kv, key):
    cas = kv.set(key, b"1").cas
    places = b"".join(
        struct.pack(">HH", vbucket_of(name), len(name)) + name for name in (key, b"not-there")
    )
    reply = kv.call(Op.OBSERVE, value=places)
    assert reply.status == Status.SUCCESS
    state, found = struct.unpack_from(">BQ", reply.value, 4 + len(key))
    assert state in (0x00, 0x01) and found == cas
    (missing,) = struct.unpack_from(">B", reply.value, 4 + len(key) + 9 + 4 + len(b"not-there"))
    assert missing == 0x80


# Statistics


@pytest.mark.parametrize(
    "group,names",
    [
        ("", ["uptime", "version", "curr_items", "cmd_get"]),
        ("vbucket", ["vb_0", "vb_1023"]),
        ("vbucket-seqno", ["vb_0:uuid", "vb_1023:abs_high_seqno", "vb_1023:purge_seqno"]),
        ("vbucket-details", ["vb_0", "vb_1023:num_items", "vb_1023:num_tombstones"]),
        ("memory", ["mem_used", "ep_max_size", "ep_mem_high_wat"]),
        ("dcp", ["ep_dcp_count", "ep_dcp_producer_count"]),
        ("dcpagg", [":total:count", ":total:items_sent"]),
        ("failovers", ["vb_0:0:id", "vb_1023:num_entries"]),
    ],
)
def test_every_group_of_statistics_has_its_own_names(kv, group, names):
    found = kv.stat(group)
    assert [name for name in names if name not in found] == []
    assert ("curr_items" in found) == (group == "")


def test_item_count_follows_writes_and_deletions(kv, key):
    before = int(kv.stat()["curr_items"])
    kv.set(key, b"1")
    assert int(kv.stat()["curr_items"]) == before + 1
    kv.call(Op.DELETE, key)
    assert int(kv.stat()["curr_items"]) == before


def test_failovers_name_the_history_of_a_writes_token(kv, key):
    vbucket = vbucket_of(key)
    uuid, _ = kv.set(key, b"1").token
    found = kv.stat(f"failovers {vbucket}")
    assert found[f"vb_{vbucket}:0:id"] == str(uuid)
    assert found[f"vb_{vbucket}:num_entries"] == "1"


def test_dcp_accepts_the_form_that_tools_state(kv):
    options = b'{"stream_format":"json"}'
    assert kv.stat("dcp", value=options, datatype=1) == kv.stat("dcp")


def test_unknown_group_of_statistics_is_refused(kv):
    assert kv.call(Op.STAT, b"no such group").status == Status.NOT_FOUND


def test_every_vbucket_is_active(kv):
    states = kv.stat("vbucket")
    assert sum(state == "active" for state in states.values()) == 1024


# Invalid lengths


@pytest.mark.parametrize(
    "request_bytes",
    [
        frame(Op.GET),
        frame(Op.GET, b"key", extras=b"x"),
        frame(Op.GET, b"key", value=b"x"),
        frame(Op.SET, b"key", value=b"x"),
        frame(Op.SET, b"key", extras=b"1234", value=b"x"),
        frame(Op.SET, extras=bytes(8), value=b"x"),
        frame(Op.DELETE, b"key", extras=b"1234"),
        frame(Op.INCR, b"key"),
        frame(Op.INCR, b"key", extras=bytes(20), value=b"1"),
        frame(Op.APPEND, b"key", extras=b"1234", value=b"x"),
        frame(Op.TOUCH, b"key"),
        frame(Op.NOOP, b"key"),
        frame(Op.GET, b"k" * 251),
        frame(Op.OBSERVE_SEQNO, value=b"1234"),
    ],
    ids=lambda request: request[:8].hex(),
)
def test_malformed_request_is_invalid_and_the_connection_stays_open(kv, request_bytes):
    kv.send(request_bytes)
    assert kv.receive().status == Status.INVALID
    assert kv.call(Op.NOOP).status == Status.SUCCESS


# Framing extras


def test_unknown_framing_extra_is_refused(kv, key):
    for frames in (b"\x60", b"\xe1x", b"\xf0\x20"):
        assert kv.set(key, b"1", frames=frames).status == Status.UNKNOWN_FRAME
    assert kv.get(key).status == Status.NOT_FOUND


def test_truncated_framing_extra_is_invalid(kv, key):
    assert kv.set(key, b"1", frames=b"\x13\x01").status == Status.INVALID
    assert kv.call(Op.NOOP).status == Status.SUCCESS


@pytest.mark.parametrize("level", [1, 2, 3])
def test_durable_write_with_a_single_copy_succeeds(kv, key, level):
    for frames in (bytes([0x11, level]), struct.pack(">BBH", 0x13, level, 1500)):
        reply = kv.set(key, b"%d" % len(frames), frames=frames)
        assert reply.status == Status.SUCCESS
        assert kv.get(key).value == b"%d" % len(frames)
        assert kv.get(key).cas == reply.cas


@pytest.mark.parametrize("frames", [b"\x11\x00", b"\x11\x09", b"\x13\x01\x00\x00", b"\x12\x01\x01"])
def test_malformed_durability_frame_is_invalid(kv, key, frames):
    status = kv.set(key, b"1", frames=frames).status
    assert status in (Status.INVALID, Status.DURABILITY_INVALID)
    assert kv.get(key).status == Status.NOT_FOUND


def test_server_duration_is_sent_if_tracing_was_agreed(node, bucket, key):
    with Connection(node.kv_port) as connection:
        granted = connection.hello([*USUAL_FEATURES, Feature.TRACING])
        assert Feature.TRACING in granted
        connection.log_in(USER, PASSWORD)
        connection.select_bucket(bucket)
        reply = connection.set(key, b"1")
        assert reply.magic == 0x18
        assert reply.frames[0] == 0x02 and len(reply.frames) == 3
    with node.connect(bucket) as connection:
        assert connection.get(key).magic == 0x81


def test_unordered_execution_answers_everything_once(node, bucket):
    with node.connect(bucket, [*USUAL_FEATURES, Feature.UNORDERED]) as connection:
        count = 300
        names = [f"unordered-{number}".encode() for number in range(count)]
        for number, name in enumerate(names):
            connection.send(stored(name, str(number).encode(), opaque=number))
        assert {connection.receive().opaque for _ in names} == set(range(count))
        for number, name in enumerate(names):
            connection.send(frame(Op.GET, name, vbucket=vbucket_of(name), opaque=number))
        for _ in names:
            reply = connection.receive()
            assert reply.value == str(reply.opaque).encode()


def test_quit_is_answered_behind_the_requests_that_wait(node, bucket, key):
    persisted = bytes([0x11, 0x03])
    with node.connect(bucket, [*USUAL_FEATURES, Feature.UNORDERED]) as connection:
        connection.send(stored(key, b"1", opaque=1, frames=persisted) + frame(Op.QUIT, opaque=2))
        replies = [connection.receive() for _ in range(2)]
        assert [(reply.opaque, reply.status) for reply in replies] == [(1, 0), (2, 0)]
        assert connection.is_closed_by_server()
