"""Edits on the page of what another client changed meanwhile, and texts that are not saved yet."""

import json

import pytest

from rig import privileges
from rig.browser import Browser
from rig.node import PASSWORD, Node, wait_until

DOCS = "/pools/default/buckets/demo/docs"
MAP = "function (doc, meta) {\n  emit(meta.id, %d);\n}"


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        node.start().provision()
        node.create_bucket("demo")
        yield node


@pytest.fixture
def page(node):
    browser = Browser()
    try:
        browser.open(f"http://127.0.0.1:{node.admin_port}/")
        browser.log_in()
        browser.wait_for_text("data buckets")
        yield browser
        assert browser.console == [], "the page threw"
    finally:
        browser.close()


def store(node, key, value):
    assert node.admin.post(f"{DOCS}/{key}", {"value": value}).status == 200


def stored(node, key):
    reply = node.admin.get(f"{DOCS}/{key}")
    return reply.json["json"] if reply.status == 200 else None


def press(page, element):
    page.wait(f"(() => {{ const e = document.getElementById('{element}');"
              f" if (!e?.getClientRects().length || e.disabled) return false; e.click(); return true; }})()", element)


def is_shown(page, element):
    page.wait(f"document.getElementById({element!r})?.getClientRects().length > 0", f"{element} is shown")


def value(page, element):
    return page.evaluate(f"document.getElementById({element!r}).value")


def open_document(page, key):
    page.evaluate("location.hash = '#/documents/demo'")
    page.wait_for_text(key)
    page.click("edit", within=key)
    is_shown(page, "document-content")


def no_dialog(page):
    page.wait("!document.querySelector('dialog[open]')", "the dialog closes")


def test_document_that_changed_while_it_was_edited_is_saved_only_after_a_choice(page, node):
    store(node, "shared", '{"by":"first"}')
    open_document(page, "shared")
    store(node, "shared", '{"by":"sdk"}')
    page.fill("json content", '{"by":"page"}')
    press(page, "document-save")
    is_shown(page, "document-conflict")
    page.wait_for_text("nothing has been saved")
    both = page.evaluate("document.getElementById('document-conflict').innerText")
    assert '"page"' in both and '"sdk"' in both
    assert stored(node, "shared") == '{"by":"sdk"}'

    # A second change meanwhile is not overwritten by the choice either.
    store(node, "shared", '{"by":"sdk again"}')
    press(page, "document-conflict-keep")
    page.wait_for_text("sdk again")
    assert stored(node, "shared") == '{"by":"sdk again"}'
    press(page, "document-conflict-keep")
    no_dialog(page)
    assert stored(node, "shared") == '{"by":"page"}'

    # The other choice: the present version, edited further.
    open_document(page, "shared")
    store(node, "shared", '{"by":"sdk"}')
    page.fill("json content", '{"by":"page again"}')
    press(page, "document-save")
    press(page, "document-conflict-use")
    assert json.loads(value(page, "document-content")) == {"by": "sdk"}
    page.fill("json content", '{"by":"both"}')
    press(page, "document-save")
    no_dialog(page)
    assert stored(node, "shared") == '{"by":"both"}'


def test_document_that_was_deleted_or_created_meanwhile_is_not_overwritten(page, node):
    store(node, "gone", '{"n":1}')
    open_document(page, "gone")
    assert node.admin.delete(f"{DOCS}/gone").status == 200
    page.fill("json content", '{"n":2}')
    press(page, "document-save")
    page.wait_for_text("saving creates it again")
    assert stored(node, "gone") is None
    press(page, "document-conflict-keep")
    no_dialog(page)
    assert stored(node, "gone") == '{"n":2}'

    press(page, "document-create-button")
    page.fill("document id", "new")
    page.fill("json content", '{"by":"page"}')
    store(node, "new", '{"by":"sdk"}')
    press(page, "document-save")
    page.wait_for_text("there is a document with this id already")
    assert page.evaluate("document.activeElement.id") == "document-id"
    assert stored(node, "new") == '{"by":"sdk"}'


