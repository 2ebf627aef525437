"""Buckets without a password, from loopback and from another machine, on every port."""

import itertools
import json
import struct

import pytest

from rig import privileges, wire
from rig.gateway import Gateway
from rig.network import node_elsewhere
from rig.rest import Rest
from rig.wire import Connection, Op, Status, frame, vbucket_of

BUCKETS = "/pools/default/buckets"
MULTIPART = {"Content-Type": "multipart/form-data; boundary=x"}
TABLE = privileges.Table()
TAP_CONNECT, DCP_OPEN = 0x40, 0x50
DESIGN = {"views": {"v": {"map": "function (doc, meta) { emit(meta.id); }"}}}
# What a bucket with passwordless=network permits over HTTP without a password, from another machine.
NETWORK = {"cluster.pools!read", "cluster.bucket[.].settings!read", "cluster.bucket[.].views!read"}


@pytest.fixture(scope="module")
def node():
    """A node on a machine of its own; the tests open their sockets on another one."""
    with node_elsewhere() as node:
        # Refused logins delay later ones of their address.
        node.sources = node.network.sources("client")
        node.views_port = int(node.ready["views"])
        node.create_bucket("local", passwordless=1)
        node.create_bucket("closed")
        for name in ("local", "closed"):
            prepare(node, name)
        yield node


@pytest.fixture
def open_bucket(node):
    """A bucket with passwordless=network, only for a test: requests without a login see that one exists."""
    node.create_bucket("wide", passwordless="network")
    prepare(node, "wide")
    yield "wide"
    node.admin.delete(f"{BUCKETS}/wide")


def prepare(node, name):
    views = Rest(node.views_port, (node.admin.login), node.host)
    reply = views.request("PUT", f"/{name}/_design/d", json.dumps(DESIGN), {"Content-Type": "application/json"})
    assert reply.status == 201, reply
    assert node.admin.post(f"{BUCKETS}/{name}/docs/key", {"value": "{}"}).status == 200


def logins(name):
    """A request without a login, and one with the bucket's name and an empty password."""
    return (None, (name, ""))


def ask(node, route, bucket, login):
    port = node.admin_port if route.port == "admin port" else node.views_port
    body = None if route.method == "GET" else "--x--\r\n"
    return Rest(port, login, node.host, next(node.sources)).head_of(route.method, route.target(bucket), body, MULTIPART)


def test_bucket_of_loopback_is_refused_on_every_route(node):
    for route, bucket in itertools.product(TABLE.routes, ("local", "closed")):
        for login in logins(bucket):
            status = ask(node, route, bucket, login).status
            assert (status == 401) == (route.need != "open"), (route, login, status)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA1", "SCRAM-SHA256", "SCRAM-SHA512"])
def test_bucket_of_loopback_refuses_its_name_on_the_data_port(node, mechanism):
    with Connection(node.kv_port, host=node.host) as connection:
        if mechanism == "PLAIN":
            assert connection.plain("local", "").status == Status.AUTH_ERROR
        else:
            assert connection.log_in("local", "", mechanism).status == Status.AUTH_ERROR
        assert connection.get(b"key").status in (Status.ACCESS, Status.NO_BUCKET)
        assert connection.select_bucket("local").status == Status.ACCESS


def test_bucket_default_of_loopback_needs_a_login_from_another_machine(node):
    node.create_bucket("default", passwordless=1)
    try:
        for op, extras in ((Op.GET, b""), (Op.SET, bytes(8)), (TAP_CONNECT, bytes(4)), (DCP_OPEN, bytes(8))):
            with Connection(node.kv_port, host=node.host) as connection:
                key = b"key"
                connection.send(frame(op, key, extras, vbucket=vbucket_of(key)))
                assert connection.receive().status == Status.ACCESS, op
        with node.network.inside("db1"), Connection(node.kv_port) as connection:
            assert connection.set(b"key", b"1").status == Status.SUCCESS
    finally:
        node.admin.delete(f"{BUCKETS}/default")


