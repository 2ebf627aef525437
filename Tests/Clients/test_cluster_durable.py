"""Durable writes on real clusters: an acknowledged one survives the crash that its level covers."""

import contextlib
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from couchbase.durability import (
    ClientDurability,
    DurabilityLevel,
    PersistToExtended,
    ReplicateTo,
    ServerDurability,
)
from couchbase.exceptions import (
    AmbiguousTimeoutException,
    CouchbaseException,
    DurabilitySyncWriteAmbiguousException,
    DurabilityImpossibleException,
    DurabilityInvalidLevelException,
    DurabilitySyncWriteInProgressException,
)
from couchbase.options import (
    DecrementOptions,
    IncrementOptions,
    InsertOptions,
    RemoveOptions,
    ReplaceOptions,
    UpsertOptions,
)

from cluster import Cluster, made
from rig.node import wait_until
from rig.wire import Op, Status, frame, vbucket_of
from test_cluster_sdk import RETRIABLE, Traffic, writes_pass

MAJORITY, ON_ACTIVE, ON_MAJORITY = 1, 2, 3
LEVELS = [
    DurabilityLevel.MAJORITY,
    DurabilityLevel.MAJORITY_AND_PERSIST_TO_ACTIVE,
    DurabilityLevel.PERSIST_TO_MAJORITY,
]
NAMES = ["none", "majority", "majorityAndPersistActive", "persistToMajority"]


def durably(options, level, **more):
    return options(durability=ServerDurability(level), **more)


def upsert(collection, key, value, level, **more):
    return collection.upsert(key, value, durably(UpsertOptions, level, **more))


def frames(level, milliseconds=None):
    """The framing extra of the durability level."""
    if milliseconds is None:
        return bytes([0x11, level])
    return struct.pack(">BBH", 0x13, level, milliseconds)


def keys_on(cluster, number, count=40, bucket="travel", place=0, not_on=None):
    """Keys whose copy number `place` is on a node: 0 is the active one."""
    rows = cluster.vbucket_map(bucket)
    found = []
    for each in range(100_000):
        key = f"key-{each}"
        row = rows[vbucket_of(key.encode(), len(rows))]
        if row[place] == number and not_on not in row:
            found.append(key)
        if len(found) == count:
            return found
    raise RuntimeError(f"no keys on node {number}")


def await_copies(collection, cluster):
    """Waits until every vBucket accepts durable writes: its copies are connected."""
    for number in range(len(cluster)):
        for key in keys_on(cluster, number, 8):
            upsert(collection, "probe-" + key, {}, DurabilityLevel.MAJORITY)


# The guarantee of each level


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_durable_write_survives_the_loss_of_the_node_that_acknowledged_it(start, client, level):
    cluster = start(made, 3, ["travel"])
    cluster.set_auto_failover(timeout=1)
    collection = client(cluster)
    await_copies(collection, cluster)
    keys = keys_on(cluster, 2)
    cas = {}
    for number, key in enumerate(keys):
        cas[key] = upsert(collection, key, {"n": number}, level).cas
    cluster[2].kill()
    wait_until(lambda: cluster.membership(2) == "inactiveFailed", 15, "it is failed over")
    for number, key in enumerate(keys):
        found = wait_for(collection, key)
        assert found.content_as[dict] == {"n": number}
        # The write itself, not another one with its value.
        assert found.cas == cas[key]


def wait_for(collection, key, seconds=20):
    """Reads a key as soon as its vBucket is served."""
    end = time.monotonic() + seconds
    while True:
        try:
            return collection.get(key)
        except RETRIABLE:
            if time.monotonic() > end:
                raise


