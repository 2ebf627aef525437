"""The nodes of the page in a browser: adding, rebalance and failover."""

import re
import signal

import pytest

from rig.browser import Browser
from rig.node import PASSWORD, USER, Node, wait_until


@pytest.fixture
def nodes():
    two = [Node(), Node()]
    try:
        for node in two:
            node.start()
        two[0].provision(512)
        yield two
    finally:
        for node in two:
            node.close()


@pytest.fixture
def third(nodes):
    """A third node, since automatic failover needs three."""
    with Node() as node:
        yield node.start()


@pytest.fixture
def page(nodes):
    browser = Browser()
    try:
        browser.open(f"http://127.0.0.1:{nodes[0].admin_port}/")
        yield browser
    finally:
        browser.close()


def memberships(node):
    pool = node.admin.get("/pools/default").json
    return [one["clusterMembership"] for one in pool["nodes"]]


def log_in(page):
    """Logs in and opens the nodes."""
    page.log_in()
    page.wait_for_text("data buckets")
    page.evaluate("location.hash = '#/nodes'")
    page.wait_for_text("every copy is in its place")


def join(first, second):
    """By the REST interface, until the rebalance has ended."""
    reply = first.admin.post("/controller/addNode", {
        "hostname": f"127.0.0.1:{second.admin_port}", "user": USER, "password": PASSWORD})
    assert reply.status == 200, reply.text
    names = [one["otpNode"] for one in first.admin.get("/pools/default").json["nodes"]]
    reply = first.admin.post("/controller/rebalance", {
        "knownNodes": ",".join(names), "ejectedNodes": ""})
    assert reply.status == 200, reply.text
    wait_until(lambda: is_balanced(first), 30, "both serve")


def is_balanced(node):
    pool = node.admin.get("/pools/default").json
    return pool["balanced"] and pool["rebalanceStatus"] == "none"


def serves(node, bucket):
    reply = node.admin.get(f"/pools/default/buckets/{bucket}")
    nodes = reply.json.get("nodes", []) if reply.status == 200 else []
    return len(nodes) == 2 and all(one["status"] == "healthy" for one in nodes)


def press(page, selector):
    """A button by its place, for rows with the same text."""
    there = f"document.querySelector({selector!r}) && !document.querySelector({selector!r}).disabled"
    page.wait(there, selector)
    page.evaluate(f"document.querySelector({selector!r}).click()")


def row_of(node):
    return f'tr[data-node="127.0.0.1:{node.admin_port}"]'


def act(page, node, action):
    """Presses a button in the row of a node."""
    press(page, f'{row_of(node)} [data-action="{action}"]')


def recovery(node, second):
    """The membership of the second node, and its recovery type."""
    pool = node.admin.get("/pools/default").json
    place = f"127.0.0.1:{second.admin_port}"
    (one,) = [each for each in pool["nodes"] if each["hostname"] == place]
    return one["clusterMembership"], one["recoveryType"]


def may_fail_over_gracefully(first, second):
    statuses = first.admin.get("/nodeStatuses").json
    return statuses[f"127.0.0.1:{second.admin_port}"]["gracefulFailoverPossible"]


def test_node_is_added_failed_over_and_recovered(page, nodes):
    first, second = nodes
    log_in(page)
    first.create_bucket("twice", replicaNumber=1)

    press(page, "#node-add")
    page.fill("address", f"127.0.0.1:{second.admin_port}")
    press(page, "#node-submit")
    wait_until(lambda: memberships(first) == ["active", "inactiveAdded"], 20, "it was added")
    page.wait_for_text("waits for a rebalance that adds it")
    press(page, "#rebalance-start")
    wait_until(lambda: is_balanced(first), 60, "it serves")
    page.wait_for_text("every copy is in its place")

    # Marked to leave, then unmarked: only the page knows of it.
    act(page, second, "remove")
    page.wait_for_text("leaves with the next rebalance")
    page.wait("!document.querySelector('#rebalance-start').disabled", "there is something to do")
    act(page, second, "keep")
    page.wait_for_text("every copy is in its place")
    page.wait("document.querySelector('#rebalance-start').disabled", "there is nothing to do")

    # Gracefully, which is what is chosen where it can be: soon after the rebalance.
    wait_until(lambda: may_fail_over_gracefully(first, second), 20, "its copies are replicated")
    act(page, second, "fail-over")
    page.wait("document.querySelector('#failover-graceful').checked", "gracefully, unless chosen")
    press(page, "#failover-submit")
    failed = ("inactiveFailed", "none")
    wait_until(lambda: recovery(first, second) == failed, 60, "it was failed over")
    page.wait_for_text("failed over: serves nothing")
    act(page, second, "delta")
    page.wait_for_text("is added back with its copies by the next rebalance")
    assert recovery(first, second) == ("inactiveAdded", "delta")
    act(page, second, "leave-out")
    page.wait_for_text("failed over: serves nothing")
    assert recovery(first, second) == failed
    act(page, second, "delta")
    page.wait_for_text("is added back with its copies by the next rebalance")
    press(page, "#rebalance-start")
    wait_until(lambda: memberships(first) == ["active", "active"], 60, "it serves again")
    page.wait_for_text("every copy is in its place", 60)

    # At once: only after the question is answered.
    act(page, second, "fail-over")
    press(page, "#failover-hard")
    page.wait("document.querySelector('#failover-submit').disabled", "the question stands")
    press(page, "#failover-sure")
    press(page, "#failover-submit")
    wait_until(lambda: recovery(first, second) == failed, 20, "it was failed over")
    page.wait_for_text("failed over: serves nothing")
    act(page, second, "full")
    wait_until(lambda: memberships(first) == ["active", "inactiveAdded"], 20, "it comes back")
    page.wait_for_text("is added back empty by the next rebalance")
    assert page.console == [], "the page threw"


