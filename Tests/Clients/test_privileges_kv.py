"""Who may send which command on the data port: every opcode with every role and without a login."""

import struct

import pytest

from rig import dcp, privileges, tls
from rig import subdocument as sub
from rig.dcp import Consumer
from rig.node import PASSWORD, USER, Node, wait_until
from rig.wire import USUAL_FEATURES, Closed, Connection, Feature, Op, Status, frame

ROLES = (
    "admin ro_admin cluster_admin bucket_admin bucket_full_access views_admin views_reader "
    "data_reader data_writer data_dcp_reader"
).split()
OF_THE_CLUSTER = {"admin", "ro_admin", "cluster_admin"}

# The roles that have each privilege in the bucket that they are granted for.
READ = "admin bucket_full_access views_admin views_reader data_reader data_dcp_reader"
WRITE = "admin bucket_full_access data_writer"
READ_AND_WRITE = "admin bucket_full_access"
METADATA = "admin bucket_full_access views_admin data_reader data_dcp_reader"
CHANGES = "admin bucket_full_access views_admin data_dcp_reader"
STATISTICS = "admin ro_admin cluster_admin bucket_admin bucket_full_access views_admin"
FLUSH = "admin cluster_admin bucket_admin bucket_full_access"
READ_SYSTEM = "admin bucket_full_access views_admin data_dcp_reader"
WRITE_SYSTEM = "admin bucket_full_access"
LOGIN = " ".join(ROLES)
OPEN = LOGIN + " none"

# opcodes, key, bytes of extras, value, logins that may send them
TABLE = [
    ("00 09 0c 0d", b"k", 0, b"", READ),  # GET, GETK
    ("83 94 95", b"k", 0, b"", READ),  # GET_REPLICA, GET_LOCKED, UNLOCK
    ("96 b6", b"", 0, b"", READ),  # GET_FAILOVER_LOG, GET_RANDOM_KEY
    ("01 03 11 13", b"k", 8, b"v", WRITE),  # SET, REPLACE
    ("02 12", b"k", 8, b"v", WRITE),  # ADD
    ("0e 0f 19 1a", b"k", 0, b"v", WRITE),  # APPEND, PREPEND
    ("1c", b"k", 4, b"", WRITE),  # TOUCH
    ("04 14", b"k", 0, b"", WRITE),  # DELETE
    ("05 06 15 16", b"k", 20, b"", READ_AND_WRITE),  # INCREMENT, DECREMENT
    ("1d 1e 23 24", b"k", 4, b"", READ_AND_WRITE),  # GAT, GATK
    ("a0 a1", b"k", 0, b"", METADATA),  # GET_META
    ("a2 a3 a4 a5", b"k", 24, b"v", READ_AND_WRITE),  # SET_WITH_META, ADD_WITH_META
    ("a8 a9", b"k", 24, b"", READ_AND_WRITE),  # DELETE_WITH_META
    ("91", b"", 0, bytes(8), METADATA),  # OBSERVE_SEQNO
    ("92", b"", 0, b"\0\0\0\1k", METADATA),  # OBSERVE
    ("48", b"", 0, b"", METADATA),  # GET_ALL_VB_SEQNOS
    ("40", b"", 4, b"", CHANGES),  # TAP_CONNECT
    ("50", b"name", 8, b"", CHANGES),  # DCP_OPEN
    ("51", b"", 4, b"", CHANGES),  # DCP_ADD_STREAM
    ("52 54", b"", 0, b"", CHANGES),  # DCP_CLOSE_STREAM, DCP_GET_FAILOVER_LOG
    ("53", b"", 48, b"", CHANGES),  # DCP_STREAM_REQ
    ("5c", b"", 0, b"", LOGIN),  # DCP_NOOP
    ("5d", b"", 4, b"", LOGIN),  # DCP_BUFFER_ACKNOWLEDGEMENT
    ("5e", b"name", 0, b"", LOGIN),  # DCP_CONTROL
    ("10", b"", 0, b"", STATISTICS),  # STAT
    ("08 18", b"", 0, b"", FLUSH),  # FLUSH
    ("1b", b"", 4, b"", LOGIN),  # VERBOSITY
    ("89", b"demo", 0, b"", LOGIN),  # SELECT_BUCKET
    ("b5", b"", 0, b"", LOGIN),  # GET_CLUSTER_CONFIG
    ("ba", b"", 0, b"", LOGIN),  # COLLECTIONS_GET_MANIFEST
    ("07 0a 0b 17 20", b"", 0, b"", OPEN),  # QUIT, NOOP, VERSION, SASL_LIST_MECHS
    ("1f", b"", 0, b"", OPEN),  # HELLO
    ("21 22", b"PLAIN", 0, b"", OPEN),  # SASL_AUTH, SASL_STEP
    ("fe", b"", 0, b"\0\1", OPEN),  # GET_ERROR_MAP
    ("c5 c6 d2", b"k", 3, b"a", READ),  # lookups of one path
    ("d0", b"k", 0, b"\xc5\0\0\1a", READ),  # SUBDOC_MULTI_LOOKUP
    ("c7 c8 c9 ca cb cc cd ce d3", b"k", 3, b"a", WRITE),  # mutations of one path
    ("cf", b"k", 3, b"a", READ_AND_WRITE),  # SUBDOC_COUNTER
    ("d1", b"k", 0, b"\xc9\0\0\1\0\0\0\0a", WRITE),  # SUBDOC_MULTI_MUTATION
]
BY_OPCODE = {int(op, 16): row for row in TABLE for op in row[0].split()}


