"""Views over plain HTTP: refusals and their texts, the form of answers, what map functions are given.

`test_views_process.py` has restarts and kinds of buckets, `test_views_hostile.py` functions that
misbehave.
"""

import base64
import json
import os
import re
import time

import pytest

from rig.load import ingest
from rig.node import PASSWORD, Node, wait_until
from rig.rest import Rest
from rig.views import Raw, Views
from rig.wire import Op, Status, vbucket_of
from view_oracle import View

# A campaign pages through a million rows.
PAGED_ROWS = int(os.environ.get("DIVAN_VIEW_ROWS", "50000"))

THINGS = {f"thing-{number:02}": {"n": number % 10, "kind": "ab"[number % 2]} for number in range(30)}
BY_NUMBER = View(
    "function (doc, meta) { if (meta.id.indexOf('thing-') == 0) emit(doc.n, doc.kind); }",
    lambda document, id: [(document["n"], document["kind"])],
)
COUNTED = View(BY_NUMBER.source, BY_NUMBER.map, "_count")


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        node.start().provision()
        node.create_bucket("things", numVBuckets=64)
        store(node, "things", THINGS)
        yield node


@pytest.fixture(scope="module")
def views(node):
    """The bucket `things` with a design document of a map and of a reduced view."""
    views = Views(node, "things")
    assert views.put("things", {"map": BY_NUMBER, "count": COUNTED}).status == 201
    return views


@pytest.fixture
def name(request):
    """A design document, and an ID of documents, that no other test uses."""
    return re.sub(r"\W", "-", request.node.name)[:100]


def store(node, bucket, documents):
    """Stores documents: bytes as they are, all others as JSON."""
    with node.connect(bucket) as connection:
        ingest(
            connection,
            [
                (id.encode(), each if isinstance(each, bytes) else json.dumps(each).encode())
                for id, each in documents.items()
            ],
        )


def remove(node, bucket, id):
    with node.connect(bucket) as connection:
        assert connection.call(Op.DELETE, id).status == Status.SUCCESS


def rows_of(node, name, source, documents, bucket="things", reduce=None, **parameters):
    """The rows that a map function, or a reduction, has for these documents alone."""
    store(node, bucket, documents)
    views = Views(node, bucket)
    # Other tests have documents of their own in this bucket.
    guard = f"function (doc, meta) {{ if (meta.id.indexOf({json.dumps(name)}) == 0) "
    view = {"map": f"{guard}({source})(doc, meta); }}"}
    if reduce:
        view["reduce"] = reduce
    assert views.put(name, {"v": view}).status == 201
    answer = views.fresh(name, "v", **parameters)
    assert answer.status == 200 and not answer.errors, answer
    return answer.rows


# Refusals


def test_unknown_view_is_not_found_by_its_name(views):
    status, error, reason = views.query("things", "unknown").refusal
    assert (status, error) == (404, "not_found")
    assert "missing_named_view" in reason or ("unknown" in reason and "things" in reason)


def test_unknown_and_deleted_design_documents_are_not_found(views, name):
    assert views.query(name, "v").refusal[:2] == (404, "not_found")
    assert views.put(name, {"v": BY_NUMBER}).status == 201
    assert views.fresh(name, "v").status == 200
    assert views.delete(name).status == 200
    assert views.query(name, "v").refusal[:2] == (404, "not_found")
    assert views.get(name).json["error"] == "not_found"


def test_unknown_bucket_is_not_found(node):
    assert Views(node, "unknown").query("d", "v").refusal == (404, "not_found", "missing")


