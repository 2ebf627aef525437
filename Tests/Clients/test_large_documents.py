"""Documents that are large beside their bucket's quota find room, or are refused by name."""

import os
import struct
import time

import pytest
from rig.wire import HEADER, Op, Status, vbucket_of
from test_disk import settle

MIB = 1 << 20
QUOTA = 100 * MIB
LARGE = 20 * MIB


def memory_used(connection):
    return int(connection.stat()["mem_used"])


def fill(connection, share, value_bytes=64 << 10):
    """Stores documents until they use a share of the quota; returns their number."""
    count = 0
    value = os.urandom(value_bytes)
    while (missing := share * QUOTA - memory_used(connection)) > value_bytes:
        for _ in range(int(missing / (value_bytes + 512)) + 1):
            assert connection.set(b"filler-%06d" % count, value).status == Status.SUCCESS
            count += 1
    return count


def set_with_retries(connection, key, value, seconds=60):
    """Retries temporary failures as a client does; returns the last answer and the number of
    answers before it."""
    deadline = time.monotonic() + seconds
    refusals = 0
    while (reply := connection.set(key, value)).status == Status.TEMPORARY:
        assert time.monotonic() < deadline, f"{refusals} times refused, no end of it"
        refusals += 1
        time.sleep(0.1)
    return reply, refusals


@pytest.mark.parametrize("is_persisted", [True, False], ids=["persisted", "unpersisted"])
@pytest.mark.parametrize("policy", ["valueOnly", "fullEviction"])
def test_write_of_a_large_document_waits_for_ejection_and_succeeds(make_node, policy, is_persisted):
    node = make_node().start().provision()
    node.create_bucket("big", evictionPolicy=policy)
    value = os.urandom(MIB) * 20
    with node.connect("big", seconds=60) as connection:
        count = fill(connection, 0.75)
        if is_persisted:
            settle(node, "big")
        start = time.monotonic()
        reply, refusals = set_with_retries(connection, b"large", value)
        print(f"{refusals} refusals in {time.monotonic() - start:.2f} s")
        assert reply.status == Status.SUCCESS, reply
        # The client of the report was refused 111 times in 12 s, and would have been for ever.
        assert refusals <= 20
        assert connection.get(b"large").value == value
        # Repeatedly: each version needs room beside the one before.
        for round_number in range(3):
            reply, refusals = set_with_retries(connection, b"large", value[round_number:])
            assert reply.status == Status.SUCCESS, reply
        assert connection.get(b"large").value == value[2:]
        assert memory_used(connection) <= QUOTA
        for number in range(0, count, count // 50):
            found = connection.get(b"filler-%06d" % number)
            assert (found.status, len(found.value)) == (Status.SUCCESS, 64 << 10)


def test_touch_and_append_of_a_large_document_find_room(make_node):
    node = make_node().start().provision()
    node.create_bucket("big", evictionPolicy="valueOnly")
    with node.connect("big", seconds=60) as connection:
        assert connection.set(b"large", b"x" * (15 * MIB)).status == Status.SUCCESS
        fill(connection, 0.80)
        settle(node, "big")
        deadline = time.monotonic() + 60

        def call(op, extras, value):
            while True:
                reply = connection.call(op, b"large", extras, value)
                if reply.status != Status.TEMPORARY:
                    return reply
                assert time.monotonic() < deadline, "refused without end"
                time.sleep(0.1)

        assert call(Op.TOUCH, struct.pack(">I", 10_000), b"").status == Status.SUCCESS
        assert call(Op.APPEND, b"", b"y" * (4 * MIB)).status == Status.SUCCESS
        found = connection.get(b"large").value
        assert found == b"x" * (15 * MIB) + b"y" * (4 * MIB)


def fill_with_keys(connection, share):
    """Stores documents with long keys and short values, until they use a share of the quota."""
    noop = HEADER.pack(0x80, Op.NOOP, 0, 0, 0, 0, 0, 0, 0)
    extras = bytes(8)
    count = 0
    while memory_used(connection) < share * QUOTA:
        parts = []
        for _ in range(5000):
            key = b"%0240d" % count
            header = HEADER.pack(
                0x80, Op.SETQ, len(key), 8, 0, vbucket_of(key), 8 + len(key) + 1, 0, 0
            )
            parts += (header, extras, key, b"x")
            count += 1
        connection.send(b"".join(parts) + noop)
        assert connection.receive().op == Op.NOOP
    return count


def test_document_that_can_never_fit_is_refused_by_name(make_node):
    node = make_node().start().provision()
    node.create_bucket("big", evictionPolicy="valueOnly")
    value = b"x" * LARGE
    with node.connect("big", seconds=60) as connection:
        fill_with_keys(connection, 0.78)
        settle(node, "big")
        reply, refusals = set_with_retries(connection, b"large", value)
        assert reply.status == Status.TOO_BIG, reply
        assert refusals <= 20
        for words in (b"bucket big", b"100 MiB", b"Raise the quota", b"full eviction"):
            assert words in reply.value, reply.value
        # Small documents are stored as before, and the remedy works.
        assert connection.set(b"small", b"x").status == Status.SUCCESS
        form = {"ramQuotaMB": 140}
        assert node.admin.post("/pools/default/buckets/big", form).status == 200
        reply, _ = set_with_retries(connection, b"large", value)
        assert reply.status == Status.SUCCESS, reply


@pytest.mark.parametrize("policy", ["nruEviction", "noEviction"])
def test_large_document_in_a_bucket_without_a_disk(make_node, policy):
    """Documents are ejected to make room; if that is not allowed, the answer says so at once."""
    node = make_node().start().provision()
    node.create_bucket("big", bucketType="ephemeral", evictionPolicy=policy)
    with node.connect("big", seconds=60) as connection:
        count = fill(connection, 0.76)
        if policy == "nruEviction":
            reply, _ = set_with_retries(connection, b"large", b"x" * LARGE)
            assert reply.status == Status.SUCCESS, reply
            return
        reply = connection.set(b"large", b"x" * LARGE)
        assert reply.status == Status.TEMPORARY and b"memory is full" in reply.value, reply
        for number in range(count):
            assert connection.call(Op.DELETE, b"filler-%06d" % number).status == Status.SUCCESS
        assert connection.set(b"large", b"x" * LARGE).status == Status.SUCCESS