@pytest.mark.parametrize("level", LEVELS[1:], ids=lambda level: level.name)
def test_persisted_durable_write_survives_a_power_cut(start, client, level):
    cluster = start(made, 3, ["travel"])
    collection = client(cluster)
    await_copies(collection, cluster)
    for key in (f"kept-{number}" for number in range(60)):
        upsert(collection, key, {"key": key}, level)
    for member in cluster.members:
        member.kill()
    for member in cluster.members:
        member.start()
    cluster.await_healthy(seconds=60)
    again = client(cluster)
    for key in (f"kept-{number}" for number in range(60)):
        assert wait_for(again, key, 60).content_as[dict] == {"key": key}


@pytest.mark.parametrize(
    "replicate_to, persist_to",
    [
        (ReplicateTo.ONE, PersistToExtended.NONE),
        (ReplicateTo.NONE, PersistToExtended.TWO),
        (ReplicateTo.ONE, PersistToExtended.TWO),
    ],
    ids=lambda level: level.name,
)
def test_client_that_observes_every_copy_is_answered_by_replicas_too(
    start, client, replicate_to, persist_to
):
    """Legacy durability: the client observes the write on every copy."""
    cluster = start(made, 3, ["travel"], replicaNumber=2)
    collection = client(cluster)
    await_copies(collection, cluster)
    durability = ClientDurability(replicate_to=replicate_to, persist_to=persist_to)

    def store(number):
        key = f"counted-{number}"
        stored = collection.upsert(key, {"n": number}, UpsertOptions(durability=durability))
        assert collection.get(key).cas == stored.cas

    # The client asks twice a second, so several writes wait at once.
    with ThreadPoolExecutor(10) as several:
        for _ in several.map(store, range(50)):
            pass
    collection.remove("counted-0", RemoveOptions(durability=durability))
    assert collection.exists("counted-0").exists is False


def test_every_kind_of_write_can_be_durable(start, client):
    cluster = start(made, 3, ["travel"])
    collection = client(cluster)
    await_copies(collection, cluster)
    level = DurabilityLevel.MAJORITY
    inserted = collection.insert("doc", {"n": 1}, durably(InsertOptions, level))
    assert collection.get("doc").cas == inserted.cas
    replaced = collection.replace("doc", {"n": 2}, durably(ReplaceOptions, level, cas=inserted.cas))
    assert collection.get("doc").cas == replaced.cas
    with pytest.raises(CouchbaseException):
        collection.replace("doc", {"n": 3}, durably(ReplaceOptions, level, cas=inserted.cas))
    binary = collection.binary()
    options = IncrementOptions(durability=ServerDurability(level))
    assert binary.increment("counter", options).content == 0
    assert binary.increment("counter", options).content == 1
    down = DecrementOptions(durability=ServerDurability(level))
    assert binary.decrement("counter", down).content == 0
    collection.remove("doc", durably(RemoveOptions, level))
    assert not collection.exists("doc").exists


def test_quiet_and_pipelined_writes_are_answered_as_they_end(start):
    cluster = start(made, 3, ["travel"])
    key = keys_on(cluster, 0, 3)
    with cluster[0].connect("travel") as connection:
        for each in key:
            connection.send(
                frame(
                    Op.SETQ,
                    each,
                    struct.pack(">II", 0, 0),
                    b"quiet",
                    vbucket=vbucket_of(each.encode(), 64),
                    frames=frames(MAJORITY),
                )
            )
        # Replies are in order unless negotiated otherwise: this one comes after them.
        assert connection.call(Op.NOOP).op == Op.NOOP
        for each in key:
            assert connection.get(each).value == b"quiet"


# Refusals


def test_levels_that_a_bucket_cannot_have_are_refused(start, client):
    cluster = start(made, 3)
    cluster[0].create_bucket("brief", bucketType="ephemeral", replicaNumber=1, numVBuckets=64)
    collection = client(cluster, "brief")
    for level in LEVELS[1:]:
        with pytest.raises(DurabilityInvalidLevelException):
            upsert(collection, "key", {}, level)
    assert not collection.exists("key").exists
    await_copies_of(collection)
    upsert(collection, "key", {}, DurabilityLevel.MAJORITY)
    assert collection.exists("key").exists