REFUSALS = [
    ("map", {"stale": "maybe"}, "stale only available as stale=ok or as stale=update_after"),
    ("map", {"limit": "-1"}, 'Invalid value for positive integer parameter: "-1"'),
    ("map", {"skip": "-2"}, 'Invalid value for positive integer parameter: "-2"'),
    ("map", {"limit": "many"}, 'Invalid value for integer parameter: "many"'),
    ("map", {"descending": "perhaps"}, 'Invalid boolean parameter: "perhaps"'),
    ("map", {"inclusive_end": ""}, "Invalid boolean parameter: []"),
    ("map", {"reduce": "true"}, "Invalid URL parameter `reduce` for map view."),
    (
        "map",
        {"group": "true"},
        "Invalid URL parameter 'group' or  'group_level' for non-reduce view.",
    ),
    (
        "map",
        {"group_level": "1"},
        "Invalid URL parameter 'group' or  'group_level' for non-reduce view.",
    ),
    (
        "map",
        {"startkey": "2", "endkey": "1"},
        "No rows can match your key range, reverse your start_key and end_key or set"
        " descending=true",
    ),
    (
        "map",
        {"startkey": "1", "endkey": "2", "descending": "true"},
        "No rows can match your key range, reverse your start_key and end_key or set"
        " descending=false",
    ),
    (
        "map",
        {"keys": "[1]", "startkey": "1"},
        "Query parameter `start_key` is not compatible with multi-get",
    ),
    (
        "map",
        {"keys": "[1]", "endkey": "1"},
        "Query parameter `end_key` is not compatible with multi-get",
    ),
    ("map", {"_type": "other"}, "Query parameter `_type` must be `main`."),
    (
        "count",
        {"group": "true", "group_level": "1"},
        "Query parameter `group_level` is not compatible with `group`",
    ),
    ("count", {"keys": "[1]"}, "Multi-key fetchs for reduce view must include `group=true`"),
    (
        "count",
        {"include_docs": "true"},
        "Query parameter `include_docs` is invalid for reduce views.",
    ),
]


@pytest.mark.parametrize("view, parameters, reason", REFUSALS)
def test_parameters_without_a_meaning_are_refused_with_couchbases_texts(
    views, view, parameters, reason
):
    answer = views.query_pairs("things", view, list(parameters.items()))
    assert answer.refusal == (400, "query_parse_error", reason)


@pytest.mark.parametrize(
    "parameters, reason",
    [
        ({"keys": '{"a":1}'}, "`keys` parameter is not an array."),
        ({"startkey": "abc"}, 'invalid UTF-8 JSON: "abc"'),
        ({"key": '"a'}, 'invalid UTF-8 JSON: "\\"a"'),
        ({"connection_timeout": '"x"'}, "Query parameter `connection_timeout` must be an integer"),
        (
            {"on_error": "ignore"},
            "Invalid value (`ignore`) for the parameter `on_error`."
            " It must be `continue` (default) or `stop`.",
        ),
    ],
)
def test_parameters_of_a_wrong_form_are_bad_requests(views, parameters, reason):
    answer = views.query_pairs("things", "map", list(parameters.items()))
    assert answer.refusal == (400, "bad_request", reason)


@pytest.mark.parametrize("body", ['{"keys": 1}', '{"keys": {"a": 1}}', "[1]", "{", '{"keys": [}'])
def test_bodies_of_a_wrong_form_are_bad_requests(views, body):
    assert views.query("things", "map", body=body).refusal[:2] == (400, "bad_request")


def test_body_that_is_no_json_by_its_type_is_refused(views):
    reply = views.rest.post(views.path("things", "map"), {"keys": "[1]"})
    assert (reply.status, reply.json["error"]) == (415, "bad_content_type")


def test_query_without_or_with_a_wrong_login_is_unauthorized(node):
    for login in (None, ("Administrator", "wrong"), ("unknown", PASSWORD)):
        answer = Views(node, "things", login).query("things", "map")
        assert answer.refusal == (401, "unauthorized", "password required")
        assert answer.headers["WWW-Authenticate"].startswith("Basic")


