"""Views through the unmodified Python SDK: design documents, and queries with every option.

Each answer is compared with a plain evaluation of the same documents (`view_oracle.py`).
"""

import json

import pytest
from couchbase.exceptions import (
    AmbiguousTimeoutException,
    CouchbaseException,
    DesignDocumentNotFoundException,
    InvalidArgumentException,
    UnAmbiguousTimeoutException,
)
from couchbase.management.views import DesignDocument, DesignDocumentNamespace
from couchbase.management.views import View as Definition
from couchbase.options import ViewOptions
from couchbase.views import ViewErrorMode, ViewOrdering, ViewScanConsistency

from rig import sdk
from rig.load import ingest
from rig.node import Node
from view_oracle import Chance, Refused, View

PRODUCTION = DesignDocumentNamespace.PRODUCTION
DEVELOPMENT = DesignDocumentNamespace.DEVELOPMENT
# This SDK accepts `scan_consistency` and sends nothing for it; `raw` reaches the query string.
FRESH = {"stale": "false"}
TIMEOUTS = (AmbiguousTimeoutException, UnAmbiguousTimeoutException)

COUNTRIES = ["CH", "DE", "FR", "IT"]
BEERS = {
    f"beer-{number:03}": {
        "country": COUNTRIES[number % 4],
        "year": 2000 + number % 7,
        "name": f"{'Aale' if number % 3 else 'bock'} {number % 11}",
        "litres": number % 13 / 2,
    }
    for number in range(120)
}


SPREAD = """
    function (keys, values, rereduce) {
        var low = Infinity, high = -Infinity, count = 0;
        values.forEach(function (value) {
            low = Math.min(low, rereduce ? value.low : value);
            high = Math.max(high, rereduce ? value.high : value);
            count += rereduce ? value.count : 1;
        });
        return {low: low, high: high, count: count};
    }
"""


def spread_of(keys, values):
    return {"low": min(values), "high": max(values), "count": len(values)}


def by_place(document, id):
    yield [document["country"], document["year"]], document["litres"]


def by_name(document, id):
    yield document["name"], None


BY_PLACE = "function (doc, meta) { if (doc.year) emit([doc.country, doc.year], doc.litres); }"
VIEWS = {
    "by_name": View("function (doc, meta) { if (doc.name) emit(doc.name, null); }", by_name),
    "count": View(BY_PLACE, by_place, "_count"),
    "sum": View(BY_PLACE, by_place, "_sum"),
    "stats": View(BY_PLACE, by_place, "_stats"),
    "spread": View(BY_PLACE, by_place, (SPREAD, spread_of)),
}
REDUCED = ["count", "sum", "stats", "spread"]


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        node.start().provision()
        node.create_bucket("beers", numVBuckets=64)
        yield node


@pytest.fixture(scope="module")
def beers(node):
    """The bucket as the SDK has it, with its documents and the design document `beers`."""
    with node.connect("beers") as connection:
        ingest(connection, [(id.encode(), json.dumps(each).encode()) for id, each in BEERS.items()])
    cluster = sdk.connect(node)
    bucket = cluster.bucket("beers")
    for namespace in (PRODUCTION, DEVELOPMENT):
        bucket.view_indexes().upsert_design_document(design("beers", VIEWS), namespace)
    yield bucket
    cluster.close()


def design(name, views):
    """A design document of the SDK."""
    definitions = {
        name: Definition(view.source, view.json.get("reduce")) for name, view in views.items()
    }
    return DesignDocument(name, definitions)


def ask(bucket, view, name="beers", **options):
    """The rows of a query, as the server's JSON has them, and `total_rows` of a map."""
    options = {"namespace": PRODUCTION, "raw": FRESH, **options}
    result = bucket.view_query(name, view, ViewOptions(**options))
    rows = [row_of(row) for row in result.rows()]
    if all("id" not in row for row in rows):
        return {"rows": rows}
    return {"total_rows": result.metadata().total_rows(), "rows": rows}


def row_of(row):
    made = {"key": row.key, "value": row.value}
    return made if row.id is None else {"id": row.id, **made}


def rows_of(bucket, view, **options):
    return ask(bucket, view, **options)["rows"]


def expected(view, **parameters):
    return VIEWS[view].query(BEERS, **parameters)["rows"]


# Design documents


