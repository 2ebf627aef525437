"""A walk through every screen of the page in ten states of a cluster, at two widths, in two colour schemes
and at a zoom of 200 %: axe finds nothing, nothing is beside the window, and nothing is thrown.

Each screen is seen in each state, and each appearance (`MODES`) on each screen and in each state, but not
all of them together. With `DIVAN_WALK=all` every combination is seen, and a picture of it is kept in
`.build/screenshots/walk`.
"""

import contextlib
import itertools
import json
import os
import shutil
import threading

import pytest

from cluster import Cluster
from rig import axe, privileges
from rig.browser import Browser
from rig.node import PASSWORD, ROOT, USER, Node, wait_until

ALL = os.environ.get("DIVAN_WALK") == "all"
PICTURES = ROOT / ".build/screenshots/walk"
SCREENS = ("overview", "nodes", "buckets", "documents", "views", "users", "log")
# Width and height in CSS pixels, pixels of the screen for each, colour scheme.
MODES = {
    "wide-light": (1440, 900, 1, "light"),
    "narrow-dark": (390, 844, 1, "dark"),
    "zoom": (720, 450, 2, "light"),
    "wide-dark": (1440, 900, 1, "dark"),
    "narrow-light": (390, 844, 1, "light"),
}
TURNS = itertools.count()


@pytest.fixture(scope="module")
def cluster():
    shutil.rmtree(PICTURES, ignore_errors=True)
    with Cluster(3) as cluster:
        for number in (1, 2):
            cluster.add(number)
        cluster.rebalance()
        form = {"enabled": "false", "timeout": 120}
        assert cluster[0].admin.post("/settings/autoFailover", form).status == 200
        yield cluster


@contextlib.contextmanager
def opened(node, user=USER, password=PASSWORD):
    """A browser on the page of a node, logged in unless `user` is None."""
    browser = Browser()
    try:
        browser.open(f"http://127.0.0.1:{node.admin_port}/")
        if user is not None:
            browser.fill("user", user)
            browser.fill("password", password)
            browser.click("log in")
            browser.wait("!document.getElementById('top').hidden", "the sections")
        yield browser
        assert browser.console == [], "the page threw"
    finally:
        browser.close()


def look(page, name, what):
    """Checks the page as it is shown, in the next appearance or in all."""
    turn = next(TURNS)
    modes = list(MODES.items())
    for mode, (width, height, scale, scheme) in modes if ALL else [modes[turn % len(modes)]]:
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=False)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme},
                                                          {"name": "prefers-reduced-motion", "value": "reduce"}])
        if ALL:
            PICTURES.mkdir(parents=True, exist_ok=True)
            page.screenshot(PICTURES / f"{name}-{what}-{mode}.png")
        found = axe.violations(page)
        assert found == {}, f"{name}, {what}, {mode}: {json.dumps(found, indent=2)}"
        beside = axe.sideways(page)
        assert beside == [], f"{name}, {what}, {mode}: {beside}"


def walk(page, name, screens=SCREENS):
    for screen in screens:
        page.evaluate(f"location.hash = '#/{screen}'")
        page.wait(f"document.querySelector('main > #{screen}')", f"the screen {screen}")
        # While a node is away, documents cannot be listed.
        shown = """document.querySelector('main tbody tr, main .empty:not([hidden]), #view-list .empty,'
            + '#documents > .error:not(:empty)')"""
        page.wait(shown, f"the content of {screen} in the state {name}", 30)
        look(page, name, screen)


def show_dialog(page, name, what, opener, element, press=None):
    """Opens a dialog, and presses a button of it, for its errors."""
    page.wait(f"(e => e && !e.hidden && (e.click(), true))(document.querySelector({json.dumps(opener)}))", opener)
    page.wait(f"document.getElementById({element!r})", f"the dialog with {element}")
    if press:
        page.evaluate(f"document.getElementById({press!r}).click()")
        page.wait("document.querySelector('dialog .error:not(:empty)')", "an error")
    look(page, name, what)
    page.evaluate("document.querySelector('dialog[open]').close()")
    page.wait("!document.querySelector('dialog')", "the dialog closes")


def go(page, place, element):
    page.evaluate(f"location.hash = '#/{place}'")
    page.wait(f"document.querySelector({json.dumps(element)})", element)


def store(node, key, value):
    assert node.admin.post(f"/pools/default/buckets/demo/docs/{key}", {"value": value}).status == 200


@contextlib.contextmanager
def load(node):
    """Writes to the bucket `demo` until the end of the block."""
    ended = threading.Event()

    def run():
        with node.connect("demo") as connection:
            for number in itertools.count():
                if ended.wait(0.002):
                    return
                connection.set(b"busy-%d" % (number % 500), b'{"n":%d}' % number)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)


def test_fresh_node():
    with Node() as node:
        node.start()
        with opened(node, None) as page:
            look(page, "fresh", "setup")


def test_empty_cluster(cluster):
    with opened(cluster[0], None) as page:
        look(page, "empty", "login")
    with opened(cluster[0]) as page:
        walk(page, "empty")


