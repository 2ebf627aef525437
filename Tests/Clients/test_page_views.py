"""The console's view screen in a browser: write, try, save, query, publish."""

import json

import pytest

from rig.browser import Browser
from rig.node import PASSWORD, USER, Node, wait_until

MAP = "function (doc, meta) {\n  if (doc.kind) emit(doc.kind, doc.n);\n}"


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        node.start().provision()
        node.create_bucket("demo")
        for number in range(4):
            body = json.dumps({"kind": "ab"[number % 2], "n": number})
            path = f"/pools/default/buckets/demo/docs/doc-{number}"
            assert node.admin.post(path, {"value": body}).status == 200
        yield node


@pytest.fixture
def page(node):
    browser = Browser()
    browser.address = f"http://127.0.0.1:{node.admin_port}/"
    try:
        browser.open(browser.address)
        browser.fill("user", USER)
        browser.fill("password", PASSWORD)
        browser.click("log in")
        browser.wait_for_text("data buckets")
        yield browser
    finally:
        browser.close()


def set_text(page, element, text):
    page.evaluate(f"document.getElementById({json.dumps(element)}).value = {json.dumps(text)}")


def press(page, element):
    page.evaluate(f"document.getElementById({json.dumps(element)}).click()")


def rows_of(page, table):
    return page.evaluate(
        f"[...document.querySelectorAll('#{table} tr')].map("
        "row => [...row.cells].map(cell => cell.innerText))"
    )


def test_view_is_written_tried_queried_and_published(page, node):
    page.click("views")
    page.wait_for_text("there are no views yet")
    page.click("create view")
    set_text(page, "view-design", "kinds")
    set_text(page, "view-name", "by_kind")
    press(page, "view-create")
    page.wait_for_text("dev_kinds / by_kind")

    # A function is tried before it is saved, and an error names its line.
    page.wait_for_text("try on a document")
    set_text(page, "trial-id", "doc-3")
    set_text(page, "view-map", "function (doc, meta) {\n  emit(doc.none.here, 1);\n}")
    press(page, "trial-run")
    page.wait_for_text("line 2:")
    set_text(page, "view-map", MAP)
    press(page, "trial-run")
    page.wait("document.querySelector('#trial-rows tr') != null", "the row of the trial")
    assert rows_of(page, "trial-rows") == [['"b"', "3", "doc-3"]]
    saved = node.admin.get("/pools/default/buckets/demo/ddocs").json["rows"][0]["doc"]["json"]
    assert saved["views"]["by_kind"]["map"] != MAP

    # A syntax error is refused where it was written.
    set_text(page, "view-map", "function (doc, meta) {\n  emit(;\n}")
    press(page, "view-save")
    page.wait_for_text("by_kind")
    page.wait_for_text("line 2")

    # Save and query.
    set_text(page, "view-map", MAP)
    set_text(page, "view-reduce", "_sum")
    press(page, "view-save")
    path = "/pools/default/buckets/demo/ddocs"

    def is_saved():
        (row,) = node.admin.get(path).json["rows"]
        return row["doc"]["json"]["views"]["by_kind"] == {"map": MAP, "reduce": "_sum"}

    wait_until(is_saved, 10, "the view is saved")
    # The list and the forms are shown again after the save.
    page.wait("document.getElementById('view-table').innerText.includes('_sum')", "the new list")
    set_text(page, "query-group_level", "1")
    press(page, "query-run")
    page.wait("document.querySelectorAll('#query-rows tr').length == 2", "two groups")
    assert rows_of(page, "query-rows") == [['"a"', "2", ""], ['"b"', "4", ""]]
    set_text(page, "query-group_level", "x")
    press(page, "query-run")
    page.wait("!document.getElementById('query-errors').hidden", "the refusal of the query")

    # Publish.
    press(page, "view-publish")

    def names():
        return [row["doc"]["meta"]["id"] for row in node.admin.get(path).json["rows"]]

    wait_until(
        lambda: names() == ["_design/dev_kinds", "_design/kinds"], 10, "the view is published"
    )
    page.wait_for_text("production")
    press(page, "view-delete")
    wait_until(lambda: names() == ["_design/kinds"], 10, "the development view is deleted")
    assert page.console == [], "the page threw"


def test_errors_of_a_saved_function_are_shown_under_the_editor(page, node):
    path = "/couchBase/demo/_design/dev_broken"
    body = {"views": {"v": {"map": "function (doc, meta) {\n  emit(doc.none.here, 1);\n}"}}}
    reply = node.admin.request(
        "PUT", path, json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert reply.status == 201, reply.text
    page.evaluate("location.hash = '#/views/demo/dev_broken/v'")
    page.wait("document.getElementById('failures')?.hidden === false", "the errors are shown")
    page.wait("document.querySelectorAll('#failure-rows tr').length == 4", "every document")
    rows = rows_of(page, "failure-rows")
    assert {row[0] for row in rows} == {f"doc-{number}" for number in range(4)}
    assert all(line == "2" and text for _, line, text in rows)
    assert "4 calls failed: 4 threw" in page.evaluate(
        "document.getElementById('failure-summary').innerText"
    )

    # A function without errors has no such list.
    body["views"]["v"]["map"] = MAP
    reply = node.admin.request(
        "PUT", path, json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert reply.status == 201, reply.text
    page.wait("document.getElementById('failures').hidden", "the errors are gone")
    assert page.console == [], "the page threw"
