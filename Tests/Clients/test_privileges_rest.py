"""Who may use which route of the HTTP ports: `privileges.txt` against a real node."""

import concurrent.futures
import json

import pytest

from rig import privileges, tls
from rig.node import Node, wait_until
from rig.rest import Rest

TABLE = privileges.Table()
# A body that no route accepts: an allowed request changes nothing.
MULTIPART = {"Content-Type": "multipart/form-data; boundary=x"}
BUCKETS = "/pools/default/buckets"


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        node.start().provision()
        for name in ("demo", "elsewhere"):
            node.create_bucket(name)
            for number in range(3):
                path = f"{BUCKETS}/{name}/docs/doc-{number}"
                assert node.admin.post(path, {"value": json.dumps({"of": name})}).status == 200
        node.create_bucket("open", passwordless=1)
        for role in TABLE.logins:
            if role != "none":
                reply = privileges.put_user(node, role, privileges.grant(role))
                assert reply.status == 200, reply
        node.views_port = int(node.flag("--views-port"))
        yield node


@pytest.fixture(scope="module", params=["plain", "tls"])
def context(request, node):
    """The context of TLS of a client; None on plain ports."""
    return None if request.param == "plain" else tls.context(tls.authority(node))


def as_login(node, login, port="admin port", context=None):
    if context is not None:
        number = node.ready["admin_tls" if port == "admin port" else "views_tls"]
    else:
        number = node.admin_port if port == "admin port" else node.views_port
    credentials = None if login == "none" else (login, privileges.PASSWORD)
    return Rest(number, credentials, context=context)


def outcome(node, login, route, bucket, context=None):
    """`allowed`, `401` or `403`; the form of a refusal is checked too."""
    client = as_login(node, login, route.port, context)
    path = route.target(bucket)
    if route.method == "GET":
        reply = client.head_of("GET", path)
    else:
        reply = client.head_of(route.method, path, "--x--\r\n", MULTIPART)
    need = route.need.replace("[.]", f"[{bucket}]")
    if reply.status == 401:
        if route.port == "view port":
            assert reply.json == {"error": "unauthorized", "reason": "password required"}
        else:
            assert b"name and the password" in reply.body
        assert reply.headers["WWW-Authenticate"].startswith("Basic realm=")
        return "401"
    if reply.status == 403 and route.port == "view port":
        assert reply.json["error"] == "forbidden" and need in reply.json["reason"]
        assert reply.json["permissions"] == [need]
        return "403"
    # An allowed request to evaluate code is refused with this status too.
    if reply.status == 403 and route.path != "/diag/eval" or b'"permissions"' in reply.body[:100]:
        assert reply.json == {
            "message": "Forbidden. User needs the following permissions",
            "permissions": [need],
        }
        return "403"
    assert reply.status < 500 or reply.status in (501, 503), (route, reply)
    return "allowed"


@pytest.mark.parametrize("login", TABLE.logins)
def test_login_may_use_exactly_the_routes_of_the_table(node, login, context):
    own, other = ("open", "demo") if login == "none" else ("demo", "elsewhere")
    wrong = []
    for route in TABLE.routes:
        for bucket, is_own in ((own, True), (other, False)):
            if not route.is_of_a_bucket and not is_own:
                continue
            refusal = "401" if login == "none" else "403"
            allowed = TABLE.allows(route.need, login, is_own)
            expected = "allowed" if allowed else refusal
            found = outcome(node, login, route, bucket, context)
            if found != expected:
                wrong.append(f"{route} of {bucket}: {found}, expected {expected}")
    assert wrong == []


@pytest.mark.parametrize("credentials", [("admin", "wrong"), ("unknown", "secret"), ("demo", "")])
def test_wrong_credentials_are_refused_on_every_route_that_needs_some(node, credentials):
    for place, route in enumerate(TABLE.routes):
        if route.need == "open":
            continue
        number = node.admin_port if route.port == "admin port" else node.views_port
        # Logins of an address are delayed after five refused ones.
        source = f"127.0.{1 + place // 250}.{1 + place % 250}"
        reply = Rest(number, credentials, source=source).head_of(
            route.method, route.target("open"), None if route.method == "GET" else "--x--\r\n", MULTIPART
        )
        assert reply.status == 401, route