def user_of(role):
    return f"kv-{role}"


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        node.start().provision()
        node.create_bucket("demo")
        node.create_bucket("other")
        for role in ROLES:
            reply = privileges.put_user(node, user_of(role), privileges.grant(role))
            assert reply.status == 200, reply
        yield node


@pytest.fixture(scope="module", params=["plain", "tls"])
def port(request, node):
    """How to connect to the node: to which port, and with which context of TLS."""
    if request.param == "plain":
        return node.kv_port, None
    return node.ready["kv_tls"], tls.context(tls.authority(node))


def connect(node, login, bucket="demo", password=privileges.PASSWORD, port=None):
    number, context = port or (node.kv_port, None)
    connection = Connection(number, context=context)
    connection.hello(USUAL_FEATURES)
    if login is not None:
        assert connection.plain(login, password).status == Status.SUCCESS, login
        if bucket is not None:
            assert connection.select_bucket(bucket).status == Status.SUCCESS, (login, bucket)
    return connection


@pytest.fixture
def user(node):
    """A user of the test's own, and the function that changes its roles."""
    name = "changing"

    def put(roles, password=privileges.PASSWORD):
        reply = privileges.put_user(node, name, roles, password)
        assert reply.status == 200, reply

    put("bucket_full_access[demo]")
    yield name, put
    node.admin.delete(f"/settings/rbac/users/local/{name}")


def status_of(connection, opcode, row):
    """The status of a command; None if it has no response. The connection is used up."""
    _, key, extras, value, _ = row
    connection.send(
        frame(opcode, key, bytes(extras), value, opaque=7) + frame(Op.NOOP, opaque=8)
    )
    found = None
    try:
        while True:
            reply = connection.receive()
            if reply.magic == 0x80:
                continue  # A change of TAP.
            if reply.opaque == 8:
                return found
            if reply.opaque == 7:
                found = reply.status
    except (Closed, ConnectionError):
        return found


@pytest.mark.parametrize("role", ROLES + ["none"])
def test_role_may_send_exactly_the_commands_of_the_table(node, role, port):
    wrong = []
    for opcode in range(256):
        row = BY_OPCODE.get(opcode, ("", b"", 0, b"", ""))
        with connect(node, None if role == "none" else user_of(role), port=port) as connection:
            status = status_of(connection, opcode, row)
        if opcode not in BY_OPCODE:
            expected = status == Status.UNKNOWN_COMMAND
        elif role in row[4].split():
            expected = status != Status.ACCESS
        else:
            expected = status == Status.ACCESS
        if not expected:
            wrong.append(f"{opcode:#04x}: {status}")
    assert wrong == []


