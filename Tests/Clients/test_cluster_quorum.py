"""A majority is lost: answers of the remaining nodes, the operator's order, and its result."""

import time

import documents as documents_by_map
from cluster import made
from rig.node import PASSWORD, USER, wait_until
from rig.wire import Connection, Status, vbucket_of
from test_cluster_lifecycle import Documents, await_no_files, has_files, is_unprovisioned

BUCKET = "travel"


def lose(cluster, *numbers):
    """Kills nodes after all copies are complete; returns their names and the previous map."""
    time.sleep(1)
    rows = cluster.vbucket_map(BUCKET)
    names = [cluster.name(number) for number in numbers]
    for number in numbers:
        cluster[number].kill()
    return names, rows


def fail_over(cluster, names, at=0, unsafe=True):
    form = [("otpNode", name) for name in names]
    if unsafe:
        form.append(("allowUnsafe", "true"))
    return cluster[at].admin.post("/controller/failOver", form, seconds=60)


def is_stale(cluster, at=0):
    reply = cluster[at].admin.get("/pools/default")
    assert reply.status == 200
    return reply.headers.get("Divan-Stale") == "true"


def documents_by_place(cluster, documents, rows, survivor):
    """Keys whose vBucket had a copy on the survivor, and the others."""
    kept, lost = {}, {}
    for key, value in documents.expected.items():
        row = rows[vbucket_of(key.encode(), len(rows))]
        (kept if survivor in row else lost)[key] = value
    return kept, lost


def vbucket_status(cluster, at, vbucket):
    """The answer of a node to a write into a vBucket."""
    with Connection(cluster[at].kv_port) as connection:
        connection.log_in(USER, PASSWORD)
        assert connection.select_bucket(BUCKET).status == 0
        return connection.set(b"anything", b"1", vbucket=vbucket).status


def await_active(cluster, at, rows):
    """Every vBucket that had a copy there is served there."""

    def is_served():
        now = cluster.vbucket_map(BUCKET, at)
        return all(row[0] == at for row, old in zip(now, rows) if at in old)

    wait_until(is_served, 15, "the survivor serves all that it has copies of")


def test_lost_majority_given_up_by_order_returns_without_a_cluster(start):
    cluster = start(made, 3, [BUCKET])
    with Documents(cluster) as documents:
        documents.write("before")
        names, rows = lose(cluster, 1, 2)
    kept, lost = documents_by_place(cluster, documents, rows, 0)
    assert kept and lost
    wait_until(lambda: is_stale(cluster), 10, "the survivor says that it may be behind")

    # Without the order nothing happens, and the answer has the reason.
    refused = fail_over(cluster, names, unsafe=False)
    assert refused.status == 500
    for words in ("no quorum", "1 of the cluster's 3", "2 are needed", "allowUnsafe=true", "lose"):
        assert words in refused.text, refused.text
    assert "have no copy there" in refused.text
    assert cluster.nodes()[cluster[1].address]["clusterMembership"] == "active"
    # Nor if a node that does not answer was not named.
    refused = fail_over(cluster, names[:1])
    assert refused.status == 400 and cluster[2].address in refused.text

    done = fail_over(cluster, names)
    assert done.status == 200, done
    assert "no copy left" in done.text and cluster[1].address in done.text
    assert done.text.strip() in cluster[0].log()
    assert list(cluster.nodes()) == [cluster[0].address]
    assert not is_stale(cluster)
    await_active(cluster, 0, rows)
    terse = cluster[0].admin.get(f"/pools/default/b/{BUCKET}").json
    assert terse["revEpoch"] == 2
    now = cluster.vbucket_map(BUCKET)
    orphans = [number for number, row in enumerate(rows) if 0 not in row]
    assert all(now[number][0] is None for number in orphans)
    assert vbucket_status(cluster, 0, orphans[0]) == Status.NOT_MY_VBUCKET

    def check(keys):
        with Connection(cluster[0].kv_port) as connection:
            connection.log_in(USER, PASSWORD)
            assert connection.select_bucket(BUCKET).status == 0
            for key in keys:
                vbucket = vbucket_of(key.encode(), len(rows))
                assert connection.get(key.encode(), vbucket=vbucket).status == 0, key
                answer = connection.set(key.encode(), b'{"after":1}', vbucket=vbucket)
                assert answer.status == 0, key

    check(kept)
    # It is a normal cluster: vBuckets without a copy begin empty, all are served.
    cluster.rebalance()
    assert all(row[0] == 0 for row in cluster.vbucket_map(BUCKET))
    assert vbucket_status(cluster, 0, orphans[0]) == 0

    # The nodes that were given up return together, an old majority; they learn of it.
    assert has_files(cluster[1]) and has_files(cluster[2])
    for number in (1, 2):
        cluster[number].start()
    for number in (1, 2):
        wait_until(lambda: is_unprovisioned(cluster[number]), 20, "the node has no cluster")
        await_no_files(cluster[number])
    assert list(cluster.nodes()) == [cluster[0].address]
    for number in (1, 2):
        cluster.add(number)
    cluster.rebalance()
    assert all(None not in row for row in cluster.vbucket_map(BUCKET))
    assert {row[0] for row in cluster.vbucket_map(BUCKET, at=2)} == {0, 1, 2}
    assert len(cluster.nodes(at=1)) == 3