@pytest.mark.parametrize(
    "body, words",
    [
        ("{", ["not valid JSON"]),
        ("[]", ["not a JSON object"]),
        ('{"views": []}', ["views"]),
        ('{"views": {"": {"map": "function () {}"}}}', ["name of a view"]),
        ('{"views": {" v": {"map": "function () {}"}}}', ["blank"]),
        ('{"views": {"v": {}}}', ["v", "map"]),
        ('{"views": {"v": {"map": 1}}}', ["v", "not a string"]),
        ('{"views": {"v": {"map": "function () {}", "reduce": "_median"}}}', ["v", "_median"]),
        ('{"views": {"v": {"map": "function (d) {\\n\\n emit(d.a, ; }"}}}', ['"v"', "line 3"]),
        ('{"views": {"v": {"map": "1 + 1"}}}', ['"v"']),
        (
            '{"views": {"v": {"map": "function () {}", "reduce": "function (k, v {\\n}"}}}',
            ['"v"', "reduce", "line 1"],
        ),
    ],
)
def test_invalid_design_document_is_refused_with_its_reason(views, name, body, words):
    reply = views.put_text(name, body)
    assert (reply.status, reply.json["error"]) == (400, "invalid_design_document")
    assert all(word in reply.json["reason"] for word in words), reply.json["reason"]
    assert views.get(name).status == 404


# The form of requests and answers


def test_short_answer_is_one_text_in_couchbases_lines(node, name):
    rows_of(node, name, "function (doc) { emit(doc, null); }", {f"{name}-1": 1, f"{name}-2": 2})
    answer = Views(node, "things").fresh(name, "v")
    assert "Transfer-Encoding" not in answer.headers
    assert int(answer.headers["Content-Length"]) == len(answer.text)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.text == (
        '{"total_rows":2,"rows":[\r\n'
        f'{{"id":"{name}-1","key":1,"value":null}},\r\n'
        f'{{"id":"{name}-2","key":2,"value":null}}\r\n'
        "]\r\n}\n"
    )


def test_empty_answer_has_the_same_form(views):
    answer = views.fresh("things", "map", key="unknown")
    assert answer.text == '{"total_rows":30,"rows":[\r\n]\r\n}\n'
    assert views.fresh("things", "count", key="unknown").text == '{"rows":[\r\n]\r\n}\n'


def test_total_rows_counts_the_whole_index_and_reductions_have_none(views):
    for parameters in ({}, {"limit": 1}, {"key": 3}, {"skip": 100}, {"startkey": 5}):
        answer = views.fresh("things", "map", **parameters)
        assert answer.content == BY_NUMBER.query(THINGS, **parameters)
        assert answer.json["total_rows"] == 30
    reduced = views.fresh("things", "count").json
    assert reduced == {"rows": [{"key": None, "value": 30}]}


def test_post_answers_the_keys_of_its_body_in_their_order(views):
    keys = [7, 1, "unknown", 7]
    answer = views.query("things", "map", body={"keys": keys}, stale=Raw("false"))
    assert answer.content == BY_NUMBER.query(THINGS, keys=keys)
    groups = views.query("things", "count", body={"keys": keys}, group=True)
    assert groups.content == COUNTED.query(THINGS, keys=keys, group=True)


def test_post_of_many_keys_is_longer_than_any_url(views):
    keys = [number % 12 for number in range(20_000)]
    answer = views.query("things", "map", body={"keys": keys})
    assert answer.content == BY_NUMBER.query(THINGS, keys=keys)


def test_post_of_far_more_keys_than_rows_answers_those_that_exist(views):
    answer = views.query("things", "map", body={"keys": [*range(1_000, 200_000), 3]})
    assert answer.content == BY_NUMBER.query(THINGS, keys=[3])


def test_url_that_is_too_long_is_refused_with_the_remedy(views):
    status, error, reason = views.query("things", "map", keys=[1] * 20_000).refusal
    assert (status, error) == (400, "bad_request")
    assert "body of a POST" in reason


@pytest.mark.parametrize("body", ["", "{}", " {} \n"])
def test_post_without_keys_is_like_a_get(views, body):
    answer = views.query("things", "map", body=body, limit=3)
    assert answer.content == BY_NUMBER.query(THINGS, limit=3)