def test_loopback_of_the_same_node_is_served_as_before(node):
    """The rows of privileges.txt for requests without a login."""
    with node.network.inside("db1"):
        for route in TABLE.routes:
            for bucket in ("local", "closed"):
                port = node.admin_port if route.port == "admin port" else node.views_port
                body = None if route.method == "GET" else "--x--\r\n"
                client = Rest(port, None, "127.0.0.1")
                reply = client.head_of(route.method, route.target(bucket), body, MULTIPART)
                allowed = TABLE.allows(route.need, "none", bucket == "local")
                assert (reply.status != 401) == allowed, (route, bucket, reply)
        with Connection(node.kv_port) as connection:
            assert connection.plain("local", "").status == Status.SUCCESS
            assert connection.set(b"key", b"{}").status == Status.SUCCESS
            assert connection.call(DCP_OPEN, b"name", struct.pack(">II", 0, 1)).status == Status.SUCCESS


def test_bucket_of_the_network_is_read_over_http_and_no_more(node, open_bucket):
    for route, bucket in itertools.product(TABLE.routes, (open_bucket, "local", "closed")):
        is_own = bucket == open_bucket
        if not is_own and not route.is_of_a_bucket:
            continue
        for login in logins(open_bucket):
            status = ask(node, route, bucket, login).status
            allowed = route.need in ("open", "login") or route.need in NETWORK and (
                is_own or not route.is_of_a_bucket
            )
            # One that sends a name has an identity, which lacks the permission.
            refused = (401,) if login is None else (403,)
            if route.path == "/controller/changePassword" and login is not None:
                allowed = True
            assert (status in refused) != allowed or allowed and route.need == "login", (
                route, bucket, login, status)
        # The name of another bucket is no login.
        if not is_own:
            assert ask(node, route, bucket, (bucket, "")).status == 401, (route, bucket)


def test_bucket_of_the_network_shows_its_entry_map_and_views(node, open_bucket):
    for login in logins(open_bucket):
        rest, views = (Rest(port, login, node.host) for port in (node.admin_port, node.views_port))
        assert [each["name"] for each in rest.get(BUCKETS).json] == [open_bucket]
        entry = rest.get(f"{BUCKETS}/{open_bucket}").json
        assert entry["vBucketServerMap"]["vBucketMap"]
        assert rest.get(f"/pools/default/b/{open_bucket}").status == 200
        path = f"/{open_bucket}/_design/d/_view/v?stale=false"
        rows = views.get(path).json["rows"]
        assert [row["id"] for row in rows] == ["key"] and "doc" not in rows[0]
        for more in ("&include_docs=true", "&include_docs=false&include_docs=true"):
            assert views.get(path + more).status in (401, 403)
        reply = views.request("POST", path, '{"include_docs":true}', {"Content-Type": "application/json"})
        assert reply.status in (401, 403)
        body = json.dumps(DESIGN)
        json_type = {"Content-Type": "application/json"}
        for method in ("PUT", "DELETE"):
            for base, client in (("", views), ("/couchBase", rest)):
                reply = client.request(method, f"{base}/{open_bucket}/_design/new", body, json_type)
                assert reply.status in (401, 403), (method, base, reply)
        assert rest.get(f"{BUCKETS}/{open_bucket}/docs/key").status in (401, 403)
        assert rest.post(f"{BUCKETS}/{open_bucket}/docs/key", {"value": "1"}).status in (401, 403)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA1", "SCRAM-SHA512"])
def test_bucket_of_the_network_is_read_and_written_on_the_data_port(node, open_bucket, mechanism):
    with Connection(node.kv_port, host=node.host) as connection:
        connection.log_in(open_bucket, "") if mechanism != "PLAIN" else connection.plain(open_bucket, "")
        assert connection.set(b"one", b"1").status == Status.SUCCESS
        assert connection.get(b"one").value == b"1"
        assert connection.call(Op.GET_CLUSTER_CONFIG).status == Status.SUCCESS
        assert connection.select_bucket("local").status == Status.ACCESS
        assert connection.select_bucket("closed").status == Status.ACCESS
        refused = (DCP_OPEN, b"name", struct.pack(">II", 0, 1)), (TAP_CONNECT, b"name", bytes(4))
        for op, key, extras in refused:
            assert connection.call(op, key, extras).status == Status.ACCESS, hex(op)


