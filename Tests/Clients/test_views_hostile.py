"""Functions that misbehave, each beside a healthy view: the node serves, and the healthy rows are fresh."""

import itertools
import json
import time

import pytest

from rig.load import ingest
from rig.node import Node, wait_until
from rig.views import Views
from rig.wire import vbucket_of
from view_oracle import View

# The healthy view shares processors with a hostile function, and no script process: it does not wait
# for the function's time of a second for each document, nor for the 16 of them after which the view is
# stopped. The deadline is for machines with other work.
FRESH_SECONDS = 10
# What is not about freshness beside a hostile function: the node has just started, for example.
START_SECONDS = 60
# A view is stopped after 16 time-outs of a second of processor time.
STOP_SECONDS = 300

HEALTHY = View(
    "function (doc, meta) { emit(doc.n, meta.id); }",
    lambda document, id: [(document["n"], id)],
    "_count",
)

# What a function does with a document that it was made for. All others get their row by
# `emit(doc.n, null)`.
HOSTILE = {
    "endless loop": "while (true) {}",
    "endless loop that catches": "while (true) { try { while (true) {} } catch (e) {} }",
    "catastrophic regexp": "/^(a|aa|a*)+$/.test(new Array(60).join('a') + '!');",
    "endless string": "var s = 'x'; while (true) s += s;",
    "endless string in small steps": "var s = []; while (true) s.push(new Array(1000).join(doc.n));",
    "endless array": "var a = []; while (true) a.push(new Array(1000));",
    "endless objects": "var o = null; while (true) o = {next: o, a: 1, b: 2};",
    "deep recursion": "(function f(n) { return f(n + 1) + 1; })(0);",
    "endless emit": "while (true) emit(1, 1);",
    "endless emit that catches": "while (true) { try { emit(1, 1); } catch (e) {} }",
    "throws an error": "throw new Error('on purpose');",
    "throws a string": "throw 'on purpose';",
    "throws nothing": "throw undefined;",
    "throws itself": "throw {toString: function () { throw this; }, get message() { throw this; }};",
    "reads nothing": "doc.missing.member;",
    "emits a cycle": "var c = {}; c.c = c; emit(c, 1);",
    "key of 5 000 bytes": "emit(new Array(5001).join('k'), 1);",
    "key of 1 MB": "emit(new Array(1e6).join('k'), 1);",
    "value of 2 MB": "emit(1, new Array(2e6).join('v'));",
    "deep array as a key": "var a = []; for (var i = 0; i < 1e5; i++) a = [a]; emit(a, 1);",
    "throws from toJSON": "emit({toJSON: function () { throw new Error('no'); }}, 1);",
    "endless toJSON": "emit({toJSON: function () { while (true) {} }}, 1);",
    "endless promises": "(function f() { Promise.resolve().then(f); })();",
    "logs without end": "for (var i = 0; i < 1e5; i++) log(new Array(1000).join('l'));",
}

# These change what all later calls of the same function meet, so its own rows may be wrong.
TAMPERING = {
    "replaces JSON": "JSON.stringify = JSON.parse = function () { return '}{'; };",
    "replaces toJSON": "Object.prototype.toJSON = Array.prototype.toJSON = function () { return 7; };",
    "replaces methods of arrays": """
        Array.prototype.push = Array.prototype.join = Array.prototype.forEach = function () {
            throw new Error('tampered');
        };""",
    "replaces its helpers": "emit = sum = log = Date = Math = undefined;",
    "replaces itself": "globalThis.__proto__ = new Proxy({}, {get: function () { while (true) {} }});",
    "freezes everything": """
        Object.getOwnPropertyNames(globalThis).forEach(function (name) {
            Object.freeze(globalThis[name]); Object.freeze(globalThis[name].prototype);
        });""",
    "setter for every index": """
        Object.defineProperty(Array.prototype, '0', {set: function () { while (true) {} }});""",
}


def function(body):
    return f"function (doc, meta) {{ if (doc.isTarget) {{ {body} }} else emit(doc.n, null); }}"


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        node.start().provision()
        node.create_bucket("mixed", numVBuckets=64)
        yield node


