"""The change protocol over a cluster: rebalance and failover lose and repeat nothing unannounced."""

import os
import struct
import sys
import threading
import time
import types

import cluster
import pytest
from follower import Follower, MapWriter, active_nodes, visible_seqnos
from rig import dcp
from rig.node import wait_until
from rig.wire import Closed, Op, Status, frame, vbucket_of

BUCKET = "travel"
VBUCKETS = 64
# A million before a release (CONTRIBUTING.md).
WRITES = int(os.environ.get("DIVAN_CHANGES", 50_000))
KEYS = 5_000
# Seconds until followers have everything; a million changes take minutes on a busy machine.
PATIENCE = 60 + WRITES // 2_000


def changes(first, count):
    """Writes of documents; each tenth is deleted again, and each fiftieth expires soon."""
    for number in range(first, first + count):
        key = b"change-%d" % (number % KEYS)
        yield key, b'{"n":%d}' % number, 0
        if number % 10 == 9:
            yield key, None, 0
        if number % 50 == 25:
            yield expiring(number), b"1", int(time.time()) + 2


def expiring(number):
    return b"expiring-%d" % (number % KEYS)


def expire(writer):
    """Waits until all expiring documents are gone, which their reading brings about.

    Returns their keys.
    """
    keys = [key for key in writer.documents if key.startswith(b"expiring-")]
    owners, by_owner = active_nodes(writer.nodes, BUCKET), {}
    for key in keys:
        by_owner.setdefault(owners[vbucket_of(key, VBUCKETS)], []).append(key)
    for number, each in by_owner.items():
        with writer.nodes[number].connect(BUCKET) as connection:
            connection.vbuckets = VBUCKETS
            for key in each:
                wait_until(
                    lambda: connection.get(key).status == Status.NOT_FOUND, 20, f"{key} expires"
                )
                writer.written[key] = None
    return set(keys)


def make_followers(nodes):
    def follower(name, **options):
        return Follower(nodes, BUCKET, VBUCKETS, name, **options)

    return {
        "whole": follower("whole"),
        # Resumes with the failover log, often inside a snapshot.
        "resuming": follower("resuming", disconnects_after=2_500),
        "part": follower("part", vbuckets=range(3, 11)),
        "slow": follower("slow", buffer=20_000, pause=0.1),
    }


def test_consumers_follow_rebalance_and_failover_without_gap_or_repeat(start):
    nodes = start(cluster.made, 3, [BUCKET])
    with MapWriter(nodes, BUCKET, VBUCKETS) as writer:
        part = WRITES // 5
        # So that the followers begin with a backfill.
        writer.write(changes(0, part))
        followers = make_followers(nodes)
        try:
            nodes.start_rebalance(eject=[2])
            writer.write(changes(part, part))
            nodes.await_rebalance(seconds=120)
            # The removed node has not left yet: adding it waits for that.
            nodes.add(2)
            nodes.start_rebalance()
            writer.write(changes(2 * part, part))
            nodes.await_rebalance(seconds=120)
            assert nodes.fail_over(2, path="startGracefulFailover").status == 200
            writer.write(changes(3 * part, part))
            nodes.await_rebalance(seconds=120)
            writer.write(changes(4 * part, part))
            expired = expire(writer)
            followers["slow"].pause = 0

            seqnos = visible_seqnos(nodes, BUCKET)
            for name, follower in followers.items():
                wait_until(lambda: follower.has(seqnos), PATIENCE, f"{name} has every change")
                expected = {
                    key: value
                    for key, value in writer.documents.items()
                    if vbucket_of(key, VBUCKETS) in follower.copies
                }
                assert follower.contents() == expected, name
                # No order above loses a change, so that no history may be rolled back.
                assert follower.rollbacks == [], name
            assert expired and expired <= followers["whole"].expired
            assert followers["resuming"].disconnects > 2
        finally:
            for follower in followers.values():
                follower.stop()


def test_failover_that_loses_changes_rolls_back_the_consumers_that_have_them(start):
    """The replica of some vBuckets was down during writes that consumers received."""
    nodes = start(cluster.made, 3, [BUCKET])
    nodes.set_auto_failover(timeout=1_000)
    rows = nodes.vbucket_map(BUCKET)
    active, replica = next((row[0], row[1]) for row in rows if 0 not in row)
    lonely = {number for number, row in enumerate(rows) if row == [active, replica]}
    with MapWriter(nodes, BUCKET, VBUCKETS) as writer:
        kept = [(b"kept-%d" % number, b"old", 0) for number in range(1_000)]
        writer.write(kept)
        followers = {name: Follower(nodes, BUCKET, VBUCKETS, name) for name in ("a", "b")}
        try:
            await_changes(nodes, followers)
            await_replicas(nodes, writer)
            with nodes[replica].connect(BUCKET) as connection:
                wait_until(lambda: connection.stat()["ep_queue_size"] == "0", 10, "all is on disk")
            nodes[replica].kill()
            # New documents, new versions and deletions, all of which are lost.
            lost = [
                (key, value, 0)
                for number in range(3_000)
                for key, value in (
                    (b"lost-%d" % number, b"new"),
                    (b"kept-%d" % number, b"new" if number % 2 else None),
                )
                if vbucket_of(key, VBUCKETS) in lonely and (number < 1_000 or b"lost" in key)
            ]
            before = dict(writer.written)
            writer.write(lost)
            changed = {vbucket_of(key, VBUCKETS) for key, _, _ in lost}
            assert changed == lonely
            for name, follower in followers.items():
                wait_until(
                    lambda: all(
                        follower.contents().get(key) == value for key, value, _ in lost
                    ),
                    20,
                    f"{name} has the changes that will be lost",
                )
            nodes[active].kill()
            nodes[replica].start()
            address = nodes[replica].address
            wait_until(lambda: nodes.nodes(0)[address]["status"] == "healthy", 20, "it is back")
            assert nodes.fail_over(active, allowUnsafe="true").status == 200
            writer.written = before
            # A new history, whose seqnos are those of lost changes.
            writer.write([(b"later-%d" % number, b"later", 0) for number in range(1_000)])
            await_changes(nodes, followers, but=active)
            for follower in followers.values():
                assert follower.contents() == writer.documents
                assert {vbucket for vbucket, _, _ in follower.rollbacks} == lonely
                assert all(to < at for _, at, to in follower.rollbacks)
        finally:
            for follower in followers.values():
                follower.stop()


