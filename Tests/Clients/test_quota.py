"""More documents than memory: clients get temporary failures, never a loss; memory is bounded."""

import os
import random

from rig.load import fetch, ingest
from rig.node import wait_until
from rig.wire import Status

MIB = 1 << 20
QUOTA = 100 * MIB
# Memory of a node beside the quota of its bucket: the program, buffers, SQLite's caches.
BESIDE = 160 * MIB
# A campaign uses ten; fewer here, since every document is rendered in Python.
FACTOR = float(os.environ.get("DIVAN_QUOTA_FACTOR", "3"))


def value(number, size):
    """Cheap, different for each document, and verifiable by number."""
    head = b'{"n":%d,"p":"' % number
    seed = b"%016x" % (number * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
    body = (seed * (size // 16 + 1))[: size - len(head) - 2]
    return head + body + b'"}'


def test_documents_beyond_the_quota_are_stored_and_read_back(make_node):
    size = 1024
    count = int(QUOTA * FACTOR / size)
    node = make_node().start().provision().create_bucket("big")
    highest = 0
    with node.connect("big") as connection:
        connection.socket.settimeout(60)
        step = 50_000
        for start in range(0, count, step):
            numbers = range(start, min(count, start + step))
            ingest(connection, ((b"key-%d" % n, value(n, size)) for n in numbers))
            highest = max(highest, node.resident_anonymous_bytes())
        assert int(connection.stat()["curr_items"]) == count
        # Every one at a scale that takes seconds, a sample of the rest.
        dice = random.Random(3)
        sample = sorted(dice.sample(range(count), min(count, 40_000)))
        for key, reply in fetch(connection, [b"key-%d" % n for n in sample], depth=256):
            assert reply.status == Status.SUCCESS, f"{key}: {reply}"
            assert reply.value == value(int(key[4:]), size)
        highest = max(highest, node.resident_anonymous_bytes())
    assert highest < QUOTA + BESIDE, f"{highest >> 20} MiB resident"


def test_metadata_above_the_quota_raises_an_alert_and_reads_continue(make_node):
    node = make_node().start().provision().create_bucket("keys", numVBuckets=64)

    def key(number):
        return b"%08d" % number + b"k" * 242

    with node.connect("keys") as connection:
        # Keys of 250 bytes without values: nothing that valueOnly could eject.
        number = 280_000
        ingest(connection, ((key(each), b"") for each in range(number)), depth=256)

        def is_told():
            nonlocal number
            for _ in range(200):
                if connection.set(key(number), b"").status == Status.SUCCESS:
                    number += 1
            alerts = node.admin.get("/pools/default").json["alerts"]
            return any("keys" in alert["msg"] and "metadata" in alert["msg"] for alert in alerts)

        # The pager reports an alert after most of a minute.
        wait_until(is_told, 120, "an alert that metadata takes up the quota")
        assert connection.set(key(number), b"").status == Status.TEMPORARY
        for each in (0, number // 2, number - 1):
            assert connection.get(key(each)).status == Status.SUCCESS


def test_ephemeral_bucket_without_eviction_refuses_writes_beyond_the_quota(make_node):
    node = make_node().start().provision()
    node.create_bucket("full", bucketType="ephemeral", evictionPolicy="noEviction")
    with node.connect("full") as connection:
        stored = 0
        refused = False
        for number in range(2 * QUOTA // (64 << 10)):
            status = connection.set(b"key-%d" % number, bytes(64 << 10)).status
            if status != Status.SUCCESS:
                assert status in (Status.TEMPORARY, Status.NO_MEMORY)
                refused = True
                break
            stored += 1
        assert refused
        assert stored * (64 << 10) > QUOTA // 2
        # All stored documents are there; deletions make room.
        assert connection.get(b"key-0").status == Status.SUCCESS
        for number in range(stored // 2):
            connection.call(0x04, b"key-%d" % number)
        wait_until(
            lambda: connection.set(b"again", bytes(64 << 10)).status == Status.SUCCESS, 10
        )


def test_ephemeral_bucket_with_eviction_deletes_the_least_used_documents(make_node):
    node = make_node().start().provision()
    node.create_bucket("forgets", bucketType="ephemeral", evictionPolicy="nruEviction")
    with node.connect("forgets") as connection:
        count = 3 * QUOTA // (16 << 10)
        ingest(connection, ((b"key-%d" % n, bytes(16 << 10)) for n in range(count)), depth=64)
        assert int(connection.stat()["curr_items"]) < count
        newest = connection.get(b"key-%d" % (count - 1))
        assert newest.status == Status.SUCCESS
    assert node.resident_anonymous_bytes() < QUOTA + BESIDE


def test_background_fetch_does_not_delay_other_requests(make_node):
    node = make_node().start().provision().create_bucket("big")
    count = 2 * QUOTA // 1024
    with node.connect("big") as connection:
        connection.socket.settimeout(60)
        ingest(connection, ((b"key-%d" % n, value(n, 1024)) for n in range(count)))

        def ejected():
            return int(connection.stat("vbucket-details")["vb_0:num_non_resident"]) > 0

        wait_until(ejected, 20, "something is ejected")
        # Answers stay in order although some come from disk.
        dice = random.Random(9)
        keys = [b"key-%d" % dice.randrange(count) for _ in range(5000)]
        for key, reply in fetch(connection, keys):
            assert reply.status == Status.SUCCESS
            assert reply.value == value(int(key[4:]), 1024)