def test_upserted_design_document_is_read_back(beers):
    indexes = beers.view_indexes()
    indexes.upsert_design_document(design("written", {"v": VIEWS["count"]}), PRODUCTION)
    found = indexes.get_design_document("written", PRODUCTION)
    assert found.name == "written"
    assert {name: view.as_dict() for name, view in found.views.items()} == {
        "v": {"map": BY_PLACE, "reduce": "_count"}
    }


def test_both_namespaces_have_documents_of_their_own(beers):
    indexes = beers.view_indexes()
    indexes.upsert_design_document(design("two", {"live": VIEWS["by_name"]}), PRODUCTION)
    indexes.upsert_design_document(design("two", {"next": VIEWS["by_name"]}), DEVELOPMENT)
    assert list(indexes.get_design_document("two", PRODUCTION).views) == ["live"]
    assert list(indexes.get_design_document("two", DEVELOPMENT).views) == ["next"]
    for namespace, view in ((PRODUCTION, "live"), (DEVELOPMENT, "next")):
        names = {each.name: list(each.views) for each in indexes.get_all_design_documents(namespace)}
        assert names["two"] == [view]
        assert "beers" in names


def test_published_design_document_is_a_production_document_with_the_same_rows(beers):
    indexes = beers.view_indexes()
    indexes.upsert_design_document(design("draft", {"v": VIEWS["by_name"]}), DEVELOPMENT)
    with pytest.raises(DesignDocumentNotFoundException):
        indexes.get_design_document("draft", PRODUCTION)
    indexes.publish_design_document("draft")
    assert list(indexes.get_design_document("draft", PRODUCTION).views) == ["v"]
    assert rows_of(beers, "v", name="draft") == expected("by_name")
    # The draft stays.
    assert rows_of(beers, "v", name="draft", namespace=DEVELOPMENT) == expected("by_name")


def test_dropped_design_document_has_no_views_any_more(beers):
    indexes = beers.view_indexes()
    indexes.upsert_design_document(design("short", {"v": VIEWS["by_name"]}), PRODUCTION)
    assert rows_of(beers, "v", name="short") == expected("by_name")
    indexes.drop_design_document("short", PRODUCTION)
    with pytest.raises(DesignDocumentNotFoundException):
        indexes.get_design_document("short", PRODUCTION)
    with pytest.raises(DesignDocumentNotFoundException):
        indexes.drop_design_document("short", PRODUCTION)
    with pytest.raises(CouchbaseException):
        rows_of(beers, "v", name="short")


def test_design_document_with_a_syntax_error_is_refused_as_an_invalid_argument(beers):
    broken = DesignDocument("broken", {"v": Definition("function (doc) { emit(doc.a, ; }")})
    with pytest.raises(InvalidArgumentException):
        beers.view_indexes().upsert_design_document(broken, PRODUCTION)
    with pytest.raises(DesignDocumentNotFoundException):
        beers.view_indexes().get_design_document("broken", PRODUCTION)


def test_changed_view_has_the_rows_of_the_new_function(beers):
    first = View("function (doc) { emit(doc.year, 1); }", lambda each, id: [(each["year"], 1)])
    second = View("function (doc) { emit(doc.name, 2); }", lambda each, id: [(each["name"], 2)])
    for view in (first, second, first):
        beers.view_indexes().upsert_design_document(design("changing", {"v": view}), PRODUCTION)
        assert rows_of(beers, "v", name="changing") == view.query(BEERS)["rows"]


# Rows


def test_all_rows_are_in_the_order_of_their_keys_with_their_total_number(beers):
    assert ask(beers, "by_name") == VIEWS["by_name"].query(BEERS)
    assert ask(beers, "sum", reduce=False) == VIEWS["sum"].query(BEERS, reduce=False)


@pytest.mark.parametrize("limit", [0, 1, 7, 120, 1000])
def test_limit_ends_the_rows(beers, limit):
    assert rows_of(beers, "by_name", limit=limit) == expected("by_name", limit=limit)


@pytest.mark.parametrize("skip", [0, 1, 119, 120, 1000])
def test_skip_leaves_out_the_first_rows(beers, skip):
    assert rows_of(beers, "by_name", skip=skip) == expected("by_name", skip=skip)


def test_skip_and_limit_make_pages(beers):
    pages = [rows_of(beers, "by_name", skip=skip, limit=50) for skip in (0, 50, 100)]
    assert [len(page) for page in pages] == [50, 50, 20]
    assert sum(pages, []) == expected("by_name")


