"""What settings and development views do: the subset, updates in steps, parallel builds, compaction."""

import json

import pytest
from couchbase.management.views import DesignDocument, DesignDocumentNamespace
from couchbase.management.views import View as Definition
from couchbase.options import ViewOptions

from cluster import made
from rig import sdk
from rig.load import ingest
from rig.node import Node, wait_until
from rig.views import Views
from rig.wire import Op, vbucket_of

PRODUCTION = DesignDocumentNamespace.PRODUCTION
DEVELOPMENT = DesignDocumentNamespace.DEVELOPMENT
VBUCKETS = 64
# Of a larger bucket a development view has one vBucket.
LARGE = 20 * VBUCKETS + 1
BY_NUMBER = "function (doc, meta) { emit(doc.n, null); }"


def documents(count, text=""):
    body = {"text": text} if text else {}
    return [(f"doc-{n:05}", {"n": n, **body}) for n in range(count)]


def store(node, bucket, pairs):
    with node.connect(bucket) as connection:
        ingest(connection, [(id.encode(), json.dumps(each).encode()) for id, each in pairs])


def store_in(cluster, bucket, pairs):
    """Stores documents on the nodes where the map has their vBuckets."""
    rows = cluster.vbucket_map(bucket)
    for number, member in enumerate(cluster.members):
        part = [pair for pair in pairs if rows[vbucket_of(pair[0].encode(), len(rows))][0] == number]
        store(member, bucket, part)


def of_vbucket(pairs, number):
    return {id for id, _ in pairs if vbucket_of(id.encode(), VBUCKETS) == number}


def ids(answer):
    assert answer.status == 200 and not answer.errors, answer
    return {row["id"] for row in answer.rows}


@pytest.fixture
def node():
    with Node() as node:
        node.start().provision()
        yield node


# Development views


@pytest.mark.parametrize("raw", [{}, {"full_set": "false"}, {"full_set": "true"}])
def test_development_view_of_a_large_bucket_has_one_vbucket_unless_full_set(node, raw):
    node.create_bucket("large", numVBuckets=VBUCKETS)
    pairs = documents(LARGE)
    store(node, "large", pairs)
    cluster = sdk.connect(node)
    bucket = cluster.bucket("large")
    design = DesignDocument("d", {"v": Definition(BY_NUMBER, "_count")})
    for namespace in DEVELOPMENT, PRODUCTION:
        bucket.view_indexes().upsert_design_document(design, namespace)

    def rows(namespace, **options):
        options = ViewOptions(namespace=namespace, raw={"stale": "false", **raw}, **options)
        return list(bucket.view_query("d", "v", options).rows())

    everything = {id for id, _ in pairs}
    wanted = everything if raw.get("full_set") == "true" else of_vbucket(pairs, 0)
    assert wanted
    assert {row.id for row in rows(DEVELOPMENT, reduce=False)} == wanted
    assert [row.value for row in rows(DEVELOPMENT)] == [len(wanted)]
    assert {row.id for row in rows(PRODUCTION, reduce=False)} == everything
    cluster.close()


def test_development_view_of_a_small_bucket_has_all_documents(node):
    node.create_bucket("small", numVBuckets=VBUCKETS)
    store(node, "small", documents(LARGE - 1))
    views = Views(node, "small")
    assert views.put("dev_d", {"v": BY_NUMBER}).status == 201
    assert len(ids(views.fresh("dev_d", "v"))) == LARGE - 1


def test_every_node_answers_a_development_view_from_the_same_vbucket_also_after_a_rebalance():
    cluster = made(2, ["travel"], numVBuckets=VBUCKETS)
    try:
        pairs = documents(2 * LARGE)
        wanted = of_vbucket(pairs, 0)
        store_in(cluster, "travel", pairs)
        nodes = [Views(member, "travel") for member in cluster.members]
        assert nodes[0].put("dev_d", {"v": BY_NUMBER}).status == 201
        for node in nodes:
            # A node has the number of documents of the others after a second.
            wait_until(lambda: ids(node.fresh("dev_d", "v")) == wanted, 30, "the subset")
            assert len(ids(node.fresh("dev_d", "v", full_set=True))) == len(pairs)
        cluster.rebalance(eject=[0], at=1)
        assert ids(nodes[1].fresh("dev_d", "v")) == wanted
    finally:
        cluster.close()


# Updates in steps


def test_index_that_only_queries_update_lags_until_a_query_requests_an_update(node):
    node.create_bucket("steps", numVBuckets=VBUCKETS)
    views = Views(node, "steps")
    # With the option 0, nothing but a query updates the index of this document.
    lazy = {"v": "function (doc, meta) { emit(meta.id, 1); }"}
    assert views.put("lazy", lazy, options={"updateMinChanges": 0}).status == 201
    assert views.put("live", {"v": BY_NUMBER}).status == 201
    assert ids(views.fresh("lazy", "v")) == ids(views.fresh("live", "v")) == set()
    pairs = documents(20)
    for count in range(1, len(pairs) + 1):
        store(node, "steps", [pairs[count - 1]])
        wait_until(
            lambda: len(ids(views.query("live", "v", stale="ok"))) == count,
            30,
            "the continuous index",
        )
    assert len(ids(views.query("lazy", "v", stale="ok"))) < len(pairs)
    views.query("lazy", "v", stale="update_after")
    wait_until(
        lambda: len(ids(views.query("lazy", "v", stale="ok"))) == len(pairs), 30, "the update"
    )
    store(node, "steps", [("last", {"n": 1})])
    assert "last" in ids(views.fresh("lazy", "v"))