def test_node_without_a_passwordless_bucket_refuses_every_request_without_login(make_node):
    node = make_node().start().provision().create_bucket("demo")
    node.views_port = int(node.flag("--views-port"))
    for route in TABLE.routes:
        expected = "allowed" if route.need == "open" else "401"
        assert outcome(node, "none", route, "demo") == expected, route


def test_data_reader_reads_its_bucket_and_nothing_else(node):
    reader = as_login(node, "data_reader")
    listed = reader.get(f"{BUCKETS}/demo/docs?include_docs=true").json["rows"]
    assert [row["doc"]["json"] for row in listed] == [{"of": "demo"}] * 3
    assert json.loads(reader.get(f"{BUCKETS}/demo/docs/doc-1").json["json"]) == {"of": "demo"}
    assert reader.get(f"{BUCKETS}/elsewhere/docs/doc-1").status == 403
    assert reader.post(f"{BUCKETS}/demo/docs/doc-1", {"value": "{}"}).status == 403
    assert reader.delete(f"{BUCKETS}/demo/docs/doc-1").status == 403
    assert [each["name"] for each in reader.get(BUCKETS).json] == ["demo"]
    pool = reader.get("/pools/default").json
    assert [each["bucketName"] for each in pool["bucketNames"]] == ["demo"]
    assert "elsewhere" not in json.dumps(pool)
    assert node.admin.get(f"{BUCKETS}/demo/docs/doc-1").status == 200


def test_missing_bucket_is_404_for_a_permitted_user_and_403_for_another(node):
    assert as_login(node, "ro_admin").get(f"{BUCKETS}/absent").status == 404
    assert as_login(node, "data_reader").get(f"{BUCKETS}/absent").status == 403


def test_whoami_and_the_pools_describe_the_user(node):
    me = as_login(node, "data_reader").get("/whoami").json
    assert (me["id"], me["domain"]) == ("data_reader", "local")
    assert [(each["role"], each["bucket_name"]) for each in me["roles"]] == [("data_reader", "demo")]
    for login in ("admin", "cluster_admin", "ro_admin", "data_reader"):
        pools = as_login(node, login).get("/pools").json
        assert pools["isAdminCreds"] is (login == "admin")
        assert pools["isROAdminCreds"] is (login == "ro_admin")


@pytest.mark.parametrize("login", TABLE.logins)
def test_check_permissions_agrees_with_the_table(node, login):
    own, other = ("open", "demo") if login == "none" else ("demo", "elsewhere")
    expected = {}
    for permission in TABLE.own:
        expected[permission.replace("[.]", f"[{own}]")] = TABLE.allows(permission, login, True)
        if "[.]" in permission:
            expected[permission.replace("[.]", f"[{other}]")] = TABLE.allows(permission, login, False)
    reply = as_login(node, login).request(
        "POST", "/pools/default/checkPermissions", ",".join(expected)
    )
    assert reply.status == 200
    assert reply.json == expected


@pytest.mark.parametrize("body", ["", "no permission", "cluster.bucket[demo!read", ","])
def test_malformed_permissions_are_refused(node, body):
    reply = as_login(node, "data_reader").request("POST", "/pools/default/checkPermissions", body)
    assert reply.status == 400 and isinstance(reply.json, str)


# Fields of a bucket's form

FIELD_VALUES = {"passwordless": "1", "saslPassword": "of-the-bucket"}


@pytest.mark.parametrize("field", TABLE.fields)
def test_field_of_a_bucket_needs_its_permission_beside_that_of_the_route(node, field):
    need = TABLE.fields[field]
    form = {field: FIELD_VALUES.get(field, "no such value")}
    for login in ("admin", "cluster_admin", "bucket_admin"):
        client = as_login(node, login)
        allowed = need is None or login in TABLE.own[need]
        new = {"ramQuotaMB": 100, "numVBuckets": 64, **form, "name": "new"}
        replies = [client.post(f"{BUCKETS}/demo?just_validate=1", form)]
        if not allowed:
            replies.append(client.post(f"{BUCKETS}/demo", form))
        if login != "bucket_admin":
            replies.append(client.post(f"{BUCKETS}?just_validate=1", new))
        if login != "bucket_admin" and not allowed:
            replies.append(client.post(BUCKETS, new))
        for reply in replies:
            assert (reply.status == 403) is not allowed, (login, reply)
            if not allowed:
                (permission,) = reply.json["permissions"]
                assert permission in (need.replace("[.]", f"[{name}]") for name in ("demo", "new"))
    assert node.admin.get(f"{BUCKETS}/new").status == 404


