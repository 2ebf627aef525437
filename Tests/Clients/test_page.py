"""The page in a browser, from setup to documents."""

import json

import pytest

from rig.browser import Browser, PageError
from rig.node import PASSWORD, ROOT, USER, Node, wait_until
from rig.wire import Status

SCREENSHOTS = ROOT / ".build/screenshots"

# Whether the row of a name has a green dot.
GREEN_DOT = """(() => {
    const isGreen = colour => {
        const parts = (colour.match(/[0-9.]+/g) || []).map(Number);
        const [r, g, b, a = 1] = parts;
        return parts.length >= 3 && a > 0.3 && g > 90 && g > r * 1.3 && g > b * 1.3;
    };
    const rows = [...document.querySelectorAll('tr, li, section, article, .row')]
        .filter(row => row.innerText.includes(NAME)).slice(-1);
    return rows.some(row => [...row.querySelectorAll('*')].some(e => {
        const style = getComputedStyle(e);
        return isGreen(style.backgroundColor) || isGreen(style.fill)
            || (e.innerText || '').trim() === '●' && isGreen(style.color);
    }));
})()"""


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        node.start().provision()
        yield node


@pytest.fixture
def page(node, request):
    browser = Browser()
    browser.address = f"http://127.0.0.1:{node.admin_port}/"
    try:
        browser.open(browser.address)
        yield browser
    finally:
        if getattr(request.node, "failed_here", False):
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            path = SCREENSHOTS / f"{request.node.name}.png"
            try:
                browser.screenshot(path)
                print(f"screenshot: {path}")
            except PageError:
                pass
        browser.close()


def log_in(page, password=PASSWORD):
    page.fill("user", USER)
    page.fill("password", password)
    page.click("log in", "sign in", "login")


def test_page_from_setup_to_documents(page, node):
    # Log in, and see the node.
    log_in(page)
    page.wait_for_text("data buckets")
    page.wait_for_text(str(node.admin_port))

    # Create a bucket; its dot turns green.
    page.click("data buckets", "buckets")
    page.click("create new data bucket", "create bucket")
    page.fill(["bucket name", "name"], "demo")
    page.fill(["quota", "ram", "memory"], "100")
    page.fill("replica", "1")
    page.fill("flush", True)
    page.click("create", "save")
    page.wait(GREEN_DOT.replace("NAME", "'demo'"), "a green dot beside demo")
    made = node.admin.get("/pools/default/buckets/demo").json
    assert made["quota"]["rawRAM"] == 100 << 20
    assert made["replicaNumber"] == 1 and "flush" in made["controllers"]
    node.await_bucket("demo")

    # Add a document.
    page.click("documents", within="demo")
    page.wait_for_text("document")
    page.click("create document", "add document", "new document")
    page.fill(["document id", "id", "key"], "note::1")
    add = json.dumps({"text": "sat on a divan"})
    page.fill(["value", "json", "content", "textarea"], add)
    page.click("save", "create")
    path = "/pools/default/buckets/demo/docs/note%3A%3A1"
    wait_until(lambda: node.admin.get(path).status == 200, 10, "the document is stored")
    assert json.loads(node.admin.get(path).json["json"]) == {"text": "sat on a divan"}

    # Edit it.
    node.admin.post("/pools/default/buckets/demo/docs/another", {"value": '{"n":1}'})
    page.wait_for_text("note::1")
    page.click("edit", "note::1", within="note::1")
    page.fill(["value", "json", "content", "textarea"], json.dumps({"text": "slept"}))
    page.click("save")
    wait_until(
        lambda: json.loads(node.admin.get(path).json["json"]) == {"text": "slept"}, 10, "the edit"
    )

    page.wait("!document.querySelector('dialog[open]')", "the dialog closes with the reply")

    # Find it.
    page.fill(["look up", "find", "document id", "search"], "note::1")
    page.click("look up", "find", "search")
    page.wait_for_text("slept")

    # Delete it.
    page.click("delete")
    wait_until(lambda: node.admin.get(path).status == 404, 10, "the document is gone")
    page.wait_for_no_text("slept")

    assert page.console == [], "the page threw"