def test_deletion_of_a_document_that_changed_since_it_was_listed_asks_again(page, node):
    store(node, "listed", '{"n":1}')
    page.evaluate("location.hash = '#/documents/demo'")
    page.wait_for_text("listed")
    # The row that has the focus is not replaced, as if the change had just happened.
    page.evaluate("document.querySelector('tr[data-title=listed] button.danger').focus()")
    page.evaluate("window.asked = []; window.confirm = text => asked.push(text) === 1")
    store(node, "listed", '{"n":2}')
    page.click("delete", within="listed")
    page.wait("window.asked.length === 2", "it asks again")
    assert "was changed meanwhile" in page.evaluate("asked[1]")
    assert stored(node, "listed") == '{"n":2}'
    page.evaluate("window.confirm = text => asked.push(text) > 0")
    page.click("delete", within="listed")
    wait_until(lambda: stored(node, "listed") is None, 10, "the document is deleted")


def test_bucket_that_changed_while_it_was_edited_is_saved_only_after_a_choice(page, node):
    path = "/pools/default/buckets/settings"
    node.create_bucket("settings", ramQuotaMB=100)
    page.click("data buckets")
    page.wait_for_text("settings")
    page.click("edit", within="settings")
    is_shown(page, "bucket-quota")
    page.fill("memory quota", "120")
    assert node.admin.post(path, {"ramQuotaMB": 110, "maxTTL": 60}).status == 200
    press(page, "bucket-submit")
    is_shown(page, "bucket-conflict")
    both = page.evaluate("document.getElementById('bucket-conflict').innerText")
    assert "120" in both and "110" in both and "60" in both
    assert node.admin.get(path).json["quota"]["rawRAM"] == 110 << 20
    press(page, "bucket-conflict-use")
    assert value(page, "bucket-quota") == "110"
    page.fill("memory quota", "130")
    press(page, "bucket-submit")
    no_dialog(page)
    bucket = node.admin.get(path).json
    assert (bucket["quota"]["rawRAM"], bucket["maxTTL"]) == (130 << 20, 60)
    node.admin.delete(path)


def test_user_that_changed_while_it_was_edited_is_saved_only_after_a_choice(page, node):
    path = "/settings/rbac/users/local/ann"
    assert privileges.put_user(node, "ann", "ro_admin").status == 200
    page.click("users")
    page.wait_for_text("ann")
    page.click("edit", within="ann")
    is_shown(page, "user-full-name")
    page.fill("full name", "Ann")
    assert node.admin.put(path, {"roles": "data_reader[demo]"}).status == 200
    press(page, "user-submit")
    is_shown(page, "user-conflict")
    both = page.evaluate("document.getElementById('user-conflict').innerText")
    assert "ro_admin" in both and "data_reader[demo]" in both
    assert node.admin.get(path).json["name"] == ""
    press(page, "user-conflict-use")
    page.fill("full name", "Ann B")
    press(page, "user-submit")
    no_dialog(page)
    user = node.admin.get(path).json
    assert user["name"] == "Ann B" and user["roles"][0]["role"] == "data_reader"

    # A new user does not replace one of the same name.
    press(page, "user-create-button")
    page.fill("user name", "ann")
    page.fill("user-password", "secret-1")
    page.fill("user-password-again", "secret-1")
    press(page, "user-submit")
    page.wait_for_text("there is a user of this name already")
    assert page.evaluate("document.activeElement.id") == "user-id"
    assert node.admin.get(path).json["name"] == "Ann B"
    node.admin.delete(path)


def put_views(node, design, **views):
    body = json.dumps({"views": {name: {"map": text} for name, text in views.items()}})
    reply = node.admin.request("PUT", f"/couchBase/demo/_design/{design}", body,
                               headers={"Content-Type": "application/json"})
    assert reply.status == 201, reply.text


def views_of(node, design):
    reply = node.admin.get(f"/couchBase/demo/_design/{design}")
    return {name: view["map"] for name, view in reply.json["views"].items()}