def test_bucket_administrator_changes_what_grants_no_access(node):
    client = as_login(node, "bucket_admin")
    assert client.post(f"{BUCKETS}/demo", {"saslPassword": "", "passwordless": 0}).status == 200
    assert client.post(f"{BUCKETS}/demo", {"flushEnabled": 0}).status == 200


def test_change_of_access_is_an_event_with_the_login(make_node):
    node = make_node().start().provision().create_bucket("demo")
    privileges.put_user(node, "chief", "admin")
    chief = Rest(node.admin_port, ("chief", privileges.PASSWORD))
    assert chief.post(f"{BUCKETS}/demo", {"saslPassword": "of-the-bucket"}).status == 200
    form = {"name": "open", "ramQuotaMB": 100, "numVBuckets": 64, "passwordless": 1}
    assert chief.post(BUCKETS, form).status == 202
    assert chief.put("/settings/rbac/users/local/helper", {
        "roles": "ro_admin", "password": privileges.PASSWORD,
    }).status == 200
    assert chief.delete("/settings/rbac/users/local/helper").status == 200
    texts = [each["text"] for each in node.admin.get("/logs").json["list"]]
    assert 'The access to bucket "demo" was changed by "chief": saslPassword.' in texts
    assert 'The access to bucket "open" was changed by "chief": passwordless=1.' in texts
    proposed = f"Proposed by 127.0.0.1:{node.admin_port}."
    assert f'The user "helper" was created by "chief", with the role ro_admin. {proposed}' in texts
    assert f'The user "helper" was deleted by "chief". {proposed}' in texts
    assert not any("of-the-bucket" in text or privileges.PASSWORD in text for text in texts)


# Changes of a user


def test_revocation_and_deletion_have_effect_on_the_next_request(node):
    privileges.put_user(node, "short", "data_reader[demo]")
    user = Rest(node.admin_port, ("short", privileges.PASSWORD))
    path = f"{BUCKETS}/demo/docs/doc-0"
    assert user.get(path).status == 200
    assert privileges.put_user(node, "short", "data_writer[demo]", None).status == 200
    assert user.get(path).status == 403
    assert privileges.put_user(node, "short", "data_reader[demo]", "another-password").status == 200
    assert user.get(path).status == 401
    user = Rest(node.admin_port, ("short", "another-password"))
    assert user.get(path).status == 200
    assert node.admin.delete("/settings/rbac/users/local/short").status == 200
    assert user.get(path).status == 401


@pytest.mark.parametrize("path", [f"{BUCKETS}Streaming/demo", "/pools/default/bs/demo"])
def test_stream_ends_when_its_permission_is_revoked(node, path):
    privileges.put_user(node, "streamer", "data_reader[demo]")
    user = Rest(node.admin_port, ("streamer", privileges.PASSWORD))
    with user.stream(path) as stream:
        assert stream.status == 200 and b"demo" in stream.next()
        privileges.put_user(node, "streamer", "data_reader[elsewhere]", None)
        while stream.next() is not None:
            pass
    node.admin.delete("/settings/rbac/users/local/streamer")


def test_local_user_wins_over_a_bucket_of_the_same_name(make_node):
    node = make_node().start().provision().create_bucket("both", passwordless=1)
    login = Rest(node.admin_port, ("both", ""))
    assert login.get(f"{BUCKETS}/both").status == 200
    assert login.get("/whoami").json["domain"] == "bucket"
    assert privileges.put_user(node, "both", "ro_admin").status == 200
    assert login.get(f"{BUCKETS}/both").status == 401
    user = Rest(node.admin_port, ("both", privileges.PASSWORD))
    assert user.get("/whoami").json["domain"] == "local"


# The console's sessions


def console_login(node, user, password=privileges.PASSWORD):
    """The reply to a login, and a client of the session; None after a refusal."""
    reply = node.anonymous.post("/uilogin", {"user": user, "password": password})
    cookie = reply.headers.get("Set-Cookie")
    if cookie is None:
        return reply, None
    headers = {"ns-server-ui": "yes", "Cookie": cookie.split(";")[0]}

    def get(path):
        return node.anonymous.get(path, headers=headers)

    return reply, get


