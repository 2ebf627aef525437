"""Parts of documents and attributes on several nodes: replicas, durable writes, failover."""

import couchbase.subdocument as SD
import pytest
from couchbase.durability import DurabilityLevel, ServerDurability
from couchbase.exceptions import DocumentNotFoundException, DocumentUnretrievableException
from couchbase.options import MutateInOptions
from couchbase.subdocument import MutationMacro, convert_macro_cas_to_cas

from cluster import made
from rig.node import wait_until
from test_cluster_durable import await_copies, keys_on, wait_for

MAJORITY = MutateInOptions(durability=ServerDurability(DurabilityLevel.MAJORITY))
SPECS = [
    SD.upsert("_sync", {"rev": "1-a"}, xattr=True),
    SD.upsert("_sync.cas", MutationMacro.cas()),
    SD.upsert("n", 2),
]
READ = [SD.get("_sync", xattr=True), SD.get("n")]


def check(found, cas):
    """The attribute has the CAS of its version on every copy."""
    sync = found.content_as[dict](0)
    assert found.cas == cas and found.content_as[int](1) == 2
    assert convert_macro_cas_to_cas(sync["cas"]) == cas and sync["rev"] == "1-a"


def test_replicas_are_read_as_the_active_copy(start, client):
    cluster = start(made, 2, ["travel"])
    collection = client(cluster)
    await_copies(collection, cluster)
    for key in keys_on(cluster, 0, 4) + keys_on(cluster, 1, 4):
        collection.upsert(key, {"n": 1})
        cas = collection.mutate_in(key, SPECS, MAJORITY).cas

        def copies(key=key):
            return list(collection.lookup_in_all_replicas(key, READ))

        # A majority of two has it: both, as soon as the commit has reached the replica.
        wait_until(lambda: [each.cas for each in copies()] == [cas, cas], 15)
        found = copies()
        assert sorted(bool(each.is_replica) for each in found) == [False, True]
        for each in found:
            check(each, cas)
        check(collection.lookup_in_any_replica(key, READ), cas)


def test_any_replica_answers_while_the_active_node_is_gone(start, client):
    cluster = start(made, 2, ["travel"])
    collection = client(cluster)
    await_copies(collection, cluster)
    (key,) = keys_on(cluster, 1, 1)
    collection.upsert(key, {"n": 1})
    cas = collection.mutate_in(key, SPECS, MAJORITY).cas
    # The majority has prepared it; the commit is on its way to the replica.
    wait_until(
        lambda: [each.cas for each in collection.lookup_in_all_replicas(key, READ)] == [cas, cas], 15
    )
    cluster[1].kill()
    check(collection.lookup_in_any_replica(key, READ), cas)


def test_replica_reads_of_a_missing_document(start, client):
    cluster = start(made, 2, ["travel"])
    collection = client(cluster)
    await_copies(collection, cluster)
    missing = (DocumentNotFoundException, DocumentUnretrievableException)
    with pytest.raises(missing):
        collection.lookup_in_any_replica("missing", READ)
    with pytest.raises(missing):
        list(collection.lookup_in_all_replicas("missing", READ))


@pytest.mark.parametrize("is_deleted", [False, True], ids=["live", "tombstone"])
def test_durable_attributes_survive_the_loss_of_the_active_node(start, client, is_deleted):
    cluster = start(made, 3, ["travel"])
    cluster.set_auto_failover(timeout=1)
    collection = client(cluster)
    await_copies(collection, cluster)
    keys, versions = keys_on(cluster, 2, 20), {}
    for key in keys:
        collection.upsert(key, {"n": 1})
        specs = [*SPECS[:2], SD.remove("")] if is_deleted else SPECS
        versions[key] = collection.mutate_in(key, specs, MAJORITY).cas
    cluster[2].kill()
    wait_until(lambda: cluster.membership(2) == "inactiveFailed", 15, "it is failed over")
    for key in keys:
        if is_deleted:
            with pytest.raises(DocumentNotFoundException):
                wait_for(collection, key)
            found = collection.lookup_in(key, READ[:1], access_deleted=True)
            assert found.cas == versions[key]
            sync = found.content_as[dict](0)
            assert convert_macro_cas_to_cas(sync["cas"]) == versions[key]
        else:
            wait_for(collection, key)
            check(collection.lookup_in(key, READ), versions[key])