def test_view_that_changed_while_it_was_edited_is_saved_only_after_a_choice(page, node):
    put_views(node, "dev_shared", one=MAP % 1, other=MAP % 1)
    page.evaluate("location.hash = '#/views/demo/dev_shared/one'")
    is_shown(page, "view-map")
    page.fill("view-map", MAP % 2)
    # A change of another view of the document is kept without a question.
    put_views(node, "dev_shared", one=MAP % 1, other=MAP % 3)
    press(page, "view-save")
    page.wait_for_text("one was saved")
    assert views_of(node, "dev_shared") == {"one": MAP % 2, "other": MAP % 3}

    page.fill("view-map", MAP % 4)
    put_views(node, "dev_shared", one=MAP % 5, other=MAP % 3)
    press(page, "view-save")
    is_shown(page, "view-conflict")
    both = page.evaluate("document.getElementById('view-conflict').innerText")
    assert "emit(meta.id, 4)" in both and "emit(meta.id, 5)" in both
    assert views_of(node, "dev_shared")["one"] == MAP % 5
    press(page, "view-conflict-keep")
    wait_until(lambda: views_of(node, "dev_shared")["one"] == MAP % 4, 10, "the choice is saved")
    assert views_of(node, "dev_shared")["other"] == MAP % 3


def test_text_of_a_view_that_is_not_saved_survives_a_change_of_screen_and_an_ended_login(page, node):
    put_views(node, "dev_draft", v=MAP % 1)
    page.evaluate("location.hash = '#/views/demo/dev_draft/v'")
    is_shown(page, "view-map")
    page.fill("view-map", MAP % 2)
    page.click("nodes")
    page.wait_for_text("automatic failover")
    page.evaluate("location.hash = '#/views/demo/dev_draft/v'")
    is_shown(page, "view-unsaved")
    assert value(page, "view-map") == MAP % 2

    page.call("Network.clearBrowserCookies")
    page.wait_for_text("your session is over")
    page.wait_for_text("kept for this user")
    page.log_in()
    is_shown(page, "view-unsaved")
    assert value(page, "view-map") == MAP % 2
    press(page, "view-discard")
    page.wait(f"document.getElementById('view-map').value === {json.dumps(MAP % 1)}", "the saved text")


def test_text_of_a_document_that_is_not_saved_survives_an_ended_login_but_not_another_user(page, node):
    store(node, "draft", '{"n":1}')
    assert privileges.put_user(node, "bob", "admin").status == 200
    open_document(page, "draft")
    page.fill("json content", '{"n":2}')
    page.call("Network.clearBrowserCookies")
    page.wait_for_text("kept for this user")
    page.log_in()
    is_shown(page, "document-content")
    assert value(page, "document-content") == '{"n":2}'
    press(page, "document-save")
    no_dialog(page)
    assert stored(node, "draft") == '{"n":2}'

    # The session ends with the request that saves.
    open_document(page, "draft")
    page.fill("json content", '{"n":3}')
    page.call("Network.clearBrowserCookies")
    press(page, "document-save")
    page.wait_for_text("kept for this user")
    page.log_in("bob", privileges.PASSWORD)
    page.wait_for_text("change password")
    assert page.evaluate("document.querySelector('dialog')") is None
    assert stored(node, "draft") == '{"n":2}'
    node.admin.delete("/settings/rbac/users/local/bob")


def test_text_of_a_document_that_is_not_saved_survives_a_change_of_screen_and_a_lost_connection(page, node):
    store(node, "lost", '{"n":1}')
    open_document(page, "lost")
    page.fill("json content", '{"n":2}')
    page.evaluate("history.back()")
    page.wait("!document.querySelector('main > #documents')", "another screen")
    assert value(page, "document-content") == '{"n":2}'
    page.evaluate("history.forward()")
    page.wait("document.querySelector('main > #documents')", "the screen of the documents")
    page.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1,
              uploadThroughput=-1)
    press(page, "document-save")
    page.wait_for_text("the server cannot be reached")
    assert value(page, "document-content") == '{"n":2}'
    page.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1,
              uploadThroughput=-1)
    press(page, "document-save")
    no_dialog(page)
    assert stored(node, "lost") == '{"n":2}'
