"""The page's nodes, as somebody with a browser adds one, rebalances, and fails one over."""

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


def press(page, selector):
    """A button by its place, for rows that say the same."""
    there = f"document.querySelector({selector!r}) && !document.querySelector({selector!r}).disabled"
    page.wait(there, selector)
    page.evaluate(f"document.querySelector({selector!r}).click()")


def test_a_node_comes_and_is_failed_over(page, nodes):
    first, second = nodes
    page.fill("user", USER)
    page.fill("password", PASSWORD)
    page.click("log in")
    page.wait_for_text("data buckets")
    page.evaluate("location.hash = '#/nodes'")
    page.wait_for_text("every copy is in its place")

    press(page, "#node-add")
    page.fill("where it is", f"127.0.0.1:{second.admin_port}")
    press(page, "#node-submit")
    wait_until(lambda: memberships(first) == ["active", "inactiveAdded"], 20, "it was added")
    page.wait_for_text("waits to be brought in")
    press(page, "#rebalance-start")
    wait_until(lambda: memberships(first) == ["active", "active"], 30, "it serves")
    page.wait_for_text("every copy is in its place")

    # Only after the question is answered.
    row = f'tr[data-node="127.0.0.1:{second.admin_port}"]'
    press(page, f'{row} [data-action="fail-over"]')
    press(page, "#failover-hard")
    page.wait("document.querySelector('#failover-submit').disabled", "the question stands")
    press(page, "#failover-sure")
    press(page, "#failover-submit")
    wait_until(lambda: memberships(first) == ["active", "inactiveFailed"], 20, "it was failed over")
    page.wait_for_text("failed over: serves nothing")
    press(page, f'{row} [data-action="full"]')
    wait_until(lambda: memberships(first) == ["active", "inactiveAdded"], 20, "it comes back")
    page.wait_for_text("comes back empty with the next rebalance")
    assert page.console == [], "the page threw"
