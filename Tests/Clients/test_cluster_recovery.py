"""The two recovery types of a failed-over node: with its copies, and empty."""

import time

import pytest

from cluster import made
from documents import Documents
from rig.node import wait_until
from rig.wire import Status, vbucket_of

BUCKET = "travel"
COUNT, MEANWHILE = 4_000, 60


def numbers(member, *names):
    """The counters of a node, once it has persisted every change."""
    with member.connect(BUCKET) as connection:
        wait_until(lambda: connection.stat()["ep_queue_size"] == "0", 20, "all is on disk")
        found = connection.stat()
    return [int(found[name]) for name in names]


def held(member):
    """The documents that a node has, as the active copy or as a replica."""
    return sum(numbers(member, "vb_active_curr_items", "vb_replica_curr_items"))


def persisted(member):
    """The changes that it has persisted since its start, without older ones."""
    return numbers(member, "ep_total_persisted")[0]


def came_back(start, way, recovery):
    """The number of changes that a recovering node received, and of its documents then."""
    cluster = start(made, 3, [BUCKET])
    cluster.set_auto_failover(timeout=1_000)
    documents = Documents(cluster, BUCKET)
    documents.write("before", COUNT, at=0)
    documents.await_copies(at=0)
    before = persisted(cluster[2])
    # As many as in a full recovery.
    assert before >= held(cluster[2]) > COUNT // 2
    if way == "killed":
        cluster[2].kill()
        before = 0
        assert cluster.fail_over(2).status == 200
    else:
        assert cluster.fail_over(2, path="startGracefulFailover").status == 200
        cluster.await_rebalance()
    assert cluster.membership(2) == "inactiveFailed"
    documents.write("meanwhile", MEANWHILE, at=0)
    if way == "killed":
        cluster[2].start()
        address = cluster[2].address
        wait_until(lambda: cluster.nodes()[address]["status"] == "healthy", 20, "it is heard")
        wait_until(lambda: held(cluster[2]) > COUNT // 2, 20, "it has its copies still")
    cluster.take_back(2, recovery)
    cluster.rebalance()
    for at in range(3):
        assert documents.wrong(at) == {}
    documents.await_copies(at=0)
    taken, has = persisted(cluster[2]) - before, held(cluster[2])
    print(recovery, "of a node", way, "took", taken, "changes; it has", has, "documents")
    assert has > COUNT // 2
    return taken, has


@pytest.mark.parametrize("way", ["killed", "failed over gracefully"])
def test_delta_recovery_copies_only_changes(start, way):
    taken, has = came_back(start, way, "delta")
    assert taken < has // 10, (taken, has)


def test_full_recovery_copies_every_document(start):
    taken, has = came_back(start, "failed over gracefully", "full")
    assert taken >= has, (taken, has)


def test_full_recovery_of_a_node_started_during_the_rebalance_copies_everything(start):
    cluster = start(made, 3, [BUCKET])
    cluster.set_auto_failover(timeout=1_000)
    documents = Documents(cluster, BUCKET)
    documents.write("before", COUNT, at=0)
    documents.await_copies(at=0)
    persisted(cluster[2])
    cluster[2].kill()
    assert cluster.fail_over(2).status == 200
    cluster.take_back(2, "full")
    cluster.start_rebalance()
    cluster[2].start()
    cluster.await_rebalance()
    documents.await_copies(at=0)
    taken, has = persisted(cluster[2]), held(cluster[2])
    assert taken >= has > COUNT // 2, (taken, has)


@pytest.mark.parametrize("way", ["killed", "failed over while it lived"])
def test_recovered_node_serves_its_last_copies(start, way):
    cluster = start(made, 3, [BUCKET], replicaNumber=0)
    cluster.set_auto_failover(timeout=1_000)
    documents = Documents(cluster, BUCKET)
    documents.write("before", COUNT, at=0)
    numbers(cluster[2])
    if way == "killed":
        cluster[2].kill()
    lost = set(documents.of(2, at=0))
    assert len(lost) > COUNT // 5
    assert cluster.fail_over(2).status == 200
    # No other node has them, and no node reports them as missing documents.
    assert all(None in row for row in cluster.vbucket_map(BUCKET) if row[0] is None)
    assert {row[0] for row in cluster.vbucket_map(BUCKET)} == {0, 1, None}
    if way == "killed":
        cluster[2].start()
        address = cluster[2].address
        wait_until(lambda: cluster.nodes()[address]["status"] == "healthy", 20, "it is heard")
    cluster.take_back(2, "delta")
    cluster.rebalance()
    for at in range(3):
        assert documents.wrong(at) == {}


def test_empty_copy_is_not_promoted_while_the_complete_copy_is_silent(start):
    cluster = start(made, 3, [BUCKET], bucketType="ephemeral")
    cluster.set_auto_failover(timeout=1_000)
    documents = Documents(cluster, BUCKET)
    documents.write("before", COUNT, at=0)
    documents.await_copies(at=0)
    rows = cluster.vbucket_map(BUCKET)
    # It loses its copy, and the node that it could query does not answer.
    cluster[2].kill()
    cluster[1].suspend()
    cluster[2].start()
    address = cluster[2].address
    wait_until(lambda: cluster.nodes()[address]["status"] == "healthy", 20, "it is heard")
    assert cluster.fail_over(1).status == 200
    common = [number for number, row in enumerate(rows) if row == [1, 2]]
    assert common
    # Nothing may happen here, so there is no condition to wait for: twice a second the leader
    # queries the candidates, and must decide each time to wait for the node with all changes.
    time.sleep(3)
    owners = documents.owners(at=0)
    assert {owners[number] for number in common} == {1}
    cluster[1].resume()
    # It is reachable again, and its changes go to the copies that take over.
    wait_until(lambda: set(documents.owners(at=0)) == {0, 2}, 30, "the others have taken over")
    wanted = {
        key: value
        for key, value in documents.written.items()
        if vbucket_of(key, len(rows)) in common
    }
    documents.written = wanted
    assert len(wanted) > COUNT // 20
    wait_until(lambda: not documents.wrong(at=0), 20, "they have what it had")


@pytest.mark.parametrize("way", ["after it is back", "while it is away"])
def test_emptied_active_copy_waits_for_a_failed_over_replica(start, way):
    cluster = start(made, 3, [BUCKET], bucketType="ephemeral")
    cluster.set_auto_failover(timeout=1_000)
    documents = Documents(cluster, BUCKET)
    documents.write("before", COUNT, at=0)
    documents.await_copies(at=0)
    rows = cluster.vbucket_map(BUCKET)
    keys = [key for key in documents.written if rows[vbucket_of(key, len(rows))] == [2, 1]]
    assert len(keys) > COUNT // 20
    address = cluster[2].address

    def is_seen(status):
        return cluster.nodes()[address]["status"] == status

    if way == "after it is back":
        # The candidate does not answer.
        cluster[1].suspend()
        cluster[2].kill()
        cluster[2].start()
        wait_until(lambda: is_seen("healthy"), 20, "it is heard")
        assert cluster.fail_over(1).status == 200
    else:
        cluster[2].kill()
        wait_until(lambda: is_seen("unhealthy"), 20, "it is missed")
        assert cluster.fail_over(1).status == 200
        cluster[2].start()
        wait_until(lambda: is_seen("healthy"), 20, "it is heard")
    # Nothing may be served here; the leader queries twice a second.
    time.sleep(3)
    with cluster[2].connect(BUCKET) as connection:
        told = {connection.get(key).status for key in keys[:50]}
    assert not told & {Status.SUCCESS, Status.NOT_FOUND}, told
    cluster[1].resume()
    cluster.take_back(1, "delta")
    cluster.rebalance()
    documents.written = {key: documents.written[key] for key in keys}
    wait_until(lambda: not documents.wrong(at=0), 20, "it has what was served")