def test_rebalance_asks_before_giving_up_vbuckets_of_a_failed_node(page, nodes):
    """Its vBuckets are not served, and the page shows that; a rebalance asks first."""
    first, second = nodes
    join(first, second)
    reply = first.admin.post("/pools/default/buckets", {
        "name": "alone", "ramQuotaMB": 100, "replicaNumber": 0})
    assert reply.status == 202
    wait_until(lambda: serves(first, "alone"), 20, "the bucket serves")
    log_in(page)
    act(page, second, "fail-over")
    press(page, "#failover-hard")
    page.wait_for_text("no other reachable node has a copy")
    press(page, "#failover-sure")
    press(page, "#failover-submit")
    wait_until(lambda: memberships(first) == ["active", "inactiveFailed"], 20, "it was failed over")
    page.wait_for_text("some vbuckets are not served")
    page.wait_for_text("of bucket alone are not served")
    page.evaluate("window.asked = []; window.confirm = text => { asked.push(text); return false; }")
    press(page, "#rebalance-start")
    page.wait("window.asked.length === 1", "it asks")
    act(page, second, "eject")
    page.wait("window.asked.length === 2", "it asks again")
    assert memberships(first) == ["active", "inactiveFailed"]
    page.evaluate("location.hash = '#/buckets'")
    page.wait("!!document.querySelector('tr[data-bucket=alone] .dot.unhealthy')", "the bucket's dot")
    page.evaluate("location.hash = '#/nodes'")
    page.evaluate("window.confirm = text => { asked.push(text); return true; }")
    act(page, second, "eject")
    wait_until(lambda: memberships(first) == ["active"], 20, "it is none of them any more")
    assert page.evaluate("window.asked.length") == 3
    page.wait(f"!document.querySelector({row_of(second)!r})", "its row is gone")
    assert page.console == [], "the page threw"


def test_automatic_failover_is_shown_and_changed(page, nodes):
    first, _ = nodes
    log_in(page)
    page.wait_for_text("automatic failover: after 5 s without an answer; 0 of 1 node so far")
    press(page, "#auto-failover-change")
    page.fill("timeout in seconds", "0")
    press(page, "#auto-failover-submit")
    page.wait("document.querySelector('#auto-failover-timeout-error').textContent", "a refusal")
    page.fill("timeout in seconds", "7")
    press(page, "#auto-failover-submit")
    page.wait_for_text("automatic failover: after 7 s")
    assert first.admin.get("/settings/autoFailover").json["timeout"] == 7
    press(page, "#auto-failover-change")
    press(page, "#auto-failover-enabled")
    press(page, "#auto-failover-submit")
    page.wait_for_text("automatic failover: off")
    assert page.console == [], "the page threw"


def fail_over_after(node, seconds):
    form = {"enabled": "true", "timeout": seconds}
    assert node.admin.post("/settings/autoFailover", form).status == 200


