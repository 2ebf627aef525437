"""Views over restarts and crashes, in every kind of bucket, and when buckets are emptied or deleted."""

import http.client
import json
import time

import pytest

from rig.load import ingest
from rig.node import wait_until
from rig.views import Views
from rig.wire import Op, Status
from view_oracle import View

NUMBERS = View(
    "function (doc, meta) { emit(doc.n, doc.v); }",
    lambda document, id: [(document["n"], document["v"])],
)
COUNTED = View(NUMBERS.source, NUMBERS.map, "_sum")
BOTH = {"map": NUMBERS, "sum": COUNTED}


def numbered(count, turn=0):
    return {f"doc-{n:05}": {"n": n % 17, "v": n + turn} for n in range(count)}


def store(node, bucket, documents):
    with node.connect(bucket) as connection:
        pairs = [(id.encode(), json.dumps(each).encode()) for id, each in documents.items()]
        ingest(connection, pairs)


def check(views, documents):
    """Every row and every group is that of the documents."""
    answer = views.fresh("numbers", "map")
    assert not answer.errors, answer.errors
    assert answer.content == NUMBERS.query(documents)
    groups = views.fresh("numbers", "sum", group=True)
    assert groups.content == COUNTED.query(documents, group=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"evictionPolicy": "valueOnly"},
        {"evictionPolicy": "fullEviction"},
        {"bucketType": "ephemeral"},
        {"bucketType": "ephemeral", "evictionPolicy": "nruEviction"},
    ],
    ids=lambda settings: "-".join(settings.values()),
)
def test_each_kind_of_bucket_has_the_rows_of_its_documents(make_node, settings):
    node = make_node().start().provision()
    node.create_bucket("kind", numVBuckets=64, **settings)
    views = Views(node, "kind")
    assert views.put("numbers", BOTH).status == 201
    documents = numbered(500)
    store(node, "kind", documents)
    check(views, documents)
    with node.connect("kind") as connection:
        for id in list(documents)[::3]:
            assert connection.call(Op.DELETE, id).status == Status.SUCCESS
            del documents[id]
    check(views, documents)
    assert node.stop() == 0
    node.start()
    node.await_bucket("kind")
    if settings.get("bucketType") == "ephemeral":
        documents = {}
    check(views, documents)
    # Documents that come back have their rows again.
    documents |= numbered(50, turn=1)
    store(node, "kind", numbered(50, turn=1))
    check(views, documents)


def test_documents_that_are_not_in_memory_are_indexed(make_node):
    """More documents than the quota holds, with a view that is made after them."""
    node = make_node().start().provision()
    node.create_bucket("full", numVBuckets=64, evictionPolicy="fullEviction")
    count, pad = 30_000, "x" * 4_000
    with node.connect("full") as connection:
        bodies = ((b"doc-%05d" % n, b'{"n":%d,"v":%d,"pad":"%s"}' % (n % 17, n, pad.encode()))
                  for n in range(count))
        ingest(connection, bodies)
    views = Views(node, "full")
    assert views.put("numbers", BOTH).status == 201
    check(views, numbered(count))


def test_configuration_stream_ends_when_its_node_is_killed(make_node):
    """Script processes are children of the node and outlive it for a moment: they have none of its sockets."""
    node = make_node().start().provision()
    node.create_bucket("killed", numVBuckets=64)
    views = Views(node, "killed")
    assert views.put("numbers", BOTH).status == 201
    store(node, "killed", numbered(10))
    check(views, numbered(10))
    for path in ("/pools/default/bs/killed", "/pools/default/bucketsStreaming/killed"):
        with node.admin.stream(path) as stream:
            assert json.loads(stream.next())["name"] == "killed"
            node.kill()
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                while stream.next() is not None:
                    pass
        node.start()
        node.await_bucket("killed")