@pytest.mark.parametrize("blank", [" ", "\n", "\r\n", "\t "])
def test_white_space_around_json_parameters_is_ignored(views, blank):
    for pairs, parameters in (
        ([("key", f"3{blank}")], {"key": 3}),
        ([("keys", f"{blank}[3, 4]{blank}")], {"keys": [3, 4]}),
        ([("startkey", f"{blank}3"), ("endkey", f"4{blank}")], {"startkey": 3, "endkey": 4}),
    ):
        answer = views.query_pairs("things", "map", pairs)
        assert answer.content == BY_NUMBER.query(THINGS, **parameters), pairs


def test_both_spellings_of_a_parameter_and_its_last_value_count(views):
    wanted = BY_NUMBER.query(THINGS, startkey=3, endkey=4)
    for pairs in (
        [("start_key", "3"), ("end_key", "4")],
        [("startkey", "1"), ("endkey", "9"), ("start_key", "3"), ("end_key", "4")],
        [("startkey", "3"), ("endkey", "4"), ("no_such_parameter", "{")],
    ):
        assert views.query_pairs("things", "map", pairs).content == wanted, pairs


def test_number_keys_are_compared_by_value(views):
    for text in ("3", "3.0", "30e-1"):
        answer = views.query_pairs("things", "map", [("key", text)])
        assert answer.content == BY_NUMBER.query(THINGS, key=3)


def test_path_may_have_the_buckets_uuid_and_the_slash_encoded(node, views):
    uuid = node.admin.get("/pools/default/buckets/things").json["uuid"]
    for path in (
        "/things/_design%2Fthings/_view/map",
        f"/things%2B{uuid}/_design/things/_view/map",
    ):
        assert views.rest.get(f"{path}?limit=1").json["total_rows"] == 30, path
    wrong = views.rest.get(f"/things%2B{'0' * len(uuid)}/_design/things/_view/map")
    assert (wrong.status, wrong.json["reason"]) == (404, "uuids_dont_match")


def test_include_docs_adds_each_rows_document(views):
    answer = views.fresh("things", "map", include_docs=True, startkey=8)
    assert [row["id"] for row in answer.rows] == [
        row["id"] for row in BY_NUMBER.query(THINGS, startkey=8)["rows"]
    ]
    for row in answer.rows:
        assert row["doc"]["json"] == THINGS[row["id"]]
        assert row["doc"]["meta"]["id"] == row["id"]


def test_debug_precedes_the_rows(views):
    answer = views.fresh("things", "map", debug=True, limit=2)
    assert answer.text.startswith('{"debug_info":')
    for row in answer.rows:
        assert row["partition"] == vbucket_of(row["id"].encode(), 64)


def test_head_and_options_of_a_query_harm_nothing(views):
    for method in ("HEAD", "OPTIONS", "DELETE"):
        views.rest.request(method, views.path("things", "map"))
    assert views.fresh("things", "map").content == BY_NUMBER.query(THINGS)


# What a map function is given


def test_meta_has_the_members_of_couchbases_views(node, name):
    expiry = int(time.time()) + 86_400
    key = name.encode()
    with node.connect("things") as connection:
        connection.set(key, b'{"a": 0}')
        reply = connection.set(key, b'{"a": 1}', flags=0x02000006, expiry=expiry)
    rows = rows_of(node, name, "function (doc, meta) { emit(doc.a, meta); }", {})
    assert len(rows) == 1 and rows[0]["key"] == 1
    meta = rows[0]["value"]
    assert meta["id"] == name
    assert meta["flags"] == 0x02000006
    assert meta["expiration"] == expiry
    assert meta["type"] == "json"
    assert meta["vb"] == str(vbucket_of(key, 64))
    assert meta["seq"] == str(reply.token[1])
    assert meta["cas"] == str(reply.cas)
    assert meta["xattrs"] == {}
    assert "att_reason" not in meta
    assert meta["rev"] == f"2-{reply.cas:016x}{expiry:08x}{0x02000006:08x}"


def test_documents_that_are_not_json_are_base64_strings(node, name):
    bodies = {f"{name}-1": bytes(range(256)), f"{name}-2": b"{not json", f"{name}-3": b""}
    source = "function (doc, meta) { emit([meta.type, meta.att_reason], [doc, decodeBase64(doc)]); }"
    rows = rows_of(node, name, source, bodies)
    kind = ["base64", "non-JSON mode"]
    assert {row["id"]: (row["key"], row["value"]) for row in rows} == {
        id: (kind, [base64.b64encode(body).decode(), list(body)]) for id, body in bodies.items()
    }