def await_copies_of(collection):
    for number in range(64):
        upsert(collection, f"probe-{number}", {}, DurabilityLevel.MAJORITY)


@pytest.mark.parametrize("replicas", [1, 3])
def test_too_few_copies_or_too_many_are_impossible(start, client, replicas):
    cluster = start(made, 1)
    cluster[0].create_bucket("travel", replicaNumber=replicas, numVBuckets=64)
    collection = client(cluster)
    for level in LEVELS:
        with pytest.raises(DurabilityImpossibleException):
            upsert(collection, "key", {}, level)
    assert not collection.exists("key").exists


def test_node_alone_is_a_majority_of_one_copy(start, client):
    cluster = start(made, 1)
    cluster[0].create_bucket("travel", replicaNumber=0, numVBuckets=64)
    collection = client(cluster)
    for level in LEVELS:
        upsert(collection, f"key-{level.name}", {}, level)
    cluster[0].kill()
    cluster[0].start()
    cluster[0].await_bucket("travel")
    again = client(cluster)
    for level in LEVELS[1:]:
        assert again.get(f"key-{level.name}").content_as[dict] == {}


def test_invalid_durability_timeout_is_refused(start):
    cluster = start(made, 1)
    cluster[0].create_bucket("travel", replicaNumber=0, numVBuckets=64)
    with cluster[0].connect("travel") as connection:
        for milliseconds in (0, 0xFFFF):
            reply = connection.set(b"key", b"1", frames=frames(MAJORITY, milliseconds))
            assert reply.status == Status.INVALID
        reply = connection.call(
            Op.TOUCH, b"key", struct.pack(">I", 0), frames=frames(MAJORITY)
        )
        assert reply.status == Status.NOT_SUPPORTED
        assert connection.set(b"key", b"1", frames=frames(MAJORITY, 1)).status == Status.SUCCESS


def test_pending_durable_write_blocks_writes_and_is_invisible_to_reads(start, client):
    cluster = start(made, 3, ["travel"])
    await_copies(client(cluster), cluster)
    key = keys_on(cluster, 0, 1)[0].encode()
    replica = cluster.vbucket_map("travel")[vbucket_of(key, 64)][1]
    with cluster[0].connect("travel") as writer, cluster[0].connect("travel") as other:
        assert other.set(key, b"before").status == Status.SUCCESS
        cluster[replica].suspend()
        try:
            writer.send(
                frame(
                    Op.SET,
                    key,
                    struct.pack(">II", 0, 0),
                    b"after",
                    vbucket=vbucket_of(key, 64),
                    frames=frames(MAJORITY, 3_000),
                )
            )
            time.sleep(0.2)
            assert other.get(key).value == b"before"
            began = time.monotonic()
            in_the_way = [
                other.set(key, b"third", frames=frames(MAJORITY, 10_000)),
                other.call(Op.DELETE, key, frames=frames(MAJORITY)),
            ]
            assert {reply.status for reply in in_the_way} == {Status.SYNC_WRITE_IN_PROGRESS}
            assert other.set(key, b"plain").status in (
                Status.SYNC_WRITE_IN_PROGRESS,
                Status.TEMPORARY,
            )
            # The first write is undecided for three seconds.
            assert time.monotonic() - began < 2
            # No other client waits for it.
            for each in keys_on(cluster, 0, 5, not_on=replica):
                assert other.set(each, b"1", frames=frames(MAJORITY, 5_000)).status == Status.SUCCESS
            reply = writer.receive()
            assert reply.status == Status.SYNC_WRITE_AMBIGUOUS
            assert other.get(key).value == b"before"
        finally:
            cluster[replica].resume()
        wait_until(
            lambda: other.set(key, b"last", frames=frames(MAJORITY, 2_000)).status
            == Status.SUCCESS,
            20,
            "the copies are together again",
        )
        assert other.get(key).value == b"last"