def test_restarted_node_answers_from_its_index_without_building_it_again(make_node):
    """The function costs so much that a new build would be noticed."""
    node = make_node().start().provision()
    node.create_bucket("kept", numVBuckets=64)
    documents = numbered(150)
    store(node, "kept", documents)
    views = Views(node, "kept")
    source = """function (doc, meta) {
        for (var i = 0, x = 1; i < 2e5; i++) x = (x * 69069 + 1) % 4294967296;
        emit(doc.n, doc.v + (x == 0 ? 1 : 0));
    }"""
    began = time.monotonic()
    assert views.put("numbers", {"map": source}).status == 201
    wanted = NUMBERS.query(documents)
    assert views.fresh("numbers", "map").content == wanted
    build = time.monotonic() - began
    assert node.stop() == 0
    node.start()
    node.await_bucket("kept")
    began = time.monotonic()
    answer = views.query("numbers", "map", stale="ok")
    if answer.errors:
        # The vBuckets may still be loading.
        wait_until(lambda: not views.query("numbers", "map", stale="ok").errors, 30, "no errors")
        answer = views.query("numbers", "map", stale="ok")
    assert answer.content == wanted
    assert views.fresh("numbers", "map").content == wanted
    assert time.monotonic() - began < max(build / 2, 0.5), build


def test_time_and_random_numbers_of_a_document_are_the_same_in_every_index(make_node):
    node = make_node().start().provision()
    node.create_bucket("fixed", numVBuckets=64)
    store(node, "fixed", numbered(200))
    with node.connect("fixed") as connection:
        cas = {id: connection.get(id.encode()).cas for id in numbered(200)}
    views = Views(node, "fixed")
    source = """function (doc, meta) {
        emit(meta.id, [Date.now(), new Date().getTime(), Math.random(), Math.random()]);
    }"""
    assert views.put("first", {"v": source}).status == 201
    before = views.fresh("first", "v").rows
    assert [row["key"] for row in before] == sorted(cas)
    for row in before:
        now, again, one, other = row["value"]
        assert now == again == cas[row["id"]] // 1_000_000
        assert 0 <= one < 1 and 0 <= other < 1 and one != other
    assert len({row["value"][2] for row in before}) == 200
    assert node.stop() == 0
    node.start()
    node.await_bucket("fixed")
    assert views.fresh("first", "v").rows == before
    # Another text is another index, and every document is mapped again.
    assert views.put("second", {"v": source + " // another"}).status == 201
    assert views.fresh("second", "v").rows == before


def test_flushed_bucket_has_no_rows_and_keeps_its_design_documents(make_node):
    node = make_node().start().provision()
    node.create_bucket("flushed", numVBuckets=64)
    views = Views(node, "flushed")
    assert views.put("numbers", BOTH).status == 201
    store(node, "flushed", numbered(300))
    check(views, numbered(300))
    reply = node.admin.post("/pools/default/buckets/flushed/controller/doFlush")
    assert reply.status == 200
    node.await_bucket("flushed")
    assert views.get("numbers").status == 200
    check(views, {})
    store(node, "flushed", numbered(20))
    check(views, numbered(20))


def test_deleted_bucket_takes_its_design_documents_with_it(make_node):
    node = make_node().start().provision()
    views = Views(node, "gone")
    for turn in range(2):
        node.create_bucket("gone", numVBuckets=64)
        assert views.get("numbers").status == 404, turn
        assert views.put("numbers", BOTH).status == 201
        store(node, "gone", numbered(100, turn))
        check(views, numbered(100, turn))
        assert node.admin.delete("/pools/default/buckets/gone").status == 200
        assert views.query("numbers", "map").status == 404


def test_changed_design_document_is_rebuilt_and_unchanged_views_stay(make_node):
    node = make_node().start().provision()
    node.create_bucket("changed", numVBuckets=64)
    documents = numbered(400)
    store(node, "changed", documents)
    views = Views(node, "changed")
    assert views.put("numbers", BOTH).status == 201
    check(views, documents)
    other = View(
        "function (doc, meta) { emit(meta.id, doc.v); }", lambda each, id: [(id, each["v"])], "_count"
    )
    assert views.put("numbers", {**BOTH, "other": other}).status == 201
    assert views.fresh("numbers", "other").content == other.query(documents)
    check(views, documents)
    # A view that is not built yet says so, and is never silently empty.
    for turn in range(5):
        source = f"function (doc, meta) {{ emit([{turn}, doc.n], doc.v); }}"
        assert views.put("numbers", {"map": source, "sum": COUNTED}).status == 201
        answer = views.query("numbers", "map", stale="ok")
        assert answer.errors or len(answer.rows) == len(documents), answer
        rows = views.fresh("numbers", "map").rows
        assert len(rows) == len(documents) and all(row["key"][0] == turn for row in rows)