@pytest.mark.parametrize("value", [None, True, 7, -0.5, "text", [1, [2]], {"a": {"b": None}}])
def test_every_json_value_is_a_document_a_key_and_a_value(node, name, value):
    rows = rows_of(node, name, "function (doc, meta) { emit(doc, doc); }", {name: value})
    assert rows == [{"id": name, "key": value, "value": value}]


def test_unicode_survives_in_ids_keys_and_values(node, name):
    id = f"{name}-Zürich 東京 \U0001f37a \" \\"
    document = {"text": "é\u0301\u2028\U0001f37a\u0000\""}
    rows = rows_of(node, name, "function (doc, meta) { emit(doc.text, meta.id); }", {id: document})
    assert rows == [{"id": id, "key": document["text"], "value": id}]


def test_emitted_values_without_json_are_null(node, name):
    source = """function (doc, meta) {
        emit(1, undefined); emit(2, function () {}); emit(3, NaN); emit(4, Infinity); emit(5);
        emit();
    }"""
    rows = rows_of(node, name, source, {name: {}})
    assert [(row["key"], row["value"]) for row in rows] == [
        (None, None), (1, None), (2, None), (3, None), (4, None), (5, None)
    ]


def test_helpers_convert_dates_base64_and_sums(node, name):
    source = """function (doc, meta) {
        emit("date", dateToArray("2012-03-04T05:06:07.890Z"));
        emit("no date", dateToArray("tomorrow"));
        emit("bytes", decodeBase64("AQL/"));
        emit("sum", sum([1, 2, 3.5]));
        log("a line of the log");
    }"""
    rows = rows_of(node, name, source, {name: {}})
    assert {row["key"]: row["value"] for row in rows} == {
        "date": [2012, 3, 4, 5, 6, 7], "no date": None, "bytes": [1, 2, 255], "sum": 6.5
    }


def test_globals_of_one_document_are_gone_for_another_function(node, name):
    leak = "function (doc, meta) { leaked = 1; for (each in doc) emit(each, null); }"
    look = "function (doc, meta) { emit(typeof leaked, typeof each); }"
    assert len(rows_of(node, name, leak, {name: {"a": 1, "b": 2}})) == 2
    rows = rows_of(node, name, look, {})
    assert [(row["key"], row["value"]) for row in rows] == [("undefined", "undefined")]


def test_equal_keys_of_one_document_stay_in_the_emitted_order(node, name):
    source = "function (doc) { for (var i = 0; i < 300; i++) emit('same', i); }"
    rows = rows_of(node, name, source, {f"{name}-1": {}, f"{name}-2": {}})
    assert [(row["id"], row["value"]) for row in rows] == [
        (f"{name}-{number}", value) for number in (1, 2) for value in range(300)
    ]


def test_large_values_are_whole(node, name):
    source = "function (doc) { emit(doc.n, new Array(doc.n + 1).join('x')); }"
    sizes = [1, 1_000, 1_023, 1_024, 1_025, 70_000, 1_000_000]
    rows = rows_of(node, name, source, {f"{name}-{size}": {"n": size} for size in sizes})
    assert [(row["key"], row["value"]) for row in rows] == [(size, "x" * size) for size in sizes]


# Documents that change


def test_changed_and_deleted_documents_leave_the_index(node, name):
    source = "function (doc, meta) { emit(doc.n, null); }"
    documents = {f"{name}-{number}": {"n": number} for number in range(10)}
    assert len(rows_of(node, name, source, documents)) == 10
    views = Views(node, "things")
    remove(node, "things", f"{name}-3")
    store(node, "things", {f"{name}-4": {"n": 40}, f"{name}-5": b"not json", f"{name}-6": {"n": 6}})
    assert [(row["key"], row["id"]) for row in views.fresh(name, "v").rows] == [
        (None, f"{name}-5"),
        *[(number, f"{name}-{number}") for number in (0, 1, 2, 6, 7, 8, 9)],
        (40, f"{name}-4"),
    ]
    store(node, "things", {f"{name}-3": {"n": 3}})
    assert [3, 40] == [
        row["key"] for row in views.fresh(name, "v", keys=[3, 4, 5, 40]).rows
    ]