def test_page_opened_before_the_node_is_ready_retries(page, node):
    # As during a start of the node: no route answers yet.
    page.call("Network.setBlockedURLs", urls=["*/pools"])
    page.call("Page.reload")
    page.wait_for_text("not now", 30)
    page.call("Network.setBlockedURLs", urls=[])
    page.wait_for_text("log in", 30)


def test_wrong_password_is_reported_and_nothing_is_shown(page):
    log_in(page, "wrong-password")
    page.wait(
        "/wrong|fail|invalid|not |denied|incorrect/i.test(document.body.innerText)",
        "the page says that the login failed",
    )
    assert "data buckets" not in page.text().lower()


def test_minimum_durability_of_a_bucket_is_set_on_the_page(page, node):
    log_in(page)
    page.click("data buckets", "buckets")
    page.click("create new data bucket", "create bucket")
    page.fill(["bucket name", "name"], "durable")
    page.fill(["quota", "ram", "memory"], "100")
    page.fill("replica", "1")
    page.click("advanced settings")
    page.fill("acknowledged when stored", "majority")
    page.click("create", "save")
    page.wait_for_text("not enough data nodes")
    page.fill("replica", "0")
    page.click("create", "save")
    path = "/pools/default/buckets/durable"
    wait_until(lambda: node.admin.get(path).status == 200, 10, "the bucket is there")
    assert node.admin.get(path).json["durabilityMinLevel"] == "majority"
    assert page.console == [], "the page threw"


def test_refusal_of_the_server_is_shown_beside_its_field(page, node):
    log_in(page)
    page.click("data buckets", "buckets")
    page.click("create new data bucket", "create bucket")
    page.fill(["bucket name", "name"], "with space")
    page.fill(["quota", "ram", "memory"], "100")
    page.click("create", "save")
    page.wait_for_text("letters")
    assert node.admin.get("/pools/default/buckets/with%20space").status == 404


def test_operations_are_shown_live(page, node):
    if node.admin.get("/pools/default/buckets/busy").status != 200:
        node.create_bucket("busy")
    log_in(page)
    page.click("data buckets", "buckets")
    page.wait_for_text("busy")
    with node.connect("busy") as connection:

        def is_shown():
            for number in range(2000):
                connection.set(b"key-%d" % number, b"1")
            rows = page.evaluate(
                "[...document.querySelectorAll('tr, li, section, article, .row')]"
                ".filter(r => r.innerText.includes('busy')).map(r => r.innerText).pop()"
            )
            digits = [
                int(word.replace(",", "").split(".")[0])
                for word in (rows or "").replace("\t", " ").split()
                if word.replace(",", "").replace(".", "").isdigit()
            ]
            return any(number > 100 and number != 2000 for number in digits)

        wait_until(is_shown, 15, "operations per second in the row of the bucket")


def test_page_loads_nothing_from_other_hosts(page, node):
    log_in(page)
    page.wait_for_text("data buckets")
    for url in page.requests:
        assert url.startswith((page.address, "data:", "about:", "blob:")), url


def test_document_cannot_run_in_the_page(page, node):
    """The content of a document is shown, not executed."""
    if node.admin.get("/pools/default/buckets/hostile").status != 200:
        node.create_bucket("hostile")
    with node.connect("hostile") as connection:
        script = "<img src=x onerror=\"window.wasHere=1\"><script>window.wasHere=1</script>"
        connection.set(b"evil<b>bold</b>", json.dumps({"html": script}).encode())
        connection.set(script.encode(), b'{"n":1}')
    log_in(page)
    page.click("data buckets", "buckets")
    page.wait_for_text("hostile")
    page.click("documents", within="hostile")
    page.wait_for_text("evil")
    page.click("edit", "evil", within="evil")
    page.wait(
        "/onerror/.test(document.body.innerText + [...document.querySelectorAll('textarea')]"
        ".map(t => t.value).join())",
        "the document is shown",
    )
    assert page.evaluate("window.wasHere") is None