def test_undecided_durable_write_is_reported_as_ambiguous(start, client):
    cluster = start(made, 3, ["travel"])
    collection = client(cluster)
    await_copies(collection, cluster)
    key = keys_on(cluster, 0, 1)[0]
    replica = cluster.vbucket_map("travel")[vbucket_of(key.encode(), 64)][1]
    cluster[replica].suspend()
    try:
        with pytest.raises((DurabilitySyncWriteAmbiguousException, AmbiguousTimeoutException)):
            upsert(collection, key, {}, DurabilityLevel.MAJORITY, timeout=timedelta(seconds=2))
    finally:
        cluster[replica].resume()


# Minimum durability of a bucket


def test_minimum_durability_applies_to_every_write_and_can_be_removed(start):
    cluster = start(made, 3)
    cluster[0].create_bucket(
        "travel", replicaNumber=1, numVBuckets=64, durabilityMinLevel="majority"
    )
    path = "/pools/default/buckets/travel"
    assert cluster[1].admin.get(path).json["durabilityMinLevel"] == "majority"
    key = keys_on(cluster, 0, 1)[0].encode()
    replica = cluster.vbucket_map("travel")[vbucket_of(key, 64)][1]
    with cluster[0].connect("travel") as connection:
        wait_until(lambda: connection.set(key, b"1").status == Status.SUCCESS, 20, "copies are up")
        cluster[replica].suspend()
        try:
            # It has a timeout, and no level.
            began = time.monotonic()
            reply = connection.set(key, b"2", frames=frames(MAJORITY, 500))
            assert reply.status == Status.SYNC_WRITE_AMBIGUOUS
            assert 0.4 < time.monotonic() - began < 5
            connection.send(
                frame(Op.SET, key, struct.pack(">II", 0, 0), b"3", vbucket=vbucket_of(key, 64))
            )
            time.sleep(0.3)
            with cluster[0].connect("travel") as other:
                assert other.get(key).value == b"1"
        finally:
            cluster[replica].resume()
        # It is committed as soon as the copy is back, unless it timed out after ten seconds.
        assert connection.receive().status in (Status.SUCCESS, Status.SYNC_WRITE_AMBIGUOUS)
        for level in ("persistToMajority", "none"):
            reply = cluster[0].admin.post(path, {"durabilityMinLevel": level})
            assert reply.status == 200
            for member in cluster.members:
                wait_until(
                    lambda member=member, level=level: member.admin.get(path).json[
                        "durabilityMinLevel"
                    ]
                    == level,
                    10,
                    "the floor is changed",
                )
        cluster[replica].suspend()
        try:
            assert connection.set(key, b"4").status == Status.SUCCESS
        finally:
            cluster[replica].resume()


# During failures


class DurableTraffic(Traffic):
    """Every write is durable: no acknowledged one may be missing."""

    def __init__(self, collection, name, level, count=100):
        super().__init__(DurableCollection(collection, level), name, count)

    def other_than_retriable(self):
        kinds = (*RETRIABLE, DurabilitySyncWriteAmbiguousException, DurabilitySyncWriteInProgressException)
        return [failure for failure in self.refusals if not isinstance(failure, kinds)]


class DurableCollection:
    def __init__(self, collection, level):
        self.collection, self.level = collection, level

    def upsert(self, key, value):
        return upsert(self.collection, key, value, self.level)

    def get(self, key):
        return self.collection.get(key)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_no_durable_write_is_lost_through_kill_failover_and_rebalance(start, client, level):
    cluster = start(made, 3, ["travel"], replicaNumber=2)
    cluster.set_auto_failover(timeout=1)
    collection = client(cluster)
    await_copies(collection, cluster)
    with DurableTraffic(collection, "kill", level) as traffic:
        time.sleep(1)
        cluster[2].kill()
        wait_until(lambda: cluster.membership(2) == "inactiveFailed", 15, "it is failed over")
        wait_until(lambda: writes_pass(traffic), 15, "writes pass again")
        assert traffic.lost() == {}
        cluster[2].start()
        cluster.take_back(2)
        print("rebalance:", cluster.rebalance(), "s")
        wait_until(lambda: traffic.writes > 50, 60, "enough was written")
        traffic.end()
        print(traffic.writes, "writes, slowest", traffic.slowest, len(traffic.refusals), "refused")
        assert traffic.other_than_retriable() == []
        assert traffic.flaws() == {}


