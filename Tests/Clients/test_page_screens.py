"""What each screen of the page shows, on a cluster of two nodes: numbers, titles, focus, narrow windows."""

import json
import shutil

import pytest

from cluster import made
from rig import privileges
from rig.axe import sideways, violations
from rig.browser import Browser
from rig.node import PASSWORD, USER, wait_until

SCREENS = ("overview", "nodes", "buckets", "documents", "views", "users", "log")
TEXT = '{"price":183.50,"one":1.0,"big":9007199254740993,"list":[1,2.50],"none":{},"text":"a, \\"b\\": {"}'


@pytest.fixture(scope="module")
def cluster():
    with made(2, ["demo"]) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster):
    return cluster[0].admin


@pytest.fixture
def page(cluster):
    browser = Browser()
    try:
        browser.open(f"http://127.0.0.1:{cluster[0].admin_port}/")
        yield browser
        assert browser.console == [], "the page threw"
    finally:
        browser.close()


def log_in(page, user=USER, password=PASSWORD):
    page.log_in(user, password)
    page.wait("!document.getElementById('top').hidden", "the sections")


def show(page, *place):
    page.evaluate(f"location.hash = {json.dumps('#/' + '/'.join(place))}")
    page.wait(f"document.querySelector('main > #{place[0]}')", f"the screen {place[0]}")


def resize(page, width, height=900):
    page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
              mobile=False)


def store(admin, key, value):
    assert admin.post(f"/pools/default/buckets/demo/docs/{key}", {"value": value}).status == 200


def press(page, element):
    page.wait(f"(() => {{ const e = document.getElementById('{element}');"
              f" if (!e?.getClientRects().length || e.disabled) return false; e.click(); return true; }})()", element)


def no_dialog(page):
    page.wait("!document.querySelector('dialog[open]')", "the dialog closes")


def test_title_and_focus_follow_the_screen(page, admin):
    assert admin.post("/pools/default", {"clusterName": "harbour"}).status == 200
    log_in(page)
    for screen in SCREENS:
        show(page, screen)
        name = page.evaluate("document.querySelector('h1').innerText")
        page.wait(f"document.title.includes('{name}') && document.title.includes('harbour')", "the title")
        page.wait("document.activeElement === document.querySelector('h1')", "the heading has the focus")


def test_numbers_of_documents_stay_as_they_are_written(page, admin):
    store(admin, "exact", TEXT)
    log_in(page)
    show(page, "documents", "demo")
    page.wait_for_text("exact")
    assert TEXT in page.evaluate("document.querySelector('tr[data-title=exact]').innerText")
    page.click("edit", within="exact")
    page.wait("document.getElementById('document-content')", "the editor")
    text = page.evaluate("document.getElementById('document-content').value")
    assert text.splitlines()[:4] == ["{", '  "price": 183.50,', '  "one": 1.0,', '  "big": 9007199254740993,']
    assert text.splitlines()[-3:] == ['  "none": {},', '  "text": "a, \\"b\\": {"', "}"]
    assert json.loads(text) == json.loads(TEXT)
    press(page, "document-save")
    no_dialog(page)
    stored = admin.get("/pools/default/buckets/demo/docs/exact").json["json"]
    assert "183.50" in stored and "1.0" in stored and "9007199254740993" in stored


def test_long_document_opens_at_its_start(page, admin):
    store(admin, "long", json.dumps({f"field-{number:04}": number for number in range(2000)}))
    log_in(page)
    show(page, "documents", "demo")
    page.wait_for_text("long")
    page.click("edit", within="long")
    page.wait("document.activeElement?.id === 'document-content'", "the editor has the focus")
    assert page.evaluate("(e => [e.scrollTop, e.selectionStart, e.selectionEnd])(document.activeElement)") \
        == [0, 0, 0]