@pytest.mark.parametrize("role", ROLES)
def test_role_uses_system_attributes_by_their_own_privileges(node, role):
    key, path = f"system-{role}", sub.Path.XATTR
    features = [*USUAL_FEATURES, Feature.XATTR]
    with node.connect("demo", features) as owner:
        written = sub.mutate(
            owner,
            key,
            sub.attribute("_sync", 1),
            sub.attribute("user", 2),
            sub.body(b"{}"),
            doc_flags=sub.Doc.MKDOC,
        )
        assert written.status == Status.SUCCESS
    with connect(node, user_of(role)) as kv:
        kv.hello(features)
        names = ("_sync", "user", "$XTOC")
        found = sub.lookup(kv, key, *[(sub.GET, path, name) for name in names])
        if role in READ_SYSTEM.split():
            values = [(0, b"1"), (0, b"2"), (0, b'["_sync","user"]')]
            assert (found.status, found.results) == (Status.SUCCESS, values)
        elif role in READ.split():
            values = [(Status.ACCESS, b""), (0, b"2"), (0, b'["user"]')]
            assert (found.status, found.results) == (sub.MULTI_PATH_FAILURE, values)
        else:
            assert found.status == Status.ACCESS
        specs = (sub.attribute("user", 3), sub.attribute("_sync", 3))
        changed = sub.mutate(kv, key, *specs)
        if role in WRITE_SYSTEM.split():
            assert changed.status == Status.SUCCESS
        elif role in WRITE.split():
            denied = (sub.MULTI_PATH_FAILURE, (1, Status.ACCESS))
            assert (changed.status, changed.failed) == denied
            assert sub.mutate(kv, key, specs[0]).status == Status.SUCCESS
        else:
            assert changed.status == Status.ACCESS
    path = f"/pools/default/buckets/demo/docs/{key}"
    reply = node.anonymous.as_user(user_of(role), privileges.PASSWORD).get(path)
    if role in READ.split():
        expected = {"_sync", "user"} if role in READ_SYSTEM.split() else {"user"}
        assert set(reply.json["xattrs"]) == expected
    else:
        assert reply.status == 403


@pytest.mark.parametrize("role", ROLES)
def test_role_of_one_bucket_selects_no_other(node, role):
    with connect(node, user_of(role)) as connection:
        expected = Status.SUCCESS if role in OF_THE_CLUSTER else Status.ACCESS
        assert connection.select_bucket("other").status == expected
        assert connection.select_bucket("absent").status == Status.ACCESS


def test_reader_of_metrics_selects_no_bucket(node, user):
    name, put = user
    put("external_stats_reader")
    with connect(node, name, bucket=None) as connection:
        assert connection.select_bucket("demo").status == Status.ACCESS


def test_refusal_names_command_privilege_user_and_bucket(node):
    with connect(node, user_of("data_reader")) as connection:
        reply = connection.set("k", b"v")
        assert reply.status == Status.ACCESS
        for word in (b"set", b"Upsert", b"kv-data_reader", b"demo"):
            assert word in reply.value, reply.value


# Changes of users on connections that are logged in


def test_revoked_role_is_refused_at_the_next_request(user, node):
    name, put = user
    with connect(node, name) as connection:
        assert connection.set("revoked", b"1").status == Status.SUCCESS
        put("data_reader[demo]", password=None)
        assert connection.set("revoked", b"2").status == Status.ACCESS
        assert connection.get("revoked").value == b"1"
        put("data_reader[other]", password=None)
        assert connection.get("revoked").status == Status.ACCESS
        assert connection.select_bucket("demo").status == Status.ACCESS
        assert connection.select_bucket("other").status == Status.SUCCESS


def test_deleted_user_loses_everything_and_a_recreated_one_has_to_log_in(user, node):
    name, put = user
    with connect(node, name) as connection:
        assert connection.set("deleted", b"1").status == Status.SUCCESS
        assert node.admin.delete(f"/settings/rbac/users/local/{name}").status == 200
        for attempt in range(2):
            assert connection.get("deleted").status == Status.ACCESS
            assert connection.select_bucket("demo").status == Status.ACCESS
            assert connection.call(Op.GET_CLUSTER_CONFIG).status == Status.ACCESS
            if attempt == 0:
                assert connection.plain(name, privileges.PASSWORD).status == Status.AUTH_ERROR
                put("bucket_full_access[demo]")
        assert connection.plain(name, privileges.PASSWORD).status == Status.SUCCESS
        assert connection.select_bucket("demo").status == Status.SUCCESS
        assert connection.get("deleted").value == b"1"


