"""Suspended nodes of a cluster, and a node with a full disk: answers to clients, and documents."""

import contextlib
import random
import socket
import threading
import time

import pytest
from couchbase.durability import DurabilityLevel, ServerDurability
from couchbase.options import UpsertOptions

from cluster import Cluster, Member, made
from documents import Documents
from rig import sdk
from rig.node import wait_until
from rig.wire import Closed, Op, Status, frame, vbucket_of
from test_cluster_sdk import Traffic

BUCKET = "travel"


# Suspended nodes


@pytest.mark.parametrize("number", [0, 1], ids=["the-leader", "a-follower"])
def test_resumed_node_does_not_answer_requests_from_before_its_pause(start, number):
    """Neither reads nor writes that waited in its sockets during the failover."""
    cluster = start(made, 3, [BUCKET])
    cluster.set_auto_failover(timeout=1)
    at = (number + 1) % 3
    documents = Documents(cluster, BUCKET)
    documents.write("slept", 200, at)
    documents.await_copies(at)
    keys = documents.of(number, at)[:40]
    old = dict(documents.written)
    waiting = [(key, cluster[number].connect(BUCKET)) for key in keys]
    cluster[number].suspend()
    wait_until(
        lambda: cluster.membership(number, at) == "inactiveFailed", 15, "it is failed over"
    )
    assert documents.wrong(at) == {}
    documents.write("slept", 200, at)
    for key, connection in waiting:
        place = vbucket_of(key, connection.vbuckets)
        connection.send(frame(Op.GET, key, vbucket=place))
        connection.send(frame(Op.SET, key, bytes(8), b"too late", vbucket=place))
        connection.send(frame(Op.GET, key, vbucket=place))
    cluster[number].resume()
    for key, connection in waiting:
        with connection:
            try:
                answers = [connection.receive() for _ in range(3)]
            except (Closed, ConnectionError):
                continue
            told = [(answer.status, answer.value) for answer in answers]
            assert Status.SUCCESS not in [status for status, _ in told], (key, told, old[key])
    assert documents.wrong(at) == {}
    wait_until(
        lambda: cluster.membership(number, at=number) == "inactiveFailed", 10, "it hears of it"
    )
    cluster.take_back(number, "delta", at)
    cluster.rebalance(at=at)
    assert documents.wrong(at=number) == {}
    documents.await_copies(at)


class Foreign:
    """A program that accepts connections at a port and closes them at once."""

    def __init__(self, host, port):
        self.listener = socket.create_server((host, port))
        self.thread = threading.Thread(target=self._accept)
        self.thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                self.listener.accept()[0].close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)


def test_killed_process_is_failed_over_long_before_the_timeout(start):
    cluster = start(made, 3, [BUCKET])
    cluster.set_auto_failover(timeout=60)
    documents = Documents(cluster, BUCKET)
    documents.write("gone", 200, 0)
    documents.await_copies(0)
    cluster[2].kill()
    # A fifth of the timeout.
    wait_until(lambda: cluster.membership(2) == "inactiveFailed", 40, "it is failed over")
    assert documents.wrong(0) == {}


def test_foreign_program_at_the_port_of_a_killed_process_is_no_proof_of_its_end(start):
    cluster = start(made, 3, [BUCKET])
    cluster.set_auto_failover(timeout=15)
    cluster[2].kill()
    foreign = Foreign(cluster[2].host, int(cluster[2].flag("--peer-port")))
    try:
        time.sleep(5)
        assert cluster.membership(2) == "active"
    finally:
        foreign.close()
    wait_until(lambda: cluster.membership(2) == "inactiveFailed", 15, "it is failed over")


def test_pauses_shorter_than_the_failover_timeout_lose_no_write(start):
    """Around the duration of a lease, of each node in turn, under client load."""
    cluster = start(made, 3, [BUCKET])
    cluster.set_auto_failover(timeout=10)
    client = sdk.connect(cluster)
    try:
        with Traffic(client.bucket(BUCKET).default_collection(), "nap") as traffic:
            dice = random.Random(3)
            for turn in range(6):
                cluster[turn % 3].suspend()
                time.sleep(dice.uniform(0.2, 1.2))
                cluster[turn % 3].resume()
                time.sleep(0.3)
            wait_until(lambda: traffic.writes > 100 and traffic.reads > 100, 20, "it goes on")
            traffic.end()
            assert traffic.other_than_retriable() == []
            assert traffic.flaws() == {}
    finally:
        client.close()
    assert all(cluster.membership(each) == "active" for each in range(3))


# Nodes that fail at a bad time


def test_node_killed_while_its_bucket_is_created_is_failed_over(start):
    """Its replicas have no changes of it, and know that there were none."""
    cluster = start(made, 3)
    cluster.set_auto_failover(timeout=1)
    form = {"name": BUCKET, "ramQuotaMB": 100, "replicaNumber": 1, "numVBuckets": 64}
    assert cluster[0].admin.post("/pools/default/buckets", form).status == 202
    cluster[1].kill()
    wait_until(lambda: cluster.membership(1) == "inactiveFailed", 15, "it is failed over")
    documents = Documents(cluster, BUCKET)
    assert set(documents.owners(0)) == {0, 2}
    wait_until(lambda: not documents.try_write("first", 200, 0), 10, "everything serves")
    assert documents.wrong(at=2) == {}