def test_view_query_shows_documents_and_the_part_that_a_development_view_covers(page, admin, cluster):
    store(admin, "exact", TEXT)
    body = {"views": {"v": {"map": "function (doc, meta) { emit(meta.id, doc.price); }"}}}
    for design in ("dev_shown", "shown"):
        reply = admin.request("PUT", f"/couchBase/demo/_design/{design}", json.dumps(body),
                              headers={"Content-Type": "application/json"})
        assert reply.status == 201, reply.text
    log_in(page)
    show(page, "views", "demo", "dev_shown", "v")
    page.wait_for_text("one of 64 vbuckets only, once the bucket has more than 1,280 documents")
    press(page, "query-run")
    page.wait("document.getElementById('query-summary').textContent", "the rows")
    assert "vBuckets" not in page.evaluate("document.getElementById('query-summary').innerText")

    # Each node stores the documents of its vBuckets, and refuses the others.
    for member in cluster.members:
        with member.connect("demo") as connection:
            for number in range(1500):
                connection.set(b"many-%d" % number, b"{}")
    wait_until(lambda: admin.get("/pools/default/buckets/demo").json["basicStats"]["itemCount"] > 1280, 20,
               "the documents are counted")
    show(page, "overview")
    show(page, "views", "demo", "dev_shown", "v")
    page.wait("document.getElementById('query-full_set')?.closest('.field').innerText.endsWith('only.')",
              "the part that a query covers")
    press(page, "query-run")
    page.wait_for_text("from the documents of one of 64 vbuckets")
    page.evaluate("document.getElementById('query-full_set').click()")
    page.evaluate("document.getElementById('query-include_docs').click()")
    page.fill("query-key", '"exact"')
    press(page, "query-run")
    page.wait("document.querySelector('#query-rows td[data-label=Content]')", "the documents")
    assert page.evaluate("document.querySelector('#query-rows td[data-label=Content]').innerText") == TEXT
    assert "vBuckets" not in page.evaluate("document.getElementById('query-summary').innerText")
    show(page, "views", "demo", "shown", "v")
    page.wait_for_text("shown / v")
    page.wait_for_no_text("vbuckets only")


def test_radio_buttons_of_the_failover_dialog_are_beside_their_labels(page, cluster):
    log_in(page)
    show(page, "nodes")
    page.click("fail over", within=cluster[1].address)
    page.wait("document.getElementById('failover-hard')", "the dialog")
    for kind in ("graceful", "hard"):
        gap, width, height = page.evaluate(f"""(() => {{
            const radio = document.getElementById('failover-{kind}');
            const box = radio.getBoundingClientRect();
            const range = document.createRange();
            range.selectNodeContents(radio.parentElement.lastChild);
            return [range.getBoundingClientRect().left - box.right, box.width, box.height];
        }})()""")
        assert 0 <= gap < 20 and width < 30 and height < 30, (gap, width, height)


def test_overview_has_the_version_and_bars_of_the_numbers_beside_them(page, admin, cluster):
    log_in(page)
    show(page, "overview")
    version = admin.get("/versions").json["divanVersion"]
    page.wait_for_text(f"divan {version}")
    totals = admin.get("/pools/default").json["storageTotals"]["hdd"]
    # Both nodes are on one disk, which counts once.
    assert totals["total"] < 1.5 * shutil.disk_usage(cluster[0].data).total, totals
    share = round(100 * (totals["total"] - totals["free"]) / totals["total"])
    bars = page.evaluate("""[...document.querySelectorAll('.tile .bar')].map(bar =>
        [bar.getAttribute('aria-label'), Number(bar.ariaValueNow), bar.parentElement.innerText])""")
    shown = {label: (value, text) for label, value, text in bars}
    assert abs(shown["Disk"][0] - share) <= 1, (shown, totals)
    units = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}

    def number(words):
        return float(words[0]) * units[words[1].rstrip(";")]

    for share, text in shown.values():
        words = text.split()
        of = words.index("of")
        measured = 100 * number(words[of - 2:of]) / number(words[of + 1:of + 3])
        assert abs(share - measured) <= 2, text


def test_error_of_a_user_stands_at_its_field(page):
    log_in(page)
    show(page, "users")
    press(page, "user-create-button")
    page.fill("user name", "a/b")
    page.fill("user-password", "secret-1")
    page.fill("user-password-again", "secret-1")
    press(page, "user-submit")
    page.wait("document.getElementById('user-id-error').textContent", "the error of the name")
    assert page.evaluate("document.activeElement.id") == "user-id"
    assert page.evaluate("document.getElementById('user-id').getAttribute('aria-invalid')") == "true"
    page.fill("user name", "valid")
    page.fill("user-password", "x")
    page.fill("user-password-again", "x")
    press(page, "user-submit")
    page.wait("document.getElementById('user-password-error').textContent", "the error of the password")


def buttons_of(page):
    return page.evaluate("""[...document.querySelectorAll('main button, main td.actions a')]
        .filter(e => e.getClientRects().length).map(e => e.innerText)""")