def await_changes(nodes, followers, but=None):
    seqnos = visible_seqnos(nodes, BUCKET)
    assert len(seqnos) == VBUCKETS
    for name, follower in followers.items():

        def is_current():
            # A position of the old history is higher than the new one's.
            served = set(follower.served.values())
            return len(follower.served) == VBUCKETS and but not in served and follower.has(seqnos)

        wait_until(is_current, 60, f"{name} has every change")


def await_replicas(nodes, writer):
    """Waits until every replica has every document."""
    rows = nodes.vbucket_map(BUCKET)
    for key, value in writer.documents.items():
        vbucket = vbucket_of(key, VBUCKETS)
        with nodes[rows[vbucket][1]].connect(BUCKET) as connection:
            wait_until(
                lambda: connection.call(Op.GET_REPLICA, key, vbucket=vbucket).value == value,
                10,
                f"the replica has {key}",
            )


def test_tap_connection_closes_when_another_node_gets_copies(start):
    nodes = start(cluster.Cluster, 2)
    nodes[0].create_bucket(BUCKET, numVBuckets=VBUCKETS)
    with nodes[0].connect(BUCKET) as connection:
        # TAP_CONNECT without history.
        connection.send(frame(0x40, extras=struct.pack(">I", 1), value=b"\xff" * 8))
        assert connection.call(Op.NOOP).status == Status.SUCCESS
        nodes.add(1)
        nodes.rebalance()
        assert connection.is_closed_by_server()


def test_closed_tap_client_continues_at_its_position(start):
    nodes = start(cluster.Cluster, 2)
    nodes[0].create_bucket(BUCKET, numVBuckets=VBUCKETS)
    request = frame(0x40, extras=struct.pack(">I", 1), value=b"\xff" * 8)
    with nodes[0].connect(BUCKET) as connection:
        connection.send(request)
        assert connection.call(Op.NOOP).status == Status.SUCCESS
        nodes.add(1)
        nodes.rebalance()
        assert connection.is_closed_by_server()
    missing = set()
    with nodes[0].connect(BUCKET) as connection:
        for number in range(200):
            key = f"between-{number}"
            status = connection.set(key, b"1").status
            assert status in (Status.SUCCESS, Status.NOT_MY_VBUCKET)
            if status == Status.SUCCESS:
                missing.add(key.encode())
    assert missing
    with nodes[0].connect(BUCKET) as connection:
        connection.send(request)
        while missing:
            missing.discard(connection.receive().key)


def test_tap_client_gets_changes_of_vbuckets_that_moved_before_it_connected(start):
    nodes = start(cluster.Cluster, 2)
    nodes[0].create_bucket(BUCKET, numVBuckets=VBUCKETS)
    request = frame(0x40, extras=struct.pack(">I", 1), value=b"\xff" * 8)
    got = set()
    with MapWriter(nodes, BUCKET, VBUCKETS) as writer:
        writer.write((b"before-%d" % number, b"1", 0) for number in range(200))
        with nodes[0].connect(BUCKET) as connection:
            connection.send(request)
            assert connection.call(Op.NOOP).status == Status.SUCCESS
            nodes.add(1)
            nodes.start_rebalance()
            # Most of them after the connection closed, and before their vBucket moves.
            count = 0
            while nodes.progress()["status"] != "none":
                if count < 4_000:
                    some = range(count, count + 20)
                    writer.write((b"during-%d" % number, b"1", 0) for number in some)
                    count += 20
            nodes.await_rebalance()
            writer.write((b"after-%d" % number, b"1", 0) for number in range(200))
            with pytest.raises((Closed, ConnectionError)):
                while True:
                    got.add(connection.receive().key)
            writer.write((b"closed-%d" % number, b"1", 0) for number in range(200))
        owners = active_nodes(nodes, BUCKET)
        assert set(owners) == {0, 1}
        for number in (0, 1):
            missing = {
                key
                for key in writer.written.keys() - got
                if owners[vbucket_of(key, VBUCKETS)] == number and b"before" not in key
            }
            assert missing
            with nodes[number].connect(BUCKET) as connection:
                connection.send(request)
                while missing:
                    missing.discard(connection.receive().key)


def test_contents_of_a_follower_are_read_while_changes_arrive():
    """Of the follower itself: changes of a snapshot are applied in the midst of a reading."""
    arrived = []
    follower = Follower(types.SimpleNamespace(living=[]), BUCKET, 1, "a", pause=0.01)

    def apply():
        for number in range(1, 2_001):
            extras = struct.pack(">QQIIIHB", number, 1, 0, 0, 0, 0, 0)
            message = frame(dcp.MUTATION, b"key-%d" % number, extras, b"1", vbucket=0)
            follower._apply(dcp.Message(message[:24], message[24:]))
            arrived.append(number)

    follower.copies[0].announce(0, 2_000)
    writer = threading.Thread(target=apply)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        writer.start()
        while writer.is_alive():
            before = len(arrived)
            assert before <= len(follower.contents())
    finally:
        sys.setswitchinterval(interval)
        writer.join()
        follower.stop()
    assert len(follower.contents()) == 2_000