def test_expired_document_leaves_the_index(node, name):
    assert rows_of(node, name, "function (doc) { emit(doc.n, null); }", {name: {"n": 1}})
    with node.connect("things") as connection:
        connection.set(name.encode(), b'{"n": 1}', expiry=1)
        wait_until(
            lambda: connection.get(name.encode()).status == Status.NOT_FOUND, 10, "it expires"
        )
    assert Views(node, "things").fresh(name, "v").rows == []


def test_update_after_sees_a_change_without_any_other_query(node, views, name):
    assert rows_of(node, name, "function (doc) { emit(doc.n, null); }", {name: {"n": 1}})
    store(node, "things", {name: {"n": 2}})
    wait_until(
        lambda: [row["key"] for row in views.query(name, "v").rows] == [2], 10, "the new row"
    )


# Reductions


def deep(number):
    return {"path": [number % 2, "ab"[number % 2], number % 5, number % 7], "n": number - 40}


CUSTOM = """function (keys, values, rereduce) {
    if (rereduce) {
        return {
            keys: values.reduce(function (all, each) { return all + each.keys; }, 0),
            last: values.reduce(function (all, each) { return Math.max(all, each.last); }, -1e9)
        };
    }
    return {keys: keys.length, last: Math.max.apply(null, values)};
}"""


@pytest.fixture(scope="module")
def reductions(node):
    """Views of one map with each reduce function, and the documents."""
    node.create_bucket("deep", numVBuckets=64)
    documents = {f"deep-{number:04}": deep(number) for number in range(600)}
    store(node, "deep", documents)
    source = "function (doc, meta) { emit(doc.path, doc.n); }"

    def emitted(document, id):
        return [(document["path"], document["n"])]

    def custom(keys, values):
        return {"keys": len(keys), "last": max(values)}

    kinds = {"count": "_count", "sum": "_sum", "stats": "_stats", "custom": (CUSTOM, custom)}
    made = {name: View(source, emitted, reduce) for name, reduce in kinds.items()}
    views = Views(node, "deep")
    assert views.put("deep", made).status == 201
    return views, made, documents


