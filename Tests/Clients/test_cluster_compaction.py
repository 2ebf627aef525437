"""Compaction of a bucket that one node is asked for, on all nodes with a part of it."""

import pytest

from cluster import made
from documents import Documents
from rig.node import wait_until
from rig.views import Views

CONTROLLER = "/pools/default/buckets/travel/controller"
DESIGNS = [f"design-{number}" for number in range(6)]


@pytest.fixture(scope="module")
def cluster():
    cluster = made(3, ["travel"])
    # The suspended node stays a member.
    form = {"enabled": "false"}
    assert cluster[0].admin.post("/settings/autoFailover", form).status == 200
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def documents(cluster):
    documents = Documents(cluster, "travel")
    for _ in range(3):
        documents.write("doc", 500, at=0)
    documents.await_copies(at=0)
    return documents


def compaction(node):
    """The task of the bucket's compaction; None if there is none."""
    found = [
        task
        for task in node.admin.get("/pools/default/tasks").json
        if task["type"] == "bucket_compaction"
    ]
    for task in found:
        assert task.keys() == {
            "type", "recommendedRefreshPeriod", "status", "bucket", "changesDone",
            "totalChanges", "progress", "cancelURI"}
        assert (task["status"], task["bucket"]) == ("running", "travel")
        assert 0 <= task["progress"] <= 99
        assert task["cancelURI"] == f"{CONTROLLER}/cancelBucketCompaction"
    assert len(found) <= 1
    return found[0] if found else None


def await_end(cluster):
    for member in cluster.members:
        wait_until(lambda member=member: compaction(member) is None, 60, "no compaction runs")


def test_compacted_and_cancelled_bucket_has_all_documents(cluster, documents):
    def accepted(member, request):
        reply = member.admin.post(f"{CONTROLLER}/{request}")
        return reply.status == 200 and not reply.body

    for asked, part in enumerate(["Databases", "Bucket"]):
        # A node that does not answer within two seconds makes it a failure.
        for member, request in [(asked, f"compact{part}"), (2, f"cancel{part}Compaction")]:
            wait_until(
                lambda member=member, request=request: accepted(cluster[member], request),
                30, f"all nodes accept {request}")
        await_end(cluster)
        assert not documents.wrong(at=0)
    # Without a cancellation they run to their end.
    wait_until(lambda: accepted(cluster[1], "compactBucket"), 30, "all nodes accept compactBucket")
    await_end(cluster)
    assert not documents.wrong(at=0)
    # A cancellation when none runs succeeds, as in Couchbase Server.
    assert cluster[0].admin.post(f"{CONTROLLER}/cancelBucketCompaction").status == 200
    unknown = "/pools/default/buckets/unknown/controller/cancelBucketCompaction"
    assert cluster[0].admin.post(unknown).status == 404


def test_nodes_that_answer_begin_while_another_one_is_suspended(cluster, documents):
    views = [Views(member, "travel") for member in cluster.members]
    source = "function (doc, meta) { emit(meta.id, null); }"
    for design in DESIGNS:
        assert views[0].put(design, {"v": source}).status == 201
    for design in DESIGNS:
        for node in views:
            answer = node.fresh(design, "v", limit=1)
            assert answer.status == 200 and not answer.errors, answer

    def ended(member):
        return member.log().count("compaction ended")

    before = [ended(member) for member in cluster.members]
    name = cluster.name(2)
    cluster[2].suspend()
    try:
        reply = cluster[0].admin.post(f"{CONTROLLER}/compactBucket")
        assert reply.status == 500, reply
        assert "Not all nodes have begun compaction" in reply.text and name in reply.text
        for number in (0, 1):
            wait_until(
                lambda number=number: ended(cluster[number]) > before[number],
                60,
                "the node has compacted the index of the views",
            )
        logged = cluster[0].admin.get("/logs").json["list"]
        assert any(
            "Not all nodes have begun compaction" in entry["text"] and name in entry["text"]
            for entry in logged
        )
        reply = cluster[0].admin.post(f"{CONTROLLER}/cancelBucketCompaction")
        assert reply.status == 500 and name in reply.text, reply
    finally:
        cluster[2].resume()
    cluster.await_healthy()

    def is_begun():
        return cluster[0].admin.post(f"{CONTROLLER}/compactBucket").status == 200

    wait_until(is_begun, 30, "all nodes begin")
    await_end(cluster)
    assert not documents.wrong(at=0)