# Settings


def test_settings_of_indexes_are_shown_changed_and_checked(node):
    admin = node.admin
    daemon, indexers = "/settings/viewUpdateDaemon", "/settings/maxParallelIndexers"
    defaults = {"updateInterval": 5000, "updateMinChanges": 5000, "replicaUpdateMinChanges": 5000}
    assert admin.get(daemon).json == defaults
    assert admin.post(daemon, {"updateMinChanges": 7}).json == {**defaults, "updateMinChanges": 7}
    assert admin.post(daemon, {"updateMinChanges": "x"}).status == 400
    assert admin.post(daemon, {"unknown": 1}).status == 400
    assert admin.get(daemon).json["updateMinChanges"] == 7

    assert admin.get(indexers).json["globalValue"] == 4
    assert admin.post(indexers, {"globalValue": 2}).json["globalValue"] == 2
    assert list(admin.get(indexers).json["nodes"].values()) == [2]
    assert admin.post(indexers, {"globalValue": 0}).status == 400
    assert set(admin.get("/pools").json["settings"]) == {"maxParallelIndexers", "viewUpdateDaemon"}


def test_thresholds_of_view_compaction_are_shown_changed_and_checked(node):
    def threshold():
        shown = node.admin.get("/settings/autoCompaction").json["autoCompactionSettings"]
        return shown["viewFragmentationThreshold"]

    def change(**fields):
        named = {f"viewFragmentationThreshold[{name}]": each for name, each in fields.items()}
        form = {"parallelDBAndViewCompaction": "false", **named}
        return node.admin.post("/controller/setAutoCompaction", form).status

    assert threshold() == {"percentage": 30, "size": "undefined"}
    assert change(percentage=50, size=2 << 20) == 200
    assert threshold() == {"percentage": 50, "size": 2 << 20}
    assert change(percentage=1) == 400 and change(size=5) == 400
    assert change() == 200
    assert threshold() == {"percentage": "undefined", "size": "undefined"}
    assert node.admin.post("/controller/setAutoCompaction", {}).status == 400
    other = {
        "parallelDBAndViewCompaction": "false",
        "databaseFragmentationThreshold[percentage]": 77,
    }
    assert node.admin.post("/controller/setAutoCompaction", other).status == 400


# Builds and compaction


def test_builds_beyond_max_parallel_indexers_are_queued_and_all_complete(node):
    node.create_bucket("many", numVBuckets=VBUCKETS)
    assert node.admin.post("/settings/maxParallelIndexers", {"globalValue": 1}).status == 200
    store(node, "many", documents(10_000))
    views = Views(node, "many")
    for number in range(4):
        # Each build takes seconds, so that the statistics show builds that wait.
        work = "var sum = doc.n; for (var i = 0; i < 60000; i++) sum = (sum * 31 + i) % 65521;"
        source = f"function (doc, meta) {{ {work} emit(doc.n + {number}, sum); }}"
        assert views.put(f"d{number}", {"v": source}).status == 201

    def tasks():
        found = node.admin.get("/pools/default/tasks").json
        return [task["status"] for task in found if task["type"] == "indexer"]

    wait_until(lambda: "queued" in tasks(), 60, "an index that waits")
    for number in range(4):
        assert views.fresh(f"d{number}", "v", limit=0).json["total_rows"] == 10_000
    wait_until(lambda: not tasks(), 30, "no index is built")


def test_index_of_which_most_rows_were_deleted_is_compacted_without_a_request(node):
    node.create_bucket("shrunk", numVBuckets=VBUCKETS)
    pairs = documents(6_000, "long " * 100)
    store(node, "shrunk", pairs)
    views = Views(node, "shrunk")
    assert views.put("d", {"v": "function (doc, meta) { emit(doc.n, doc.text); }"}).status == 201
    assert views.fresh("d", "v", limit=0).json["total_rows"] == len(pairs)
    kept = [id for id, each in pairs if each["n"] % 8 == 0]
    with node.connect("shrunk") as connection:
        for id, each in pairs:
            if each["n"] % 8:
                assert connection.call(Op.DELETE, id).status == 0
    assert views.fresh("d", "v", limit=0).json["total_rows"] == len(kept)
    wait_until(lambda: "compaction ended" in node.log(), 90, "the compaction")
    assert ids(views.fresh("d", "v")) == set(kept)


def test_views_of_a_new_design_document_are_compacted_at_once(node):
    node.create_bucket("fresh", numVBuckets=VBUCKETS)
    views = Views(node, "fresh")
    for number in range(5):
        assert views.put(f"d{number}", {"v": f"function (doc, meta) {{ emit({number}); }}"}).status == 201
        path = f"/pools/default/buckets/fresh/ddocs/_design%2Fd{number}/controller/compactView"
        reply = node.admin.post(path)
        assert reply.status == 200, reply.text