@pytest.mark.parametrize("view", ["count", "sum", "stats", "custom"])
def test_every_group_level_of_each_reduction_equals_the_evaluation(node, reductions, view):
    views, made, documents = reductions
    for turn in range(2):
        for parameters in [{}, {"group": True}, *({"group_level": level} for level in range(6))]:
            for bounds in (
                {},
                {"startkey": [0, "a", 2], "endkey": [1, "b", 3]},
                {"startkey": [1, "b", 3], "endkey": [0, "a", 2], "descending": True},
                {"startkey": [1], "skip": 1, "limit": 3},
            ):
                query = {**parameters, **bounds}
                answer = views.fresh("deep", view, **query)
                assert answer.content == made[view].query(documents, **query), (turn, query)
        number = 1000 + len(documents)
        documents[f"deep-{number}"] = deep(number)
        gone = sorted(documents)[len(documents) // 2]
        del documents[gone]
        remove(node, "deep", gone)
        store(node, "deep", {f"deep-{number}": documents[f"deep-{number}"]})


def test_value_that_is_no_number_fails_only_ranges_that_have_it(node, name):
    documents = {f"{name}-{number}": {"n": number} for number in range(10)}
    documents[f"{name}-5"] = {"n": "five"}
    source = "function (doc, meta) { emit(meta.id, doc.n); }"
    store(node, "things", documents)
    guard = f"function (doc, meta) {{ if (meta.id.indexOf('{name}') == 0) ({source})(doc, meta); }}"
    views = Views(node, "things")
    views.put(name, {"v": {"map": guard, "reduce": "_sum"}})
    answer = views.fresh(name, "v")
    assert "Builtin _sum function requires map values to be numbers" in answer.text
    assert views.fresh(name, "v", endkey=f"{name}-4").rows == [{"key": None, "value": 10}]
    assert len(views.fresh(name, "v", reduce=False).rows) == 10


def test_failing_reduce_is_named_and_rows_stay(node, name):
    store(node, "things", {f"{name}-1": {"n": 1}})
    views = Views(node, "things")
    source = f"function (doc, meta) {{ if (meta.id.indexOf('{name}') == 0) emit(doc.n, 1); }}"
    views.put(name, {"v": {"map": source, "reduce": "function () { throw new Error('my text'); }"}})
    answer = views.fresh(name, "v")
    assert "my text" in answer.text
    assert [row["key"] for row in views.fresh(name, "v", reduce=False).rows] == [1]


# Pages


def test_pages_by_startkey_and_docid_have_each_row_once(node):
    """Many rows have equal keys, so that pages begin and end among them."""
    node.create_bucket("pages", numVBuckets=64)
    bodies = [(b"page-%06d" % n, b'{"n": %d}' % (n % 97)) for n in range(PAGED_ROWS)]
    with node.connect("pages") as connection:
        ingest(connection, bodies)
    views = Views(node, "pages")
    views.put("pages", {"v": "function (doc, meta) { emit(doc.n, null); }"})
    assert views.fresh("pages", "v", limit=0).json["total_rows"] == PAGED_ROWS
    size = 2_500
    found, bounds = [], {}
    while True:
        # One more row than a page has: the first one of the next page.
        rows = views.query("pages", "v", limit=size + 1, stale="ok", **bounds).rows
        found += rows[:size]
        if len(rows) <= size:
            break
        bounds = {"startkey": rows[size]["key"], "startkey_docid": rows[size]["id"]}
    wanted = sorted((n % 97, f"page-{n:06}") for n in range(PAGED_ROWS))
    assert [(row["key"], row["id"]) for row in found] == wanted
    whole = views.query("pages", "v", stale="ok").rows
    assert whole == found


# Buckets without a password


def test_bucket_without_a_password_answers_without_a_login(node):
    node.create_bucket("open", passwordless=1, numVBuckets=64)
    store(node, "open", {"one": {"n": 1}})
    source = "function (doc, meta) { emit(doc.n, null); }"
    assert Views(node, "open").put("d", {"v": source}).status == 201
    # Without a login a password is asked for; the bucket's own login has no right elsewhere.
    for login, elsewhere in (None, 401), (("open", ""), 403):
        assert [row["id"] for row in Views(node, "open", login).fresh("d", "v").rows] == ["one"]
        refused = Views(node, "things", login).query("things", "map")
        word = {401: "unauthorized", 403: "forbidden"}[elsewhere]
        assert refused.status == elsewhere and refused.json["error"] == word


# The admin port


def test_admin_port_lists_design_documents_with_their_controllers(node, views):
    reply = node.admin.get("/pools/default/buckets/things/ddocs")
    rows = {row["doc"]["meta"]["id"]: row for row in reply.json["rows"]}
    row = rows["_design/things"]
    assert row["doc"]["json"]["views"]["map"]["map"] == BY_NUMBER.source
    assert row["controllers"].keys() == {"compact", "setUpdateMinChanges"}
    cancel = row["controllers"]["compact"].replace("compactView", "cancelViewCompaction")
    assert node.admin.post(row["controllers"]["compact"]).status == 200
    assert node.admin.post(cancel).status == 200
    unknown = row["controllers"]["compact"].replace("things/controller", "unknown/controller")
    assert node.admin.post(unknown).status == 404


def test_view_port_is_announced_to_clients(node):
    port = Views(node, "things").rest.port
    extended = node.admin.get("/pools/default/nodeServices").json["nodesExt"]
    assert [each["services"]["capi"] for each in extended] == [port]
    assert Rest(port, None).get("/").json["couchdb"] == "Welcome"
