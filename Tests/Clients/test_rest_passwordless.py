"""Buckets without a password: open to very old clients, and nothing else is."""

import pytest

from rig.node import Node
from rig.wire import Connection, Op, Status, frame, vbucket_of

BUCKETS = "/pools/default/buckets"


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        node.start().provision()
        node.create_bucket("open", passwordless=1)
        node.create_bucket("closed")
        yield node


def test_passwordless_bucket_reports_that_it_needs_no_password(node):
    assert node.admin.get(f"{BUCKETS}/open").json["passwordless"] is True
    assert node.admin.get(f"{BUCKETS}/closed").json["passwordless"] is False


def test_bucket_name_without_password_logs_in_and_selects_the_bucket(node):
    with Connection(node.kv_port) as connection:
        assert connection.plain("open", "").status == Status.SUCCESS
        assert connection.set(b"key", b"1").status == Status.SUCCESS
        assert connection.get(b"key").value == b"1"
        # It opens this bucket, no other.
        assert connection.select_bucket("closed").status == Status.ACCESS
        assert connection.select_bucket("open").status == Status.SUCCESS


@pytest.mark.parametrize(
    "login", [("closed", ""), ("open", "guess"), ("", ""), ("unknown", ""), ("Administrator", "")]
)
def test_other_buckets_need_a_password(node, login):
    with Connection(node.kv_port) as connection:
        assert connection.plain(*login).status in (Status.AUTH_ERROR, Status.INVALID)
        status = connection.get(b"key").status
        assert status in (Status.ACCESS, Status.NO_BUCKET)


def test_client_without_login_has_no_bucket(node):
    with Connection(node.kv_port) as connection:
        assert connection.get(b"key").status in (Status.ACCESS, Status.NO_BUCKET)


def test_bucket_named_default_needs_no_login_at_all(make_node):
    node = make_node().start().provision()
    node.create_bucket("default", passwordless=1)
    with Connection(node.kv_port) as connection:
        key = b"key"
        connection.send(frame(Op.SET, key, bytes(8), b"1", vbucket=vbucket_of(key)))
        assert connection.receive().status == Status.SUCCESS
        assert connection.get(key).value == b"1"


def test_bucket_named_default_with_a_password_needs_a_login(make_node):
    node = make_node().start().provision().create_bucket("default")
    with Connection(node.kv_port) as connection:
        assert connection.get(b"key").status in (Status.ACCESS, Status.NO_BUCKET)


def test_anonymous_client_sees_only_the_map_of_a_passwordless_bucket(node):
    assert node.anonymous.get("/pools").status == 200
    pool = node.anonymous.get("/pools/default")
    assert pool.status == 200
    assert "closed" not in pool.text
    listed = node.anonymous.get(BUCKETS)
    assert [each["name"] for each in listed.json] == ["open"]
    assert node.anonymous.get(f"{BUCKETS}/open").json["name"] == "open"
    assert node.anonymous.get(f"{BUCKETS}/closed").status in (401, 404)


@pytest.mark.parametrize(
    "method,path",
    [
        ("POST", BUCKETS),
        ("POST", f"{BUCKETS}/open"),
        ("DELETE", f"{BUCKETS}/open"),
        ("POST", f"{BUCKETS}/open/controller/doFlush"),
        ("GET", f"{BUCKETS}/closed/docs"),
        ("GET", "/pools/default/b/closed"),
        ("GET", "/pools/default/bs/closed"),
        ("POST", "/pools/default"),
        ("GET", "/settings/web"),
        ("GET", "/logs"),
    ],
)
def test_request_without_a_password_changes_nothing(node, method, path):
    assert node.anonymous.request(method, path).status == 401


def test_node_without_a_passwordless_bucket_needs_a_login_everywhere(make_node):
    node = make_node().start().provision().create_bucket("closed")
    for path in ("/pools/default", BUCKETS, f"{BUCKETS}/closed"):
        assert node.anonymous.get(path).status == 401


def test_passwordless_bucket_can_be_protected_again(make_node):
    node = make_node().start().provision()
    node.create_bucket("once-open", passwordless=1)
    assert node.admin.post(f"{BUCKETS}/once-open", {"passwordless": 0}).status == 200
    with Connection(node.kv_port) as connection:
        assert connection.plain("once-open", "").status == Status.AUTH_ERROR
    assert node.anonymous.get(BUCKETS).status == 401