@pytest.mark.parametrize("login", [each for each in TABLE.logins if each != "none"])
def test_console_admits_the_roles_with_its_permission(node, login):
    reply, get = console_login(node, login)
    if login in TABLE.own["cluster.ui!read"]:
        assert reply.status == 200
        assert get("/whoami").json["id"] == login
    else:
        assert reply.status == 403
        assert reply.json["permissions"] == ["cluster.ui!read"]


def test_console_session_ends_with_a_new_password_and_with_the_user(node):
    privileges.put_user(node, "operator", "ro_admin")
    _, get = console_login(node, "operator")
    assert get("/whoami").status == 200
    privileges.put_user(node, "operator", "ro_admin,bucket_admin[demo]", None)
    assert get("/whoami").status == 200
    privileges.put_user(node, "operator", "ro_admin", "another-password")
    assert get("/whoami").status == 401
    _, get = console_login(node, "operator", "another-password")
    assert get("/whoami").status == 200
    node.admin.delete("/settings/rbac/users/local/operator")
    assert get("/whoami").status == 401
    # A user of the same name and password is another user.
    privileges.put_user(node, "operator", "ro_admin", "another-password")
    assert get("/whoami").status == 401
    node.admin.delete("/settings/rbac/users/local/operator")


def test_wrong_passwords_in_number_leave_both_ports_answering(node):
    """Their checks take a thread of their own; the right password is cached."""
    right = [as_login(node, "admin"), as_login(node, "admin", "view port")]
    paths = ["/pools/default", "/demo/_design/absent"]
    assert [client.get(path).status for client, path in zip(right, paths)] == [200, 404]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        wrong = [
            pool.submit(Rest(port, ("admin", f"guess-{number}")).get, "/demo/_design/absent")
            for number in range(200)
            for port in (node.views_port,)
        ]
        answers = [client.get(path).status for _ in range(20) for client, path in zip(right, paths)]
        assert answers == [200, 404] * 20
        assert {each.result().status for each in wrong} == {401}


def test_user_with_write_permission_stores_a_large_document(node):
    writer = as_login(node, "data_writer")
    value = json.dumps({"pad": "x" * (3 << 20)})
    reply = writer.post(f"{BUCKETS}/demo/docs/large", {"value": value})
    assert reply.status == 200, reply
    wait_until(lambda: node.admin.get(f"{BUCKETS}/demo/docs/large").status == 200)
    # Other bodies of users that are not the administrator are small.
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": str(2 << 20)}
    large = as_login(node, "cluster_admin").head_of("POST", BUCKETS, None, headers)
    assert large.status == 413


# Logins of buckets


def test_bucket_with_its_password_has_the_rights_of_an_application(make_node):
    node = make_node().start().provision().create_bucket("demo", saslPassword="of-the-bucket")
    node.create_bucket("elsewhere")
    node.views_port = int(node.flag("--views-port"))
    bucket = Rest(node.admin_port, ("demo", "of-the-bucket"))
    assert bucket.get("/whoami").json["domain"] == "bucket"
    path = f"{BUCKETS}/demo/docs/one"
    assert bucket.post(path, {"value": "{}"}).status == 200
    assert bucket.get(path).status == 200
    assert bucket.get(f"{BUCKETS}/elsewhere/docs/one").status == 403
    assert [each["name"] for each in bucket.get(BUCKETS).json] == ["demo"]
    assert bucket.get(f"{BUCKETS}/demo").text.count("of-the-bucket") == 0
    assert Rest(node.views_port, ("demo", "of-the-bucket")).get("/demo/_design/d").status == 404
    for credentials in (("demo", ""), ("demo", "wrong"), ("elsewhere", ""), ("elsewhere", "of-the-bucket")):
        assert Rest(node.admin_port, credentials).get("/pools").status == 401
    # A new password ends the login with the old one.
    assert node.admin.post(f"{BUCKETS}/demo", {"saslPassword": "another-one"}).status == 200
    assert bucket.get(path).status == 401
    assert Rest(node.admin_port, ("demo", "another-one")).get(path).status == 200