def open_documents(page, bucket):
    log_in(page)
    page.click("data buckets", "buckets")
    page.wait_for_text(bucket)
    page.click("documents", within=bucket)


def test_document_whose_key_is_not_utf8_is_shown_and_deleted(page, node):
    node.create_bucket("bytes")
    with node.connect("bytes") as connection:
        connection.set(b"\xfe/", b'{"n":"the one"}')
        connection.set("\ufffd/".encode(), b'{"n":"another"}')
        for number in range(20):
            connection.set(b"\xff%02d" % number, b'{"n":%d}' % number)
    open_documents(page, "bytes")
    page.wait_for_text("%FE%2F (key is not UTF-8)")
    # The next page begins with a key of bytes.
    page.click("next")
    page.wait_for_text("%FF18 (key is not UTF-8)")
    page.wait_for_no_text("%FF17")
    page.click("previous")
    page.click("edit", within="%FE%2F")
    page.wait("[...document.querySelectorAll('textarea')].some(t => /the one/.test(t.value))",
              "the document is shown")
    page.click("cancel")
    page.click("delete", within="%FE%2F")
    page.wait_for_no_text("%FE%2F (")
    with node.connect("bytes") as connection:
        assert connection.get(b"\xfe/").status == Status.NOT_FOUND
        assert connection.get("\ufffd/".encode()).value == b'{"n":"another"}'
    assert page.console == [], "the page threw"


def test_page_of_large_documents_says_which_are_not_shown(page, node):
    node.create_bucket("large", ramQuotaMB=300)
    with node.connect("large") as connection:
        for number in range(6):
            value = b'{"n":"number-%d","pad":"%s"}' % (number, b"x" * (5 << 20))
            assert connection.set(b"doc-%d" % number, value).status == Status.SUCCESS
    open_documents(page, "large")
    page.wait_for_text("number-3", 30)
    rows = page.evaluate("[...document.querySelectorAll('#document-table tr')].map(r => r.innerText)")
    assert ["Not shown: the page is large" in row for row in rows] == [False] * 4 + [True] * 2, rows
    assert page.console == [], "the page threw"
    node.admin.delete("/pools/default/buckets/large")


def test_one_bucket_is_counted_in_the_singular(page, make_node):
    node = make_node().start().provision()
    page.open(f"http://127.0.0.1:{node.admin_port}/")
    log_in(page)
    page.wait_for_text("in 0 buckets")
    node.create_bucket("only")
    page.wait_for_text("in 1 bucket")
    page.wait_for_no_text("in 1 buckets")
    node.create_bucket("other")
    page.wait_for_text("in 2 buckets")


def test_new_and_changed_documents_are_highlighted(page, node):
    node.create_bucket("lively")
    with node.connect("lively") as connection:
        assert connection.set(b"first", b'{"v":1}').status == Status.SUCCESS
        open_documents(page, "lively")
        page.wait_for_text("first")
        lit = "[...document.querySelectorAll('tr.lit')].some(row => row.innerText.includes(NAME))"
        for name in ("first", "second"):

            def shows():
                # The feed of the page begins some moments after its list.
                connection.set(name.encode(), b'{"v":2}')
                return page.evaluate(lit.replace("NAME", json.dumps(name)))

            wait_until(shows, 30, f"{name} lights up")


def test_deleting_a_document_called_dot_dot_leaves_its_bucket(page, node):
    """A browser removes ".." from a path, and the rest is the path of the bucket."""
    node.create_bucket("dots")
    with node.connect("dots") as connection:
        connection.set(b"..", b'{"n":"up"}')
    open_documents(page, "dots")
    page.wait_for_text('"up"')
    page.click("delete", within='"up"')
    page.wait_for_text("cannot address")
    assert node.admin.get("/pools/default/buckets/dots").status == 200
    assert node.admin.get("/pools/default/buckets/dots/docs/%2E%2E").status == 200
    assert page.console == [], "the page threw"