@pytest.fixture(scope="module")
def documents():
    """What is stored: one document of 40 is the one that a hostile function is made for."""
    return {f"doc-{n:03}": {"n": n, "isTarget": n == 23} for n in range(40)}


@pytest.fixture(scope="module")
def views(node, documents):
    store(node, documents)
    views = Views(node, "mixed")
    assert views.put("healthy", {"v": HEALTHY}).status == 201
    check_healthy(node, views, documents, turns=1, seconds=START_SECONDS)
    return views


@pytest.fixture
def hostile(views):
    """A design document for the test; it is deleted afterwards, so that it costs no other test."""
    yield "hostile"
    views.delete("hostile")


def store(node, documents):
    with node.connect("mixed") as connection:
        pairs = [(id.encode(), json.dumps(each).encode()) for id, each in documents.items()]
        ingest(connection, pairs)


def check_healthy(node, views, documents, turns=3, seconds=FRESH_SECONDS):
    """The healthy view has each change at once, and all its rows."""
    for _ in range(turns):
        id = f"doc-{len(documents):03}"
        documents[id] = {"n": len(documents), "isTarget": False}
        store(node, {id: documents[id]})
        began = time.monotonic()
        answer = views.fresh(
            "healthy",
            "v",
            reduce=False,
            seconds=seconds + 10,
            connection_timeout=int(1_000 * seconds),
        )
        assert time.monotonic() - began < seconds
        assert not answer.errors, answer.errors
        assert answer.content == HEALTHY.query(documents, reduce=False)
    assert views.fresh("healthy", "v").rows == [{"key": None, "value": len(documents)}]


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_function_costs_only_the_documents_that_it_fails_on(
    node, views, documents, hostile, kind
):
    assert views.put(hostile, {"v": function(HOSTILE[kind])}).status == 201
    check_healthy(node, views, documents)
    answer = views.fresh(hostile, "v", seconds=120)
    assert answer.status == 200, answer
    targets = {id for id, each in documents.items() if each["isTarget"]}
    rows = [(row["key"], row["id"]) for row in answer.rows if row["id"] not in targets]
    assert rows == [(each["n"], id) for id, each in documents.items() if id not in targets]
    assert node.is_running


@pytest.mark.parametrize("kind", TAMPERING)
def test_tampering_function_harms_no_other_view(node, views, documents, hostile, kind):
    body = f"if (doc.isTarget) {{ {TAMPERING[kind]} }} emit(doc.n, 1);"
    source = f"function (doc, meta) {{ {body} }}"
    assert views.put(hostile, {"v": source}).status == 201
    check_healthy(node, views, documents)
    answer = views.fresh(hostile, "v", seconds=120, connection_timeout=10_000)
    assert answer.status in (200, 500, 503), answer
    check_healthy(node, views, documents, turns=1)
    assert node.is_running


@pytest.mark.parametrize(
    "body",
    [
        "while (true) {}",
        "throw new Error('on purpose');",
        "var a = []; while (true) a.push(new Array(1000));",
        "return new Array(100000).join('r');",
    ],
)
def test_hostile_reduce_fails_its_query_and_not_its_rows(node, views, documents, hostile, body):
    source = "function (doc, meta) { emit(doc.n, 1); }"
    reduce = f"function (keys, values, rereduce) {{ {body} }}"
    assert views.put(hostile, {"v": {"map": source, "reduce": reduce}}).status == 201
    answer = views.fresh(hostile, "v", seconds=120)
    assert answer.status != 200 or answer.errors, answer
    check_healthy(node, views, documents, turns=1)
    rows = views.fresh(hostile, "v", reduce=False).rows
    assert [row["id"] for row in rows] == sorted(documents)


# What a document or a key may have as JSON.
LEVELS_MAX = 1_024


def nested(number, levels):
    """A document of so many levels."""
    inner = levels - 1
    return b'{"n":%d,"deep":%s%s}' % (number, b"[" * inner, b"]" * inner)