def test_rebalance_continues_without_a_failed_over_node(start):
    """It fails before it has data; otherwise its copies would have to be complete."""
    cluster = start(Cluster, 4)
    for number in (1, 2):
        cluster.add(number)
    cluster.rebalance()
    cluster[0].create_bucket(BUCKET, replicaNumber=1, numVBuckets=1024)
    documents = Documents(cluster, BUCKET)
    documents.write("before", 20_000, 0)
    reply = cluster[0].admin.post("/settings/rebalance", {"rebalanceMovesPerNode": 1})
    assert reply.status == 200 and reply.json == {"rebalanceMovesPerNode": 1}
    cluster.set_auto_failover(timeout=1)
    cluster.add(3)
    cluster[3].kill()
    cluster.start_rebalance()
    cluster.await_rebalance()
    assert cluster.membership(3) == "inactiveFailed"
    rows = cluster.vbucket_map(BUCKET)
    assert all(len(row) == 2 and None not in row and 3 not in row for row in rows)
    counts = [sum(row[0] == number for row in rows) for number in range(3)]
    assert max(counts) - min(counts) <= 1, counts
    assert documents.wrong(at=0) == {}
    documents.await_copies(at=0)
    told = [one["text"] for one in cluster[0].admin.get("/logs").json["list"]]
    assert any("continued without" in text and cluster[3].address in text for text in told), told


class Durably:
    """A collection whose writes are durable."""

    def __init__(self, collection):
        self.collection = collection
        self.get = collection.get

    def upsert(self, key, value):
        durability = ServerDurability(DurabilityLevel.MAJORITY)
        return self.collection.upsert(key, value, UpsertOptions(durability=durability))


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("is_over", [False, True], ids=["amid-the-rebalance", "after-it"])
def test_node_killed_while_it_takes_over_vbuckets_is_failed_over(start, is_over, replicas):
    """No replica has a stream yet; a copy with all changes of the old active one needs none."""
    cluster = start(Cluster, 4)
    for number in (1, 2):
        cluster.add(number)
    cluster.rebalance()
    cluster[0].create_bucket(BUCKET, replicaNumber=replicas, numVBuckets=1024)
    documents = Documents(cluster, BUCKET)
    documents.write("before", 2_000, 0)
    cluster.set_auto_failover(timeout=1)
    client = sdk.connect(cluster)
    try:
        collection = Durably(client.bucket(BUCKET).default_collection())
        with Traffic(collection, "durable") as traffic:
            wait_until(lambda: traffic.writes > 50, 20, "durable writes pass")
            cluster.add(3)
            cluster.start_rebalance()
            if is_over:
                cluster.await_rebalance()
            else:
                wait_until(
                    lambda: any(owner == 3 for owner in documents.owners(0)),
                    30,
                    "it has taken vBuckets over",
                )
            time.sleep(0.1)
            cluster[3].kill()
            killed = time.monotonic()
            wait_until(lambda: cluster.membership(3) == "inactiveFailed", 5, "it is failed over")
            print(f"failed over after {time.monotonic() - killed:.1f} s")
            cluster.await_rebalance(seconds=120)
            writes = traffic.writes
            wait_until(lambda: traffic.writes > writes + 200, 30, "durable writes pass again")
            traffic.end()
            assert traffic.flaws() == {}
    finally:
        client.close()
    assert documents.wrong(at=1) == {}
    assert 3 not in {number for row in cluster.vbucket_map(BUCKET) for number in row}


# A full disk


SIZE = 64 << 10


def noise(number):
    """A value that does not compress."""
    return random.Random(number).randbytes(SIZE)


def test_full_disk_of_one_node_does_not_stop_other_nodes(start, small_disk):
    """Two thirds of all copies are on its node: the disk is full long before memory is."""
    members = [Member(), Member(data=small_disk.path / "data"), Member()]
    cluster = start(made, members, [BUCKET], ramQuotaMB=400)
    documents = Documents(cluster, BUCKET)
    own = set(range(64)) - {
        vbucket for vbucket, owner in enumerate(documents.owners(0)) if owner == 1
    }

    def is_told():
        alerts = cluster[1].admin.get("/pools/default").json.get("alerts", [])
        return any("full" in alert["msg"].lower() for alert in alerts)

    # A commit that does not fit writes nothing: the disk is full although smaller ones would fit.
    batches = 0
    while not is_told() or batches < 12:
        refused = documents.try_write(f"batch-{batches}", 150, 0, noise)
        # Only writes to the node with the full disk may be refused for a while.
        wrong = {key: status for key, status in refused.items() if vbucket_of(key, 64) in own}
        assert not wrong, wrong
        assert set(refused.values()) <= {Status.TEMPORARY}
        batches += 1
        # Changes in memory are persisted, or fail because the disk is full.
        time.sleep(0.1)
        assert batches < 25, small_disk.free_bytes

    # Everything is served from memory, and the other nodes make decisions.
    assert documents.wrong(at=0) == {}
    cluster.set_auto_failover(timeout=30, at=2)
    assert cluster[0].admin.get("/settings/autoFailover").json["timeout"] == 30
    small_disk.resize(1024)
    cluster.await_healthy()
    wait_until(
        lambda: not documents.try_write("after", 100, 0), 20, "everything can be written again"
    )
    documents.await_copies(at=0)

    def is_persisted():
        with cluster[1].connect(BUCKET) as connection:
            found = connection.stat("vbucket-seqno")
        return all(
            int(value) <= int(found[name.replace(":high_seqno", ":last_persisted_seqno")])
            for name, value in found.items()
            if name.endswith(":high_seqno")
        )

    wait_until(is_persisted, 30, "the disk has caught up")
    cluster[1].kill()
    cluster[1].start()
    cluster.await_healthy()
    wait_until(lambda: not documents.wrong(at=0), 20, "every document is there")
    documents.await_copies(at=0)