def test_buttons_whose_request_would_be_refused_are_not_shown(page, admin, cluster):
    store(admin, "exact", TEXT)
    assert privileges.put_user(cluster[0], "reader", "ro_admin").status == 200
    assert privileges.put_user(cluster[0], "owner", "bucket_admin[demo]").status == 200
    log_in(page, "reader", privileges.PASSWORD)
    for screen in ("nodes", "buckets", "users"):
        show(page, screen)
        page.wait("document.querySelector('tbody tr')", f"the rows of {screen}")
        assert buttons_of(page) == [], screen
    show(page, "views", "demo")
    page.wait("document.querySelector('#view-list').textContent", "the views")
    assert buttons_of(page) == []
    show(page, "documents", "demo")
    page.wait_for_text("do not include reading the documents")

    press(page, "logout")
    page.wait_for_text("welcome")
    log_in(page, "owner", privileges.PASSWORD)
    show(page, "buckets")
    page.wait("document.querySelector('tr[data-bucket=demo]')", "the bucket")
    page.wait("document.querySelector('tr[data-bucket=demo] button.danger').hidden === false", "its buttons")
    assert "Create New Data Bucket" not in buttons_of(page)
    for user in ("reader", "owner"):
        admin.delete(f"/settings/rbac/users/local/{user}")


def test_bucket_is_deleted_only_after_its_name_is_typed(page, admin, cluster):
    cluster[0].create_bucket("doomed")
    log_in(page)
    show(page, "buckets")
    page.wait_for_text("doomed")
    page.click("delete", within="doomed")
    page.wait("document.getElementById('bucket-remove').disabled", "nothing is typed yet")
    page.fill("type the name", "doome")
    assert page.evaluate("document.getElementById('bucket-remove').disabled")
    page.evaluate("document.getElementById('bucket-removal-form').requestSubmit()")
    assert admin.get("/pools/default/buckets/doomed").status == 200
    page.fill("type the name", "doomed")
    press(page, "bucket-remove")
    wait_until(lambda: admin.get("/pools/default/buckets/doomed").status == 404, 20, "the bucket is deleted")
    no_dialog(page)


def test_alerts_are_a_list_in_an_alert_region(page):
    log_in(page)
    show(page, "nodes")
    # An answer with two alerts; the page shows no others of this healthy cluster.
    page.evaluate("""(() => {
        const send = window.fetch;
        window.fetch = async (path, options) => {
            const answer = await send(path, options);
            if (path !== '/pools/default') return answer;
            const pool = await answer.json();
            pool.alerts = [{ msg: 'The first.' }, { msg: 'The second.' }];
            return new Response(JSON.stringify(pool));
        };
    })()""")
    page.wait("document.querySelectorAll('[role=alert] > ul > li').length === 2", "the list of alerts")


def test_event_of_the_log_is_one_line(page):
    log_in(page)
    show(page, "log")
    page.wait("document.querySelectorAll('#log-table tr').length > 3", "the events")
    heights = page.evaluate("[...document.querySelectorAll('#log-table tr')].map(row => row.offsetHeight)")
    assert max(heights) < 50, heights


@pytest.mark.parametrize("width", [390, 720])
def test_narrow_window_has_a_header_of_one_row_and_shows_every_action(page, admin, width):
    """720 px are a window of 1440 px at a zoom of 200 %."""
    store(admin, "exact", TEXT)
    store(admin, "a-document-whose-id-is-rather-long-" + "x" * 100, TEXT)
    resize(page, width)
    log_in(page)
    for screen in SCREENS:
        show(page, screen)
        page.wait("document.querySelector('main tbody tr, .empty')", "the rows")
        assert sideways(page) == [], screen
    press(page, "menu")
    assert violations(page) == {}
    page.click("nodes")
    page.wait("document.querySelector('main > #nodes')", "the menu leads to the screens")
    page.wait("document.querySelectorAll('td.actions button').length >= 4", "the actions of the nodes")
    assert sideways(page) == []


def test_page_whose_node_is_away_is_grey_and_links_to_the_other_nodes(page, cluster):
    log_in(page)
    show(page, "nodes")
    page.wait("document.querySelector('.dot.healthy')", "a green dot")
    colour = "getComputedStyle(document.querySelector('tbody .dot')).backgroundColor"
    green = page.evaluate(colour)
    try:
        cluster[0].suspend()
        page.wait("document.querySelector('main.away')", "the page is grey", 20)
        assert page.evaluate(colour) != green
        words = page.evaluate("document.getElementById('alerts').innerText")
        assert "This page shows the state of" in words and ":" in words
        link = page.evaluate("document.querySelector('#alerts a').href")
        assert link.startswith(f"http://{cluster[1].address}/ui/")
    finally:
        cluster[0].resume()
    page.wait("!document.querySelector('main.away')", "the node answers again", 20)
    assert page.evaluate(colour) == green
