"""Impossible and delayed durable writes: errors in the SDK, and later success."""

from datetime import timedelta

import pytest
from couchbase.exceptions import AmbiguousTimeoutException, DurabilityImpossibleException
from couchbase.options import UpsertOptions

from cluster import made
from rig.node import wait_until
from rig.wire import Op, Status, frame, vbucket_of
from test_cluster_durable import (
    LEVELS,
    MAJORITY,
    await_copies,
    frames,
    keys_on,
    upsert,
    wait_for,
)

VBUCKETS = 64
# The name that the client has for status 0xa2: it retries until its timeout.
IN_PROGRESS = "key_value_sync_write_in_progress"


def send_durably(connection, key, value, milliseconds):
    connection.send(
        frame(
            Op.SET,
            key,
            bytes(8),
            value,
            vbucket=vbucket_of(key, VBUCKETS),
            frames=frames(MAJORITY, milliseconds),
        )
    )


@pytest.mark.parametrize("level", [None, *LEVELS], ids=lambda level: level.name if level else "NO")
def test_write_during_a_durable_write_gets_its_error_and_succeeds_afterwards(
    start, client, level
):
    cluster = start(made, 3, ["travel"])
    cluster.set_auto_failover(timeout=1_000)
    collection = client(cluster)
    await_copies(collection, cluster)
    key = keys_on(cluster, 0, 1)[0]
    replica = cluster.vbucket_map("travel")[vbucket_of(key.encode(), VBUCKETS)][1]

    def write(name, seconds):
        options = {"timeout": timedelta(seconds=seconds)}
        if level is None:
            return collection.upsert(key, {"by": name}, UpsertOptions(**options))
        return upsert(collection, key, {"by": name}, level, **options)

    def accepted():
        with cluster[0].connect("travel") as other:
            return int(other.stat()["vb_active_sync_write_accepted_count"])

    assert write("before", 5).cas
    count = accepted()
    with cluster[0].connect("travel", seconds=40) as first:
        cluster[replica].suspend()
        try:
            send_durably(first, key.encode(), b'{"by":"first"}', 30_000)
            wait_until(lambda: accepted() > count, 10, "it waits for its copy")
            with pytest.raises(AmbiguousTimeoutException) as told:
                write("second", 2)
            context = str(told.value)
            # The client retried, and that was the only reason.
            assert f"{{'{IN_PROGRESS}'}}" in context, context
            assert collection.get(key).content_as[dict] == {"by": "before"}
        finally:
            cluster[replica].resume()
        assert first.receive().status == Status.SUCCESS
    assert collection.get(key).content_as[dict] == {"by": "first"}
    stored = write("third", 10)
    found = collection.get(key)
    assert (found.content_as[dict], found.cas) == ({"by": "third"}, stored.cas)


def test_durable_writes_with_one_of_two_copies_are_refused_until_the_other_returns(start, client):
    cluster = start(made, 2, ["travel"])
    collection = client(cluster)
    await_copies(collection, cluster)
    keys = [key for number in range(2) for key in keys_on(cluster, number, 20)]
    for key in keys:
        upsert(collection, key, {"when": "before"}, LEVELS[0])
    assert cluster.fail_over(1).status == 200
    assert all(row == [0, None] for row in cluster.vbucket_map("travel"))
    for key in keys:
        assert wait_for(collection, key).content_as[dict] == {"when": "before"}
    for level in LEVELS:
        for key in keys:
            with pytest.raises(DurabilityImpossibleException):
                upsert(collection, key, {"when": "meanwhile"}, level)
    with cluster[0].connect("travel") as connection:
        for key in keys:
            for level in (1, 2, 3):
                reply = connection.set(key, b"meanwhile", frames=frames(level))
                assert reply.status == Status.DURABILITY_IMPOSSIBLE
    for key in keys:
        assert collection.get(key).content_as[dict] == {"when": "before"}
    # A write without a level is accepted.
    for key in keys[::2]:
        collection.upsert(key, {"when": "alone"})
    cluster.take_back(1, "reAddNode")
    cluster.rebalance()
    assert all(None not in row for row in cluster.vbucket_map("travel"))
    for place, key in enumerate(keys):
        expected = {"when": "before" if place % 2 else "alone"}
        assert wait_for(collection, key).content_as[dict] == expected
    for level in LEVELS:
        for key in keys:
            upsert(collection, key, {"when": level.name}, level)
    for key in keys:
        assert collection.get(key).content_as[dict] == {"when": LEVELS[-1].name}
