"""The SDK's bucket manager: create, read, change, flush, delete."""

import pytest
from couchbase.exceptions import (
    BucketAlreadyExistsException,
    BucketDoesNotExistException,
    BucketNotFlushableException,
    BucketNotFoundException,
    CouchbaseException,
    InvalidArgumentException,
)
from couchbase.management.buckets import (
    BucketSettings,
    BucketType,
    CompressionMode,
    ConflictResolutionType,
    CreateBucketSettings,
    EvictionPolicyType,
    StorageBackend,
)

from rig import sdk
from rig.node import wait_until


@pytest.fixture(scope="module")
def cluster(node):
    cluster = sdk.connect(node)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def manager(cluster):
    return cluster.buckets()


def create(manager, node, name, **settings):
    settings = {"ram_quota_mb": 100, "num_replicas": 0, **settings}
    manager.create_bucket(CreateBucketSettings(name=name, **settings))
    node.await_bucket(name)


def test_bucket_serves_right_after_it_was_made(cluster, manager, node):
    manager.create_bucket(CreateBucketSettings(name="fresh", ram_quota_mb=100, num_replicas=0))
    # No waiting here: the client gets temporary failures until the bucket serves.
    collection = cluster.bucket("fresh").default_collection()
    collection.upsert("first", {"n": 1})
    assert collection.get("first").content_as[dict] == {"n": 1}


def test_bucket_is_read_as_it_was_made(manager, node):
    create(manager, node, "read", ram_quota_mb=128, flush_enabled=True, num_replicas=1)
    found = manager.get_bucket("read")
    assert found.name == "read"
    assert found.ram_quota_mb == 128
    assert found.num_replicas == 1
    assert found.flush_enabled is True
    assert found.bucket_type == BucketType.COUCHBASE
    assert found.eviction_policy == EvictionPolicyType.VALUE_ONLY


def test_ephemeral_bucket_is_created_and_serves(manager, node, cluster):
    create(
        manager,
        node,
        "ephemeral",
        bucket_type=BucketType.EPHEMERAL,
        eviction_policy=EvictionPolicyType.NOT_RECENTLY_USED,
    )
    found = manager.get_bucket("ephemeral")
    assert found.bucket_type == BucketType.EPHEMERAL
    assert found.eviction_policy == EvictionPolicyType.NOT_RECENTLY_USED
    collection = cluster.bucket("ephemeral").default_collection()
    collection.upsert("k", {"n": 1})
    assert collection.get("k").content_as[dict] == {"n": 1}


def test_full_eviction_policy_is_read_back(manager, node):
    create(manager, node, "full", eviction_policy=EvictionPolicyType.FULL)
    assert manager.get_bucket("full").eviction_policy == EvictionPolicyType.FULL


def test_all_buckets_are_listed(manager, node):
    create(manager, node, "listed")
    names = {found.name for found in manager.get_all_buckets()}
    assert "listed" in names


def test_bucket_can_be_changed(manager, node):
    create(manager, node, "changed")
    manager.update_bucket(
        BucketSettings(name="changed", ram_quota_mb=150, num_replicas=0, flush_enabled=True)
    )
    found = manager.get_bucket("changed")
    assert found.ram_quota_mb == 150
    assert found.flush_enabled is True


def test_settings_without_effect_are_refused(manager):
    settings = {"conflict_resolution_type": ConflictResolutionType.TIMESTAMP}
    with pytest.raises(InvalidArgumentException):
        manager.create_bucket(CreateBucketSettings(name="no", ram_quota_mb=100, **settings))
    with pytest.raises(BucketDoesNotExistException):
        manager.get_bucket("no")


def test_unrequested_settings_of_clients_are_accepted(manager, node):
    create(
        manager,
        node,
        "usual",
        storage_backend=StorageBackend.COUCHSTORE,
        compression_mode=CompressionMode.PASSIVE,
        conflict_resolution_type=ConflictResolutionType.SEQUENCE_NUMBER,
        replica_index=True,
        num_replicas=1,
    )
    found = manager.get_bucket("usual")
    assert found.compression_mode == CompressionMode.PASSIVE
    assert found.storage_backend == StorageBackend.COUCHSTORE


def test_scopes_are_the_default_one_and_cannot_be_changed(cluster, manager, node):
    create(manager, node, "flat")
    collections = cluster.bucket("flat").collections()
    (scope,) = collections.get_all_scopes()
    assert scope.name == "_default"
    assert [collection.name for collection in scope.collections] == ["_default"]
    with pytest.raises(CouchbaseException) as raised:
        collections.create_scope("another")
    assert not isinstance(raised.value, BucketNotFoundException)


def test_flushed_bucket_is_empty_and_serves(manager, node, cluster):
    create(manager, node, "flushed", flush_enabled=True)
    collection = cluster.bucket("flushed").default_collection()
    for number in range(100):
        collection.upsert(f"key-{number}", {"n": number})
    manager.flush_bucket("flushed")
    wait_until(lambda: not any(collection.exists(f"key-{n}").exists for n in range(100)), 10)
    collection.upsert("after", {"n": 1})
    assert collection.get("after").content_as[dict] == {"n": 1}


def test_only_a_bucket_that_allows_it_is_flushed(manager, node, cluster):
    create(manager, node, "unflushable", flush_enabled=False)
    collection = cluster.bucket("unflushable").default_collection()
    collection.upsert("key", {})
    with pytest.raises(BucketNotFlushableException):
        manager.flush_bucket("unflushable")
    assert collection.exists("key").exists is True


def test_dropped_bucket_is_missing_and_its_name_can_be_reused(manager, node, cluster):
    create(manager, node, "dropped")
    cluster.bucket("dropped").default_collection().upsert("key", {})
    manager.drop_bucket("dropped")
    with pytest.raises(BucketDoesNotExistException):
        manager.get_bucket("dropped")
    create(manager, node, "dropped")
    second = sdk.connect(node)
    assert second.bucket("dropped").default_collection().exists("key").exists is False
    second.close()


def test_second_bucket_of_a_name_is_refused(manager, node):
    create(manager, node, "taken")
    with pytest.raises(BucketAlreadyExistsException):
        manager.create_bucket(CreateBucketSettings(name="taken", ram_quota_mb=100))


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "small", "ram_quota_mb": 64},
        {"name": "sp ace", "ram_quota_mb": 100},
        {"name": "huge", "ram_quota_mb": 1 << 30},
        {"name": "copies", "ram_quota_mb": 100, "num_replicas": 4},
    ],
    ids=lambda settings: settings["name"],
)
def test_invalid_bucket_settings_are_an_invalid_argument(manager, settings):
    with pytest.raises(InvalidArgumentException):
        manager.create_bucket(CreateBucketSettings(**settings))


def test_operations_on_an_unknown_bucket_are_refused(manager):
    for attempt in (manager.get_bucket, manager.drop_bucket, manager.flush_bucket):
        with pytest.raises((BucketDoesNotExistException, BucketNotFoundException)):
            attempt("nowhere")