def test_loaded_and_busy(cluster):
    node = cluster[0]
    node.create_bucket("demo", replicaNumber=1, numVBuckets=64)
    node.create_bucket("memory", bucketType="ephemeral", passwordless="network")
    store(node, "a-document-with-a-long-id-" + "x" * 80, json.dumps({"text": "word " * 200, "price": 1.0}))
    views = {"v": {"map": "function (doc, meta) {\n  emit(doc.none.here, 1);\n}", "reduce": "_count"}}
    reply = node.admin.request("PUT", "/couchBase/demo/_design/dev_d", json.dumps({"views": views}),
                               headers={"Content-Type": "application/json"})
    assert reply.status == 201, reply.text
    assert privileges.put_user(node, "app", "data_reader[demo],data_writer[demo],ro_admin").status == 200
    with load(node), opened(node) as page:
        walk(page, "loaded")
        go(page, "views/demo/dev_d/v", "#query-form")
        page.wait("document.getElementById('failures').hidden === false", "the errors of the view", 30)
        page.evaluate("document.getElementById('query-run').click()")
        page.wait("document.getElementById('query-summary').textContent", "the rows")
        look(page, "loaded", "view")
        go(page, "documents/demo", "#document-table tr")
        show_dialog(page, "loaded", "document", "#document-table button", "document-content")
        go(page, "buckets", "#bucket-table tr")
        show_dialog(page, "loaded", "new-bucket", "#bucket-create-button", "bucket-form", "bucket-submit")
        show_dialog(page, "loaded", "delete-bucket", "tr[data-bucket=demo] button.danger", "bucket-removal-form")
        go(page, "nodes", "#nodes-table tr")
        show_dialog(page, "loaded", "fail-over", "[data-action=fail-over]", "failover-form")
        show_dialog(page, "loaded", "add-node", "#node-add", "node-form")
        go(page, "users", "#user-table tr")
        show_dialog(page, "loaded", "new-user", "#user-create-button", "user-form", "user-submit")


def test_user_who_only_reads(cluster):
    assert privileges.put_user(cluster[0], "reader", "ro_admin").status == 200
    with opened(cluster[0], "reader", privileges.PASSWORD) as page:
        walk(page, "reader")


def test_user_of_one_bucket(cluster):
    assert privileges.put_user(cluster[0], "owner", "bucket_admin[demo],views_admin[demo]").status == 200
    with opened(cluster[0], "owner", privileges.PASSWORD) as page:
        seen = [screen for screen in SCREENS
                if not page.evaluate(f"document.getElementById('nav-{screen}').hidden")]
        walk(page, "owner", seen)


def test_lost_update(cluster):
    node = cluster[0]
    store(node, "shared", '{"by":"first"}')
    with opened(node) as page:
        go(page, "documents/demo", "#document-table tr")
        page.fill("look up", "shared")
        page.evaluate("document.getElementById('document-search-button').click()")
        page.click("edit", within="shared")
        page.wait("document.getElementById('document-content')", "the editor")
        page.fill("json content", '{"by":"page"}')
        store(node, "shared", json.dumps({"by": "sdk", "text": "word " * 100}))
        page.evaluate("document.getElementById('document-save').click()")
        page.wait("document.getElementById('document-conflict').hidden === false", "both versions")
        look(page, "lost-update", "document")
        page.evaluate("document.querySelector('dialog[open]').close()")
        walk(page, "lost-update", ("documents",))


def test_node_killed(cluster):
    with opened(cluster[0]) as page:
        cluster[2].kill()
        go(page, "overview", "#node-table tr")
        page.wait_for_text("does not answer", 30)
        walk(page, "killed")


def test_failed_over(cluster):
    if cluster[2].is_running:
        cluster[2].kill()
    reply = cluster.fail_over(2, allowUnsafe="true")
    assert reply.status == 200, reply.text
    with opened(cluster[0]) as page:
        go(page, "nodes", "#nodes-table tr")
        page.wait_for_text("failed over")
        walk(page, "failed-over")


def test_rebalancing(cluster):
    admin = cluster[0].admin
    if not cluster[2].is_running:
        cluster[2].start()
        cluster.take_back(2)
    # One vBucket after the other, and a node that stands still, so that the rebalance does not end meanwhile.
    assert admin.post("/settings/rebalance", {"rebalanceMovesPerNode": 1}).status == 200
    with opened(cluster[0]) as page:
        go(page, "nodes", "#nodes-table tr")
        cluster.start_rebalance()
        try:
            wait_until(lambda: (cluster.rebalance_task() or {}).get("progress", 0) > 0, 30, "something has moved")
            cluster[2].suspend()
            walk(page, "rebalancing")
        finally:
            cluster[2].resume()
        cluster.await_rebalance(seconds=120)


def test_thousand_views(cluster):
    headers = {"Content-Type": "application/json"}
    assert cluster[0].admin.request("DELETE", "/couchBase/demo/_design/dev_d").status == 200
    for number in range(20):
        views = {f"view-{number}-{each}": {"map": "function (doc, meta) { emit(meta.id, null); }"}
                 for each in range(50)}
        reply = cluster[0].admin.request("PUT", f"/couchBase/demo/_design/dev_many-{number}",
                                         json.dumps({"views": views}), headers=headers, seconds=60)
        assert reply.status == 201, reply.text
    with opened(cluster[0]) as page:
        go(page, "views/demo", "#view-table tr")
        assert page.evaluate("document.querySelectorAll('#view-table tr').length") == 1000
        walk(page, "views")
        go(page, "views/demo/dev_many-7/view-7-7", "#query-form")
        look(page, "views", "view")
