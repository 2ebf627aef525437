"""Full eviction: many times more keys than a quota holds, with exact results."""

import os
import random
import struct
import time
import zlib

from rig.load import fetch
from rig.node import wait_until
from rig.wire import HEADER, Op, Status
from test_disk import settle

MIB = 1 << 20
QUOTA = 100 * MIB
# Memory of a node beside the quota of its bucket: the program, buffers, SQLite's caches.
BESIDE = 160 * MIB
# Bytes of one of these documents that is fully in memory.
DOCUMENT = 150
# A campaign uses ten; three take half a minute.
TIMES = float(os.environ.get("DIVAN_EVICTION_TIMES", "3"))
BATCH = 2000


def key(number):
    return b"key-%08d" % number


def value(number):
    """100 bytes, different for each document, which can be verified by number."""
    return b"%020d" % (number * 0x9E3779B97F4A7C15 % 10**20) * 5


class Loader:
    """Stores documents by number with quiet requests: only refusals are answered."""

    def __init__(self, connection):
        self.connection = connection
        self.putbacks = 0
        self.noop = HEADER.pack(0x80, Op.NOOP, 0, 0, 0, 0, 0, 0, 0)

    def store(self, numbers):
        """One batch; returns the numbers that the node had no memory for."""
        pack, crc, vbuckets = HEADER.pack, zlib.crc32, self.connection.vbuckets
        parts = []
        extras = struct.pack(">II", 0, 0)
        for number in numbers:
            name, body = key(number), value(number)
            vbucket = (crc(name) >> 16 & 0x7FFF) % vbuckets
            size = 8 + len(name) + len(body)
            parts += (pack(0x80, Op.SETQ, len(name), 8, 0, vbucket, size, number, 0),
                      extras, name, body)
        self.connection.send(b"".join(parts) + self.noop)
        refused = []
        while (reply := self.connection.receive()).op != Op.NOOP:
            assert reply.status == Status.TEMPORARY, reply
            refused.append(reply.opaque)
        self.putbacks += len(refused)
        return refused

    def load(self, count, each_batch):
        start, again = 0, []
        while start < count or again:
            numbers = again + list(range(start, min(count, start + BATCH - len(again))))
            start += len(numbers) - len(again)
            again = self.store(numbers)
            if again:
                time.sleep(0.02)
            each_batch()


def check(connection, count, dice, samples):
    """The count is exact, and a sample of documents has the stored values."""
    assert int(connection.stat()["curr_items"]) == count
    names = [key(dice.randrange(count)) for _ in range(samples)]
    for name, reply in fetch(connection, names, depth=128):
        assert reply.status == Status.SUCCESS, f"{name}: {reply}"
        assert reply.value == value(int(name[4:])), name
    assert connection.get(key(count)).status == Status.NOT_FOUND


def test_full_eviction_bucket_holds_many_times_more_keys_than_its_quota(make_node):
    count = int(TIMES * QUOTA / DOCUMENT)
    node = make_node().start().provision()
    node.create_bucket("big", evictionPolicy="fullEviction")
    dice = random.Random(7)
    highest = [0]
    marks = []

    def mark(what):
        marks.append((what, time.monotonic()))

    def watch():
        highest[0] = max(highest[0], node.resident_anonymous_bytes())

    mark("begin")
    with node.connect("big") as connection:
        connection.socket.settimeout(60)
        loader = Loader(connection)
        loader.load(count, watch)
        mark(f"loaded, {loader.putbacks} refused for now")
        settle(node, "big")
        mark("persisted")
        check(connection, count, dice, 5000)
        mark("5000 read")
        # Writes of fully ejected documents: exact counts, no second copy.
        for number in [dice.randrange(count) for _ in range(200)]:
            assert connection.set(key(number), value(number), op=Op.ADD).status == Status.EXISTS
        gone = dice.sample(range(count), 200)
        for number in gone:
            assert connection.call(Op.DELETE, key(number)).status == Status.SUCCESS
        assert int(connection.stat()["curr_items"]) == count - len(gone)
        while gone:
            gone = loader.store(gone)
        assert int(connection.stat()["curr_items"]) == count
        settle(node, "big")
        watch()
        mark("200 added, deleted, set")
    print(f"{count} documents, {highest[0] >> 20} MiB resident at most")
    assert highest[0] < QUOTA + BESIDE, f"{highest[0] >> 20} MiB resident"

    node.kill()
    mark("killed")
    node.start()
    mark("ready")

    def is_warm():
        watch()
        with node.connect("big") as connection:
            return connection.stat()["ep_warmup_thread"] == "complete"

    highest[0] = 0
    wait_until(is_warm, 120, "the bucket is warm")
    mark("warm")
    with node.connect("big") as connection:
        connection.socket.settimeout(60)
        check(connection, count, dice, 5000)
        watch()
        mark("5000 read")
    print(f"{highest[0] >> 20} MiB resident at most after the restart")
    for (_, since), (what, until) in zip(marks, marks[1:]):
        print(f"{until - since:7.1f} s  {what}")
    assert highest[0] < QUOTA + BESIDE, f"{highest[0] >> 20} MiB resident"