@pytest.mark.parametrize(
    "number, recovery", [(0, "delta"), (2, "reAddNode")], ids=["the-leader", "a-follower"]
)
def test_no_durable_write_is_lost_through_a_manual_failover_and_recovery(
    start, client, number, recovery
):
    """Of a running node under writes; the orders go to nodes that do not lead."""
    cluster = start(made, 3, ["travel"], replicaNumber=2)
    collection = client(cluster)
    await_copies(collection, cluster)

    def follower():
        return next(each for each in cluster.followers(at=1) if each != number)

    with DurableTraffic(collection, "hand", DurabilityLevel.MAJORITY) as traffic:
        wait_until(lambda: traffic.writes > 100, 20, "every key was written")
        reply = cluster.fail_over(number, at=follower())
        assert reply.status == 200, reply
        assert cluster.membership(number, at=1) == "inactiveFailed"
        wait_until(lambda: writes_pass(traffic), 20, "writes pass again")
        assert traffic.lost() == {}
        cluster.take_back(number, recovery, at=follower())
        print("rebalance:", cluster.rebalance(at=follower()), "s")
        assert cluster.membership(number, at=1) == "active"
        traffic.end()
        print(traffic.writes, "writes, slowest", traffic.slowest, len(traffic.refusals), "refused")
        assert traffic.other_than_retriable() == []
        assert traffic.flaws() == {}


def test_failover_of_a_replica_does_not_fail_durable_writes(start, client):
    """The chain is shorter and has another fence; pending writes continue."""
    cluster = start(made, 3, ["travel"], replicaNumber=2)
    collection = client(cluster)
    await_copies(collection, cluster)
    groups = [keys_on(cluster, number, 20)[half::2] for number in (0, 1) for half in (0, 1)]
    traffics = [DurableTraffic(collection, "", LEVELS[0], 0) for _ in groups]
    for traffic, keys in zip(traffics, groups):
        traffic.keys = keys
        traffic.acknowledged = dict.fromkeys(keys, 0)
        traffic.sent = dict.fromkeys(keys, 0)
    with contextlib.ExitStack() as stack:
        for traffic in traffics:
            stack.enter_context(traffic)
        wait_until(lambda: all(traffic.writes > 0 for traffic in traffics), 60, "all write")
        assert cluster.fail_over(2).status == 200
        for traffic in traffics:
            before = traffic.writes
            wait_until(lambda: traffic.writes > before, 60, "it writes after the failover")
    for traffic in traffics:
        print(traffic.writes, "writes, slowest", traffic.slowest)
        assert (traffic.refusals, traffic.flaws()) == ([], {})


def test_durable_writes_succeed_while_the_cluster_grows_and_shrinks(start, client):
    cluster = start(Cluster, 4)
    cluster.add(1)
    cluster.rebalance()
    cluster[0].create_bucket("travel", replicaNumber=1, numVBuckets=64)
    collection = client(cluster)
    for number in range(2):
        for key in keys_on(cluster, number, 8):
            upsert(collection, "probe-" + key, {}, DurabilityLevel.MAJORITY)
    with DurableTraffic(collection, "grow", DurabilityLevel.MAJORITY) as traffic:
        for number in (2, 3):
            cluster.add(number)
        print("2 -> 4 nodes:", cluster.rebalance(), "s")
        print("4 -> 3 nodes:", cluster.rebalance(eject=(0,), at=1), "s")
        wait_until(lambda: traffic.writes > 100, 60, "enough was written")
        traffic.end()
        print(traffic.writes, "writes, slowest", traffic.slowest)
        assert traffic.other_than_retriable() == []
        assert traffic.flaws() == {}