@pytest.mark.parametrize(
    "bounds",
    [
        {"startkey": "Aale 5"},
        {"endkey": "Aale 5"},
        {"startkey": "Aale 3", "endkey": "bock 1"},
        {"startkey": "Aale 3", "endkey": "bock 1", "inclusive_end": False},
        {"startkey": "Aale 3", "endkey": "bock 1", "inclusive_end": True},
        {"startkey": "aale 3"},
        {"startkey": None, "endkey": {}},
        {"startkey": [], "endkey": {}},
        {"key": "bock 9"},
        {"key": "unknown"},
    ],
    ids=json.dumps,
)
def test_bounds_select_the_rows_of_their_range(beers, bounds):
    # An option of None is an absent one to the SDK.
    bounds = {name: value for name, value in bounds.items() if value is not None}
    assert rows_of(beers, "by_name", **bounds) == expected("by_name", **bounds)


@pytest.mark.parametrize("is_descending", [False, True])
@pytest.mark.parametrize("ids", [(None, None), (40, None), (None, 70), (40, 70), (7, 7)])
@pytest.mark.parametrize("is_inclusive", [False, True])
def test_document_ids_refine_the_bounds(beers, ids, is_descending, is_inclusive):
    first, last = ("bock 9", "Aale 1") if is_descending else ("Aale 1", "bock 9")
    options = {"startkey": first, "endkey": last, "inclusive_end": is_inclusive}
    for name, number in zip(("startkey_docid", "endkey_docid"), ids):
        if number is not None:
            options[name] = f"beer-{number:03}"
    parameters = {**options, "descending": is_descending}
    order = ViewOrdering.DESCENDING if is_descending else ViewOrdering.ASCENDING
    assert rows_of(beers, "by_name", order=order, **options) == expected("by_name", **parameters)


def test_order_reverses_the_rows(beers):
    ascending = rows_of(beers, "by_name", order=ViewOrdering.ASCENDING)
    descending = rows_of(beers, "by_name", order=ViewOrdering.DESCENDING)
    assert ascending == expected("by_name")
    assert descending == expected("by_name", descending=True) == ascending[::-1]


def test_keys_are_answered_in_their_order_and_as_often_as_they_are_there(beers):
    for keys in (["bock 9"], ["bock 9", "unknown", "Aale 2", "bock 9"]):
        assert rows_of(beers, "by_name", keys=keys) == expected("by_name", keys=keys)


# Reductions


@pytest.mark.parametrize("view", REDUCED)
def test_reduction_of_all_rows_is_one_row(beers, view):
    assert rows_of(beers, view) == expected(view)
    assert len(expected(view)) == 1
    assert rows_of(beers, view, reduce=True) == expected(view)


@pytest.mark.parametrize("view", REDUCED)
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_group_level_reduces_keys_with_equal_first_elements(beers, view, level):
    assert rows_of(beers, view, group_level=level) == expected(view, group_level=level)


@pytest.mark.parametrize("view", REDUCED)
def test_group_reduces_equal_keys(beers, view):
    assert rows_of(beers, view, group=True) == expected(view, group=True)
    assert rows_of(beers, view, group=False) == expected(view)
    options = {"group": True, "skip": 3, "limit": 5}
    assert rows_of(beers, view, **options) == expected(view, **options)


@pytest.mark.parametrize("view", REDUCED)
def test_groups_of_a_range_are_those_of_its_rows(beers, view):
    options = {"startkey": ["CH", 2003], "endkey": ["FR", 2001], "group_level": 1}
    assert rows_of(beers, view, **options) == expected(view, **options)
    options["inclusive_end"] = False
    assert rows_of(beers, view, **options) == expected(view, **options)
    options |= {"startkey": options["endkey"], "endkey": options["startkey"]}
    backwards = rows_of(beers, view, order=ViewOrdering.DESCENDING, **options)
    assert backwards == expected(view, descending=True, **options)


@pytest.mark.parametrize("view", REDUCED)
def test_keys_with_groups_are_one_group_each(beers, view):
    options = {"keys": [["IT", 2004], ["CH", 2000], ["ZZ", 1]], "group": True}
    assert rows_of(beers, view, **options) == expected(view, **options)


def test_reduction_of_an_empty_range_has_no_rows(beers):
    assert rows_of(beers, "count", startkey=["ZZ"]) == []


def test_reduce_false_answers_the_rows_of_the_map(beers):
    options = {"reduce": False, "startkey": ["DE"], "endkey": ["DE", {}]}
    assert rows_of(beers, "stats", **options) == expected("stats", **options)


