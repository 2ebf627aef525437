"""Persistence guarantees hold, and impossible ones are refused."""

import time

import pytest
from couchbase.durability import (
    ClientDurability,
    DurabilityLevel,
    PersistToExtended,
    ServerDurability,
)
from couchbase.exceptions import (
    DurabilityImpossibleException,
)
from couchbase.options import RemoveOptions, UpsertOptions

from rig import sdk
from rig.node import wait_until

LEVELS = [
    DurabilityLevel.MAJORITY,
    DurabilityLevel.MAJORITY_AND_PERSIST_TO_ACTIVE,
    DurabilityLevel.PERSIST_TO_MAJORITY,
]


@pytest.fixture(scope="module")
def collection(node, bucket):
    cluster = sdk.connect(node)
    yield cluster.bucket(bucket).default_collection()
    cluster.close()


def persisted():
    return ClientDurability(persist_to=PersistToExtended.ACTIVE)


def test_persist_to_waits_for_the_disk_and_not_for_a_timer(collection):
    collection.upsert("first", {"n": 0}, UpsertOptions(durability=persisted()))
    times = []
    for number in range(20):
        options = UpsertOptions(durability=persisted())
        began = time.monotonic()
        collection.upsert(f"persisted-{number}", {"n": number}, options)
        times.append(time.monotonic() - began)
    # A client that waits for persistence does not wait for the batch of 250 ms. On a busy machine,
    # some writes take longer: the median counts.
    assert sorted(times)[len(times) // 2] < 0.2, times


def test_removal_can_be_persisted_too(collection):
    collection.upsert("to-be-removed", {})
    collection.remove("to-be-removed", RemoveOptions(durability=persisted()))
    assert collection.exists("to-be-removed").exists is False


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_durable_writes_of_a_single_copy_are_done(collection, level):
    key = f"durable-{level.name}"
    result = collection.upsert(key, {}, UpsertOptions(durability=ServerDurability(level)))
    assert collection.get(key).cas == result.cas


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_durable_write_without_enough_copies_is_impossible_and_not_applied(node, level):
    node.create_bucket(f"lonely-{level.name}", replicaNumber=1)
    cluster = sdk.connect(node)
    collection = cluster.bucket(f"lonely-{level.name}").default_collection()
    with pytest.raises(DurabilityImpossibleException):
        collection.upsert("key", {}, UpsertOptions(durability=ServerDurability(level)))
    # A refused write is not applied.
    assert collection.exists("key").exists is False
    cluster.close()


def test_persisted_documents_survive_a_crash(make_node):
    node = make_node().start().provision()
    node.create_bucket("kept", replicaNumber=0)
    cluster = sdk.connect(node)
    kept = cluster.bucket("kept").default_collection()
    # The client's own `persist_to` returns at once in a bucket without replicas, so we ask.
    results = [kept.upsert(f"kept-{number}", {"n": number}) for number in range(50)]
    cas = {f"kept-{number}": result.cas for number, result in enumerate(results)}
    with node.connect("kept") as connection:
        for result in results:
            token = result.mutation_token()
            wait_until(
                lambda token=token: connection.observe_seqno(
                    token.partition_id, token.partition_uuid
                )[0]
                >= token.sequence_number,
                10,
                "the document is persisted",
            )
    cluster.close()
    node.kill()
    node.start()
    node.await_bucket("kept")
    cluster = sdk.connect(node)
    kept = cluster.bucket("kept").default_collection()
    for number in range(50):
        found = kept.get(f"kept-{number}")
        assert found.content_as[dict] == {"n": number}
        assert found.cas == cas[f"kept-{number}"]
    cluster.close()