def test_remaining_node_of_two_continues_by_order(start):
    cluster = start(made, 2, [BUCKET])
    with Documents(cluster) as documents:
        documents.write("before")
        names, rows = lose(cluster, 0)
    assert fail_over(cluster, names, at=1, unsafe=False).status == 500
    done = fail_over(cluster, names, at=1)
    assert done.status == 200, done
    assert "no copy left" not in done.text
    await_active(cluster, 1, rows)
    with Documents(cluster) as again:
        again.expected = documents.expected
        assert again.wrong() == []
        again.write("after")
        assert again.wrong() == []
    # A restart in its new epoch changes nothing.
    cluster[1].kill()
    cluster[1].start()
    cluster.await_healthy(at=1)
    assert list(cluster.nodes(at=1)) == [cluster[1].address]


def test_restarted_node_of_two_serves_its_vbuckets_without_the_other_node(start):
    # Nothing was decided without it meanwhile, so it need not query another node.
    cluster = start(made, 2, [BUCKET])
    documents = documents_by_map.Documents(cluster, BUCKET)
    documents.write("before", 200, 0)
    owned = documents.of(0, 0)
    for member in cluster.members:
        member.stop()
    cluster[0].start()

    def are_served():
        try:
            with documents_by_map.Doors(cluster, BUCKET) as doors:
                return all(doors[0].get(key).value == documents.written[key] for key in owned)
        except RuntimeError:
            return False  # The bucket cannot be selected yet.

    wait_until(are_served, 10, "what it owns is served")


def test_remaining_nodes_of_a_lost_majority_continue_by_order(start):
    cluster = start(made, 5, [BUCKET], replicaNumber=2)
    with Documents(cluster) as documents:
        documents.write("before", 200)
        names, rows = lose(cluster, 0, 2, 4)
    done = fail_over(cluster, names, at=3)
    assert done.status == 200, done
    for at in (1, 3):
        assert set(cluster.nodes(at)) == {cluster[1].address, cluster[3].address}
        assert not is_stale(cluster, at)

    def are_served():
        for at in (1, 3):
            now = cluster.vbucket_map(BUCKET, at)
            for row, old in zip(now, rows):
                if {1, 3} & set(old) and row[0] not in (1, 3):
                    return False
        return True

    wait_until(are_served, 15, "what has a copy is served")
    cluster.rebalance(at=1)
    assert all(row[0] in (1, 3) for row in cluster.vbucket_map(BUCKET, at=1))


def test_order_is_refused_while_an_unnamed_node_is_silent(start):
    cluster = start(made, 3, [BUCKET])
    cluster.set_auto_failover(timeout=1_000)
    names, _ = lose(cluster, 2)
    cluster[1].kill()
    # It is only silent: the order is refused until it answers.
    assert fail_over(cluster, names).status == 400
    cluster[1].start()
    wait_until(lambda: not is_stale(cluster), 20, "two of three are a majority again")
    assert fail_over(cluster, names, unsafe=False).status == 200