def test_changed_password_ends_no_session(user, node):
    name, put = user
    with connect(node, name) as connection:
        put("bucket_full_access[demo]", password="another one")
        assert connection.set("kept", b"1").status == Status.SUCCESS
        with Connection(node.kv_port) as other:
            assert other.plain(name, privileges.PASSWORD).status == Status.AUTH_ERROR
            assert other.log_in(name, "another one").status == Status.SUCCESS


def test_deleted_bucket_takes_its_grants_along(user, node):
    name, put = user
    node.create_bucket("brief")
    put("data_reader[brief]", password=None)
    with connect(node, name, "brief") as connection:
        assert node.admin.delete("/pools/default/buckets/brief").status == 200
        node.create_bucket("brief")
        assert connection.get("k").status in (Status.ACCESS, Status.NO_BUCKET)
        assert connection.select_bucket("brief").status == Status.ACCESS


def test_revocation_ends_running_streams_with_their_reason(user, node):
    name, put = user
    put("data_dcp_reader[demo]", password=None)
    with connect(node, name) as connection, node.connect("demo") as writer:
        assert writer.set("streamed", b"before", vbucket=3).status == Status.SUCCESS
        consumer = Consumer(connection, name="revoked")
        assert consumer.opened.status == Status.SUCCESS
        assert consumer.request(3).status == Status.SUCCESS
        while consumer.receive().key != b"streamed":
            pass
        put("data_reader[demo]", password=None)
        assert writer.set("streamed", b"after", vbucket=3).status == Status.SUCCESS
        message = consumer.receive()
        assert (message.op, message.vbucket) == (dcp.STREAM_END, 3), message
        assert int.from_bytes(message.extras, "big") == 8
        assert consumer.request(3).status == Status.ACCESS
        assert consumer.call(dcp.ADD_STREAM, extras=bytes(4)).status == Status.ACCESS
        assert connection.get("k").status in (Status.SUCCESS, Status.NOT_FOUND)


def test_deletion_of_a_user_ends_an_idle_stream(user, node):
    name, put = user
    put("data_dcp_reader[demo]", password=None)
    with connect(node, name) as connection:
        consumer = Consumer(connection, name="deleted")
        assert consumer.request(5).status == Status.SUCCESS
        assert node.admin.delete(f"/settings/rbac/users/local/{name}").status == 200
        while consumer.receive().op != dcp.STREAM_END:
            pass


def test_revocation_closes_tap(user, node):
    name, put = user
    put("data_dcp_reader[demo]", password=None)
    with connect(node, name) as connection:
        connection.send(frame(0x40, extras=struct.pack(">I", 1), value=b"\xff" * 8))
        assert connection.call(Op.NOOP).status == Status.SUCCESS
        put("data_reader[demo]", password=None)
        assert connection.is_closed_by_server()


# Logins (sync-gateway-mount.md, section 1, traps 9, 10 and 14)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA512", "SCRAM-SHA256"])
def test_local_user_logs_in_by_every_mechanism(node, mechanism):
    with Connection(node.kv_port) as connection:
        name = user_of("data_reader")
        assert connection.log_in(name, "wrong", mechanism).status == Status.AUTH_ERROR
        assert connection.log_in(name, privileges.PASSWORD, mechanism).status == Status.SUCCESS
        assert connection.get("k").status == Status.NO_BUCKET
        assert connection.select_bucket("demo").status == Status.SUCCESS


@pytest.fixture(scope="module")
def guarded(node):
    """A bucket with a password of its own."""
    node.create_bucket("guarded", authType="sasl", saslPassword="its own")
    return "guarded"


MECHANISMS = ["PLAIN", "SCRAM-SHA512", "SCRAM-SHA256"]


def log_in(connection, user, password, mechanism):
    if mechanism == "PLAIN":
        return connection.plain(user, password).status
    return connection.log_in(user, password, mechanism).status


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_name_of_a_bucket_with_its_password_selects_the_bucket(node, guarded, mechanism):
    with Connection(node.kv_port) as connection:
        for wrong in ("", "password"):
            assert log_in(connection, guarded, wrong, mechanism) == Status.AUTH_ERROR
        assert connection.get("k").status == Status.ACCESS
        assert log_in(connection, guarded, "its own", mechanism) == Status.SUCCESS
        assert connection.set("k", b"v").status == Status.SUCCESS
        assert connection.select_bucket("demo").status == Status.ACCESS
        assert connection.get("k").value == b"v"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_name_of_a_passwordless_bucket_selects_the_bucket(node, mechanism):
    name = "open-" + mechanism.lower()
    node.create_bucket(name, passwordless=1)
    with Connection(node.kv_port) as connection:
        assert log_in(connection, name, "any", mechanism) == Status.AUTH_ERROR
        assert log_in(connection, name, "", mechanism) == Status.SUCCESS
        assert connection.set("k", b"v").status == Status.SUCCESS
        assert connection.select_bucket("demo").status == Status.ACCESS