def test_automatic_failover_and_retry_are_shown_and_cancelled(page, nodes, third):
    """The only node that was to stay is suspended: it is failed over, so the rebalance fails, and is
    retried."""
    first, second = nodes
    admin = first.admin
    join(first, second)
    join(first, third)
    first.create_bucket("twice", replicaNumber=1)
    fail_over_after(first, 120)
    assert admin.post("/settings/retryRebalance", {"enabled": "true"}).status == 200
    log_in(page)
    page.wait_for_text("0 of 1 node so far")
    third.process.send_signal(signal.SIGSTOP)
    for node in nodes:
        act(page, node, "remove")
    press(page, "#rebalance-start")
    page.wait_for_text("% done")
    fail_over_after(first, 1)
    page.wait_for_text("the rebalance is retried in", 30)
    page.wait_for_text("the last rebalance did not finish: none of the nodes that were to stay is left")
    page.wait_for_text("1 of 1 node so far")
    assert admin.get("/settings/autoFailover").json["count"] == 1

    press(page, "#retry-cancel")
    page.wait_for_no_text("the rebalance is retried")
    pending = admin.get("/pools/default/pendingRetryRebalance").json
    assert pending == {"retry_rebalance": "not_pending"}
    press(page, "#auto-failover-reset")
    page.wait_for_text("0 of 1 node so far")
    assert admin.get("/settings/autoFailover").json["count"] == 0
    hidden = "document.querySelector('#auto-failover-reset').hidden"
    page.wait(f"{hidden} && document.querySelector('#retry-cancel').hidden", "nothing is left to press")
    assert page.console == [], "the page threw"


def test_page_of_a_removed_node_returns_to_the_setup(page, nodes):
    """It has no cluster to show."""
    first, second = nodes
    join(first, second)
    page.open(f"http://127.0.0.1:{second.admin_port}/")
    log_in(page)
    pool = first.admin.get("/pools/default").json
    names = [node["otpNode"] for node in pool["nodes"]]
    reply = first.admin.post("/controller/rebalance", {
        "knownNodes": ",".join(names), "ejectedNodes": names[1]})
    assert reply.status == 200
    page.wait_for_text("set up your cluster")


def test_ended_session_asks_for_a_login_beside_a_passwordless_bucket(page, nodes):
    first, _ = nodes
    reply = first.admin.post("/pools/default/buckets", {
        "name": "open", "ramQuotaMB": 100, "replicaNumber": 0, "passwordless": 1})
    assert reply.status == 202
    log_in(page)
    reply = first.admin.post("/settings/web", {
        "username": USER, "password": "another one", "port": "SAME"})
    assert reply.status == 200
    page.wait_for_text("your session is over")


def test_rebalance_is_stopped_and_its_progress_is_shown_in_percent(page, nodes):
    """The other node is suspended during it, so that the progress can be read."""
    first, second = nodes
    assert first.admin.post("/pools/default/buckets", {
        "name": "many", "ramQuotaMB": 100, "replicaNumber": 0}).status == 202
    first.await_bucket("many")
    # One vBucket after the other, so that most of them are left when it is to stop.
    assert first.admin.post("/settings/rebalance", {"rebalanceMovesPerNode": 1}).status == 200
    log_in(page)
    reply = first.admin.post("/controller/addNode", {
        "hostname": f"127.0.0.1:{second.admin_port}", "user": USER, "password": PASSWORD})
    assert reply.status == 200, reply.text
    page.wait_for_text("waits for a rebalance that adds it")
    press(page, "#rebalance-start")
    page.wait("!document.querySelector('#rebalance-stop').hidden", "it may be stopped")
    press(page, "#rebalance-stop")
    page.wait_for_text("a rebalance is needed")
    wait_until(lambda: "The rebalance was stopped" in first.admin.get("/logs").text, 10, "it was")
    pool = first.admin.get("/pools/default").json
    assert pool["rebalanceStatus"] == "none" and not pool["balanced"]

    # The rebalance continues from there.
    page.evaluate("""(() => {
        window.said = [];
        const balance = document.querySelector('#balance');
        new MutationObserver(() => window.said.push(balance.textContent))
            .observe(balance, { childList: true, characterData: true, subtree: true });
    })()""")
    press(page, "#rebalance-start")
    try:
        def progress():
            tasks = first.admin.get("/pools/default/tasks").json
            return next((one.get("progress", 0) for one in tasks if one["type"] == "rebalance"), 0)
        wait_until(lambda: progress() > 0, 20, "something has moved")
        second.process.send_signal(signal.SIGSTOP)
        page.wait("window.said.some(text => /[1-9]\\d* % done/.test(text))", "progress", 20)
    finally:
        second.process.send_signal(signal.SIGCONT)
    page.wait_for_text("every copy is in its place", 60)
    said = " ".join(page.evaluate("window.said"))
    shares = [int(share) for share in re.findall(r"(\d+) % done", said)]
    assert all(share <= 100 for share in shares), said
    assert page.console == [], "the page threw"


def test_page_reports_a_suspended_node_and_recovers_with_it(page, nodes):
    first, _ = nodes
    log_in(page)
    try:
        first.process.send_signal(signal.SIGSTOP)
        page.wait_for_text("the server does not answer. this page shows the state of", 20)
    finally:
        first.process.send_signal(signal.SIGCONT)
    page.wait_for_no_text("the server does not answer", 20)
    page.wait_for_text("every copy is in its place")
    assert page.console == [], "the page threw"