def test_bucket_default_of_the_network_needs_no_login_on_the_data_port(node):
    node.create_bucket("default", passwordless="network")
    try:
        with Connection(node.kv_port, host=node.host) as connection:
            assert connection.set(b"key", b"1").status == Status.SUCCESS
            assert connection.get(b"key").value == b"1"
            assert connection.call(TAP_CONNECT, b"name", bytes(4)).status == Status.ACCESS
        # The change affects connections that are open.
        with Connection(node.kv_port, host=node.host) as connection:
            assert connection.get(b"key").value == b"1"
            assert node.admin.post(f"{BUCKETS}/default", {"passwordless": 1}).status == 200
            assert connection.get(b"key").status == Status.ACCESS
    finally:
        node.admin.delete(f"{BUCKETS}/default")


def test_creation_of_a_bucket_for_the_network_warns(node):
    form = {"name": "warned", "ramQuotaMB": 100, "replicaNumber": 0, "passwordless": "network"}
    validated = node.admin.post(f"{BUCKETS}?just_validate=1", form)
    assert "Warning" in validated.json["errors"]["passwordless"]
    reply = node.admin.post(BUCKETS, form)
    assert reply.status == 202 and '"warned"' in reply.headers["Divan-Warning"]
    node.await_bucket("warned")
    try:
        entry = node.admin.get(f"{BUCKETS}/warned").json
        assert entry["passwordless"] is True and entry["passwordlessNetwork"] is True
        warning = 'Bucket "warned" needs no password from any address'
        assert warning in node.log()
        assert any(warning in each["text"] for each in node.admin.get("/logs").json["list"])
        for setting, warns in ((1, False), (0, False), ("network", True)):
            reply = node.admin.post(f"{BUCKETS}/warned", {"passwordless": setting})
            assert reply.status == 200 and ("Divan-Warning" in reply.headers) == warns, setting
        assert node.log().count(warning) == 2
        refused = node.admin.post(f"{BUCKETS}/warned", {"passwordless": "everywhere"})
        assert refused.status == 400 and "0, 1 or network" in refused.json["errors"]["passwordless"]
    finally:
        node.admin.delete(f"{BUCKETS}/warned")


def test_gateway_on_another_machine_mounts_as_a_local_user_of_the_buckets_name(node):
    """The way of docs/gateways.md for gateways on other machines."""
    node.create_bucket("sync")
    try:
        form = {"password": "sync-password", "roles": "bucket_full_access[sync]"}
        assert node.admin.put("/settings/rbac/users/local/sync", form).status == 200
        gateway = Gateway(node, "sync", password="sync-password")
        gateway.discover()
        gateway.install()
        with gateway.log_in() as writer, gateway.log_in() as feed, gateway.log_in() as tap:
            consumer = gateway.open_dcp(feed)
            # TAP_CONNECT has no reply: the reply to a later request comes first.
            tap.send(frame(TAP_CONNECT, extras=struct.pack(">I", 1), value=b"\xff" * 8))
            assert tap.call(Op.NOOP).op == Op.NOOP
            gateway.write(writer, "doc", 1)
            while consumer.receive().key != b"doc":
                pass
            while tap.receive().key != b"doc":
                pass
        assert [row["id"] for row in gateway.channel("news")] == ["doc"]
        wrong = Gateway(node, "sync")
        assert wrong.rest.get("/pools").status == 401
        with wire.Connection(node.kv_port, host=node.host) as connection:
            assert connection.plain("sync", "").status == Status.AUTH_ERROR
    finally:
        node.admin.delete("/settings/rbac/users/local/sync")
        node.admin.delete(f"{BUCKETS}/sync")