def test_password_of_a_bucket_can_be_changed_and_removed(node):
    node.create_bucket("changed", saslPassword="first")
    path = "/pools/default/buckets/changed"
    with Connection(node.kv_port) as connection, Connection(node.kv_port) as other:
        assert connection.plain("changed", "first").status == Status.SUCCESS
        assert node.admin.post(path, {"saslPassword": "second"}).status == 200
        assert other.plain("changed", "first").status == Status.AUTH_ERROR
        assert other.plain("changed", "second").status == Status.SUCCESS
        assert connection.set("k", b"v").status == Status.SUCCESS
        # A form without the field keeps the password.
        assert node.admin.post(path, {"flushEnabled": 0}).status == 200
        assert connection.get("k").status == Status.SUCCESS
        assert node.admin.post(path, {"saslPassword": ""}).status == 200
        for each in (connection, other):
            assert each.get("k").status == Status.ACCESS
            assert each.plain("changed", "second").status == Status.AUTH_ERROR


def test_password_of_a_bucket_works_over_http_and_after_a_restart(make_node):
    node = make_node().start().provision().create_bucket("guarded", saslPassword="its own")
    for _ in range(2):
        client = node.anonymous.as_user("guarded", "its own")
        assert client.get("/pools/default/buckets/guarded").status == 200
        assert node.anonymous.as_user("guarded", "").get("/pools/default").status == 401
        with Connection(node.kv_port) as connection:
            assert connection.plain("guarded", "its own").status == Status.SUCCESS
            wait_until(lambda: connection.set("k", b"v").status == Status.SUCCESS)
        node.stop()
        node.start().await_bucket("guarded")


def test_password_of_a_passwordless_bucket_is_refused(node):
    form = {"name": "both", "ramQuotaMB": 100, "saslPassword": "x", "passwordless": 1}
    reply = node.admin.post("/pools/default/buckets", form)
    assert reply.status == 400 and "saslPassword" in reply.json["errors"]


def test_local_user_takes_precedence_over_the_bucket_of_its_name(node):
    node.create_bucket("twin", passwordless=1)
    with Connection(node.kv_port) as guest:
        assert guest.plain("twin", "").status == Status.SUCCESS
        assert privileges.put_user(node, "twin", "data_reader[twin]").status == 200
        for mechanism in MECHANISMS:
            with Connection(node.kv_port) as connection:
                assert log_in(connection, "twin", "", mechanism) == Status.AUTH_ERROR
                password = privileges.PASSWORD
                assert log_in(connection, "twin", password, mechanism) == Status.SUCCESS
                assert connection.set("k", b"v").status == Status.ACCESS
                assert connection.get("k").status == Status.NOT_FOUND


def test_user_named_like_a_bucket_that_it_may_not_use_has_none_selected(node):
    node.create_bucket("namesake")
    assert privileges.put_user(node, "namesake", "data_reader[demo]").status == 200
    with Connection(node.kv_port) as connection:
        assert connection.plain("namesake", privileges.PASSWORD).status == Status.SUCCESS
        assert connection.get("k").status == Status.NO_BUCKET
        assert connection.select_bucket("namesake").status == Status.ACCESS
        assert connection.select_bucket("demo").status == Status.SUCCESS


def test_administrator_named_like_a_bucket_selects_it(node):
    node.create_bucket(USER)
    with Connection(node.kv_port) as connection:
        assert connection.log_in(USER, PASSWORD).status == Status.SUCCESS
        assert connection.set("k", b"v").status == Status.SUCCESS


def test_new_login_keeps_no_selected_bucket(node):
    with connect(node, user_of("admin")) as connection:
        name = user_of("data_reader")
        assert connection.plain(name, privileges.PASSWORD).status == Status.SUCCESS
        assert connection.get("k").status == Status.NO_BUCKET