# Changed views


def slow(turn):
    """A map function that takes some time, so that queries meet its build."""
    return f"""function (doc, meta) {{
        for (var i = 0, x = 1; i < 2e4; i++) x = (x * 69069 + 1) % 4294967296;
        emit([{turn}, doc.n], doc.v + (x == 0 ? 1 : 0));
    }}"""


def turns(answer, count):
    """The definitions that an answer without errors is of."""
    assert answer.status == 200 and not answer.errors, answer
    assert len(answer.rows) == count == answer.json["total_rows"], answer
    return {row["key"][0] for row in answer.rows}


def ask_until_new(views, count, old, new):
    """Every answer is entirely of the old definition or entirely of the new one."""
    seen = []
    end = time.monotonic() + 240
    while not seen or seen[-1] != new:
        assert time.monotonic() < end, "the new definition never answered"
        found = turns(views.query("numbers", "map", stale="ok"), count)
        assert found in ({old}, {new}), found
        seen += found
    assert seen == sorted(seen, key=[old, new].index), "an old answer came after a new one"
    return len(seen) - 1


def test_changed_view_is_answered_by_its_old_definition_until_the_new_one_is_built(make_node):
    node = make_node().start().provision()
    node.create_bucket("changed", numVBuckets=64)
    documents = numbered(2_500)
    store(node, "changed", documents)
    views = Views(node, "changed")
    assert views.put("numbers", {"map": slow(0)}).status == 201
    assert turns(views.fresh("numbers", "map"), len(documents)) == {0}
    olds = 0
    for turn in range(1, 4):
        assert views.put("numbers", {"map": slow(turn)}).status == 201
        olds += ask_until_new(views, len(documents), turn - 1, turn)
        assert turns(views.fresh("numbers", "map"), len(documents)) == {turn}
    assert olds > 0, "no query met a build"
    assert views.put("numbers", {"map": slow(9)}).status == 201
    assert turns(views.fresh("numbers", "map"), len(documents)) == {9}


def test_old_definition_answers_as_a_whole_with_its_own_reduce_function(make_node):
    node = make_node().start().provision()
    node.create_bucket("changed", numVBuckets=64)
    documents = numbered(2_000)
    store(node, "changed", documents)
    views = Views(node, "changed")
    old = {"map": slow(0), "reduce": "_count"}
    new = {"map": slow(1), "reduce": "function (keys, values, rereduce) { return 'new'; }"}
    assert views.put("numbers", {"map": old}).status == 201
    assert views.fresh("numbers", "map").rows == [{"key": None, "value": len(documents)}]
    assert views.put("numbers", {"map": new}).status == 201
    values = []
    end = time.monotonic() + 240
    while "new" not in values:
        assert time.monotonic() < end
        answer = views.query("numbers", "map", stale="update_after")
        assert answer.status == 200 and not answer.errors, answer
        values += [row["value"] for row in answer.rows]
    assert set(values) <= {len(documents), "new"} and values[0] == len(documents)


def test_old_definition_answers_after_a_restart_in_the_middle_of_a_build(make_node):
    node = make_node().start().provision()
    node.create_bucket("changed", numVBuckets=64)
    documents = numbered(4_000)
    store(node, "changed", documents)
    views = Views(node, "changed")
    assert views.put("numbers", {"map": slow(0)}).status == 201
    assert turns(views.fresh("numbers", "map"), len(documents)) == {0}
    assert node.stop() == 0
    node.start()
    node.await_bucket("changed")
    wait_until(lambda: not views.query("numbers", "map", stale="ok").errors, 30, "no errors")
    assert views.put("numbers", {"map": slow(1)}).status == 201
    node.kill()
    node.start()
    node.await_bucket("changed")
    # The vBuckets may still be loading.
    wait_until(lambda: not views.query("numbers", "map", stale="ok").errors, 30, "no errors")
    ask_until_new(views, len(documents), 0, 1)