# Freshness, namespaces, errors


def test_request_plus_has_each_write_that_was_acknowledged_before(beers):
    collection = beers.default_collection()
    view = View("function (doc) { if (doc.turn) emit(doc.turn, null); }", None)
    beers.view_indexes().upsert_design_document(design("turns", {"v": view}), PRODUCTION)
    for turn in range(1, 31):
        collection.upsert("turn", {"turn": turn})
        rows = rows_of(beers, "v", name="turns")
        assert rows == [{"id": "turn", "key": turn, "value": None}], turn
    collection.remove("turn")
    assert rows_of(beers, "v", name="turns") == []


@pytest.mark.parametrize(
    "consistency", [ViewScanConsistency.NOT_BOUNDED, ViewScanConsistency.UPDATE_AFTER]
)
def test_other_consistencies_answer_from_the_index_at_once(beers, consistency):
    assert rows_of(beers, "by_name") == expected("by_name")
    assert rows_of(beers, "by_name", scan_consistency=consistency) == expected("by_name")


def test_development_views_answer_with_all_documents(beers):
    for options in ({}, {"full_set": True}, {"full_set": False}):
        rows = rows_of(beers, "by_name", namespace=DEVELOPMENT, **options)
        assert rows == expected("by_name"), options


@pytest.mark.parametrize("mode", [ViewErrorMode.CONTINUE, ViewErrorMode.STOP])
def test_on_error_changes_nothing_without_errors(beers, mode):
    assert rows_of(beers, "by_name", on_error=mode) == expected("by_name")


def test_raw_options_reach_the_server(beers):
    assert rows_of(beers, "by_name", raw={"limit": "3"}) == expected("by_name", limit=3)


def test_unknown_view_and_unknown_design_document_are_errors(beers):
    for name, view in (("beers", "unknown"), ("unknown", "by_name")):
        with pytest.raises(CouchbaseException) as error:
            rows_of(beers, view, name=name)
        assert not isinstance(error.value, TIMEOUTS)


@pytest.mark.parametrize(
    "options",
    [
        {"group": True, "group_level": 1},
        {"keys": [["CH", 2000]]},
        {"startkey": ["Z"], "endkey": ["A"]},
        {"keys": [["CH"]], "startkey": ["A"], "group": True},
    ],
    ids=json.dumps,
)
def test_contradicting_options_are_refused(beers, options):
    with pytest.raises(CouchbaseException) as error:
        rows_of(beers, "count", **options)
    assert not isinstance(error.value, TIMEOUTS)


# Everything together


def test_random_queries_of_random_documents_equal_the_evaluation(node):
    """Options of the SDK alone; `test_cluster_views.py` has the rest."""
    chance = Chance(20261125)
    documents = {f"doc-{number}": chance.document() for number in range(150)}
    node.create_bucket("random", numVBuckets=64)
    with node.connect("random") as connection:
        ingest(connection, [(i.encode(), json.dumps(d).encode()) for i, d in documents.items()])

    def emitted(document, id):
        return ((key, document["n"]) for key in document["keys"])

    source = "function (doc) { doc.keys.forEach(function (key) { emit(key, doc.n); }); }"
    views = {
        name: View(source, emitted, reduce)
        for name, reduce in (("map", None), ("sum", "_sum"), ("spread", (SPREAD, spread_of)))
    }
    cluster = sdk.connect(node)
    try:
        bucket = cluster.bucket("random")
        bucket.view_indexes().upsert_design_document(design("random", views), PRODUCTION)
        for name, view in views.items():
            rows = view.rows(documents)
            for _ in range(60):
                query = chance.query(rows, view.reduce is not None)
                options = {key: value for key, value in query.items() if key != "descending"}
                # The SDK leaves out options that are null, and keys that are none.
                if any(value is None or value == [] for value in options.values()):
                    continue
                # It sends the members of objects in `keys` in alphabetical order.
                if "{" in json.dumps(options.get("keys")):
                    continue
                if query.get("descending"):
                    options["order"] = ViewOrdering.DESCENDING
                try:
                    wanted = view.query(documents, **query)["rows"]
                except Refused:
                    with pytest.raises(CouchbaseException):
                        rows_of(bucket, name, name="random", **options)
                    continue
                assert rows_of(bucket, name, name="random", **options) == wanted, (name, query)
    finally:
        cluster.close()