def test_documents_whose_rows_nest_too_deep_lose_only_their_own_rows(node):
    """In one vBucket, whose changes are mapped in their order: 16 ended processes in succession would
    stop the view."""
    node.create_bucket("deep", numVBuckets=64)
    views = Views(node, "deep")
    # A row's object is one level around its document.
    reduce = """function (keys, values, rereduce) {
        for (var a = 1, i = 0; i < 1100; i++) a = [a];
        return a;
    }"""
    source = "function (doc, meta) { emit(doc.n, {doc: doc}); }"
    assert views.put("deep", {"v": {"map": source, "reduce": reduce}}).status == 201
    ids = (id for id in map(b"doc-%05d".__mod__, range(100_000)) if vbucket_of(id, 64) == 0)
    healthy = []
    number = 0
    # So many healthy documents, then so many deep ones; a query after each step.
    for steps in [(5, 20), (5, 10), (5, 0)]:
        batch = []
        for count, levels in zip(steps, (3, LEVELS_MAX)):
            for id in itertools.islice(ids, count):
                batch.append((id, nested(number, levels)))
                if levels < LEVELS_MAX:
                    healthy.append((number, id.decode()))
                number += 1
        with node.connect("deep") as connection:
            ingest(connection, batch)
        answer = views.fresh("deep", "v", reduce=False, seconds=START_SECONDS)
        assert answer.status == 200 and not answer.errors, answer
        assert [(row["key"], row["id"]) for row in answer.rows] == healthy
    assert len(healthy) == 15

    def counted():
        reply = node.admin.get("/pools/default/buckets/deep/ddocs/_design%2Fdeep/errors")
        return reply.json["views"].get("v", {})

    # The node reads the figures of its indexes every few seconds.
    wait_until(lambda: counted().get("total", 0) >= 30, 30, "the errors are counted")
    errors = counted()
    assert errors["counts"] == {"notJSON": 30} and "fault" not in errors, errors
    assert all("nests deeper than 1024 levels" in each["text"] for each in errors["last"])
    reduced = views.fresh("deep", "v", seconds=START_SECONDS)
    assert "The reduction nests deeper than 1024 levels" in reduced.text, reduced


def test_view_with_repeated_timeouts_is_stopped_with_a_reason(
    node, views, documents, hostile
):
    """Each of its documents would cost a second."""
    source = "function (doc, meta) { while (true) {} }"
    assert views.put(hostile, {"v": source}).status == 201
    check_healthy(node, views, documents, turns=5)
    answer = views.fresh(
        hostile, "v", seconds=STOP_SECONDS + 10, connection_timeout=1_000 * STOP_SECONDS
    )
    assert "Indexing stopped" in answer.text, answer
    assert "Correct the map function" in answer.text, answer
    check_healthy(node, views, documents)
    # A corrected function is indexed.
    assert views.put(hostile, {"v": function("emit(doc.n, 1);")}).status == 201
    assert len(views.fresh(hostile, "v").rows) == len(documents)


def test_node_restarts_with_a_hostile_view_and_serves(node, views, documents, hostile):
    assert views.put(hostile, {"v": function("while (true) {}")}).status == 201
    assert views.fresh(hostile, "v", seconds=120).status == 200
    assert node.stop() == 0
    node.start()
    node.await_bucket("mixed")
    check_healthy(node, views, documents, turns=1, seconds=START_SECONDS)
    check_healthy(node, views, documents)


def test_several_hostile_views_delay_no_healthy_one(node, views, documents):
    """They share one script process, also with each other; each kind stays in the time of a call."""
    names = [f"hostile-{n}" for n in range(3)]
    bodies = ["while (true) {}", HOSTILE["catastrophic regexp"], HOSTILE["endless objects"]]
    for name, body in zip(names, bodies):
        assert views.put(name, {"v": f"function (doc, meta) {{ {body} }}"}).status == 201
    try:
        # A healthy view behind all three would wait three times as long.
        check_healthy(node, views, documents, turns=10, seconds=25)
        # A view that is made meanwhile does not wait for them either, but may share processors.
        source = "function (doc, meta) { emit(doc.n, 2); }"
        assert views.put("late", {"v": source}).status == 201
        rows = views.fresh("late", "v", seconds=START_SECONDS).rows
        assert len(rows) == len(documents)
    finally:
        for name in [*names, "late"]:
            views.delete(name)
    assert node.is_running
