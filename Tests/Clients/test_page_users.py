"""The console's users screen in a browser, and the console of a user with few rights."""

import pytest

from rig import privileges
from rig.browser import Browser
from rig.node import PASSWORD, Node, wait_until
from rig.rest import Rest


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        node.start().provision()
        node.create_bucket("demo")
        node.create_bucket("other")
        yield node


@pytest.fixture
def page(node):
    browser = Browser()
    browser.address = f"http://127.0.0.1:{node.admin_port}/"
    try:
        browser.open(browser.address)
        yield browser
    finally:
        browser.close()


def press(page, element):
    page.wait(f"(() => {{ const e = document.getElementById('{element}');"
              f" if (!e || e.disabled) return false; e.click(); return true; }})()", element)


def roles_of(node, name):
    reply = node.admin.get(f"/settings/rbac/users/local/{name}")
    if reply.status != 200:
        return None
    return sorted((each["role"], each.get("bucket_name")) for each in reply.json["roles"])


def test_user_is_added_changed_and_deleted(page, node):
    page.log_in()
    page.wait_for_text("data buckets")
    page.click("users")
    page.wait_for_text("there are no users yet")

    # A refusal is shown beside its field.
    press(page, "user-create-button")
    page.fill("user name", "app")
    page.fill("full name", "The shop")
    page.fill("password again", "secret-1")
    page.fill("user-password", "secret-2")
    page.fill("user-password-again", "secret-1")
    press(page, "user-submit")
    page.wait_for_text("the two passwords differ")
    page.fill("user-password", "secret-1")
    page.fill("user-password-again", "secret-1")
    page.fill("role", "data_reader")
    page.fill("bucket of the role", "demo")
    press(page, "user-submit")
    page.wait_for_text("data_reader[demo]")
    assert roles_of(node, "app") == [("data_reader", "demo")]
    login = Rest(node.admin_port, ("app", "secret-1"))
    assert login.get("/pools/default/buckets/demo").status == 200

    # A second role; the first one and the password stay.
    page.click("edit", within="app")
    press(page, "user-role-add")
    page.evaluate(
        "(() => { const role = [...document.querySelectorAll('select.role')].pop();"
        " role.value = 'ro_admin'; role.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    press(page, "user-submit")
    page.wait(
        "document.querySelector('[data-user=app]').innerText.includes('ro_admin')", "the new role"
    )
    assert roles_of(node, "app") == [("data_reader", "demo"), ("ro_admin", None)]
    assert login.get("/logs").status == 200

    # A new password.
    page.click("password", within="app")
    page.fill("password-new", "secret-3")
    page.fill("password-again", "secret-3")
    press(page, "password-submit")
    page.wait_for_text("the password of app was changed")
    assert login.get("/whoami").status == 401
    assert Rest(node.admin_port, ("app", "secret-3")).get("/whoami").status == 200
    assert roles_of(node, "app") == [("data_reader", "demo"), ("ro_admin", None)]

    page.click("delete", within="app")
    page.wait_for_text("there are no users yet")
    wait_until(lambda: roles_of(node, "app") is None, 10, "the user is deleted")
    assert page.console == [], "the page threw"


def test_console_shows_a_user_what_its_roles_include(page, node):
    assert privileges.put_user(node, "viewer", "views_admin[demo]").status == 200
    page.log_in("viewer", privileges.PASSWORD)
    page.wait_for_text("change password")
    assert page.evaluate("document.getElementById('nav-users').hidden") is True
    assert page.evaluate("document.getElementById('nav-log').hidden") is False
    page.click("views")
    page.wait_for_text("there are no views yet")

    # Its own password, after which the session is over.
    page.click("change password")
    page.fill("password-new", "another-password")
    page.fill("password-again", "another-password")
    press(page, "password-submit")
    page.wait_for_text("log in with it")
    page.log_in("viewer", "another-password")
    page.wait_for_text("change password")

    # The deletion of the user ends the session.
    assert node.admin.delete("/settings/rbac/users/local/viewer").status == 200
    page.wait_for_text("your session is over")
    assert page.console == [], "the page threw"


def test_login_without_the_consoles_permission_is_refused_with_the_reason(page, node):
    assert privileges.put_user(node, "reader", "data_reader[demo]").status == 200
    page.log_in("reader", privileges.PASSWORD)
    page.wait_for_text("roles do not include the console")
    node.admin.delete("/settings/rbac/users/local/reader")
    assert page.console == [], "the page threw"
