"""The start of a connection: HELLO, error map, login, bucket, cluster configuration."""

import json
import socket
import struct
import time

import pytest

from rig.node import PASSWORD, USER, wait_until
from rig.wire import Closed, Connection, Feature, Op, Status, USUAL_FEATURES, frame

ALL_FEATURES = list(range(1, 0x22)) + [0x7F, 0xFFFE]
# Advertised only by a server that has them.
NOT_BUILT = {
    Feature.TLS,
    Feature.SNAPPY_EVERYWHERE,
}
MECHANISMS = ["SCRAM-SHA512", "SCRAM-SHA256"]


@pytest.fixture
def raw(node):
    """A connection without any request yet."""
    with Connection(node.kv_port) as connection:
        yield connection


# HELLO


def test_hello_grants_the_features_that_clients_require(raw):
    granted = raw.hello(USUAL_FEATURES)
    assert {Feature.MUTATION_SEQNO, Feature.XERROR, Feature.SELECT_BUCKET, Feature.JSON} <= set(
        granted
    )


def test_hello_grants_only_requested_and_supported_features(raw):
    assert set(raw.hello([Feature.JSON, Feature.XERROR])) <= {Feature.JSON, Feature.XERROR}
    granted = set(raw.hello(ALL_FEATURES))
    assert granted <= set(ALL_FEATURES)
    assert not granted & NOT_BUILT
    assert 0x7F not in granted and 0xFFFE not in granted


def test_brief_map_push_is_preferred_and_needs_duplex(raw):
    kinds = [Feature.MAP_PUSH, Feature.MAP_PUSH_BRIEF]
    granted = set(raw.hello([Feature.DUPLEX, *kinds]))
    assert granted == {Feature.DUPLEX, Feature.MAP_PUSH_BRIEF}
    asked = struct.pack(">2H", *kinds)
    assert raw.call(Op.HELLO, b"", value=asked, vbucket=0).status == Status.INVALID


def test_repeated_hello_replaces_features(node, bucket):
    with node.connect(bucket) as connection:
        assert len(connection.set(b"hello-again", b"{}").extras) == 16
        connection.hello([Feature.JSON])
        assert connection.set(b"hello-again", b"{}").extras == b""


def test_hello_accepts_any_agent_text(raw):
    for agent in (b"", b"not json", b"\xff\xfe", b"a" * 250):
        assert raw.call(Op.HELLO, agent, value=b"\0\x0b", vbucket=0).status == Status.SUCCESS


def test_odd_feature_list_is_invalid(raw):
    assert raw.call(Op.HELLO, b"", value=b"\0\x0b\0", vbucket=0).status == Status.INVALID
    assert raw.call(Op.NOOP).status == Status.SUCCESS


def test_client_without_json_gets_no_datatype(node, bucket):
    with node.connect(bucket) as with_json:
        with_json.set(b"datatype", b'{"json":1}')
        assert with_json.get(b"datatype").datatype == 1
        with_json.set(b"datatype-2", b"no json")
        assert with_json.get(b"datatype-2").datatype == 0
    with node.connect(bucket, features=[Feature.SELECT_BUCKET]) as without:
        assert without.get(b"datatype").datatype == 0


# Error map


def error_map(connection, version):
    return connection.call(Op.GET_ERROR_MAP, value=version.to_bytes(2, "big"))


@pytest.mark.parametrize("asked", [1, 2, 3, 0xFFFF])
def test_error_map_is_never_newer_than_asked(raw, asked):
    reply = error_map(raw, asked)
    assert reply.status == Status.SUCCESS
    found = json.loads(reply.value)
    assert 1 <= found["version"] <= asked
    assert isinstance(found["revision"], int)


def test_every_error_has_name_description_and_attributes(raw):
    errors = json.loads(error_map(raw, 2).value)["errors"]
    for code in (0x01, 0x02, 0x03, 0x04, 0x07, 0x08, 0x09, 0x20, 0x24, 0x80, 0x81, 0x86, 0xA0):
        assert f"{code:x}" in errors
    for entry in errors.values():
        assert entry["name"] and entry["desc"] and isinstance(entry["attrs"], list)


def test_error_map_request_has_a_version(raw):
    assert raw.call(Op.GET_ERROR_MAP, value=b"\1").status == Status.INVALID
    assert raw.call(Op.GET_ERROR_MAP).status == Status.INVALID


# Login


def test_mechanisms_are_listed(raw):
    reply = raw.call(Op.SASL_LIST)
    assert reply.status == Status.SUCCESS
    assert set(MECHANISMS) | {"PLAIN"} == set(reply.value.decode().split(" "))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_scram_accepts_the_password_and_authenticates_the_server(raw, bucket, mechanism):
    assert raw.log_in(USER, PASSWORD, mechanism).status == Status.SUCCESS
    assert raw.select_bucket(bucket).status == Status.SUCCESS


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("login", [(USER, "wrong"), ("unknown", PASSWORD), (USER, "")])
def test_scram_refuses_a_wrong_login(raw, mechanism, login):
    assert raw.log_in(*login, mechanism).status == Status.AUTH_ERROR


def test_unknown_user_is_refused_at_the_same_step_as_a_known_one(raw, node):
    """Otherwise the answers would reveal which users exist."""
    request = frame(Op.SASL_AUTH, b"SCRAM-SHA256", value=b"n,,n=unknown,r=abcdefgh")
    raw.send(request)
    first = raw.receive()
    assert first.status == Status.AUTH_CONTINUE
    with Connection(node.kv_port) as other:
        other.send(request)
        again = dict(part.split("=", 1) for part in other.receive().value.decode().split(","))
    parts = dict(part.split("=", 1) for part in first.value.decode().split(","))
    # The salt of an unknown user is always the same, like that of a real one.
    assert parts["s"] == again["s"]
    assert parts["i"] == again["i"]


def salt_of_unknown_user(node):
    with Connection(node.kv_port) as connection:
        reply = connection.call(Op.SASL_AUTH, b"SCRAM-SHA512", value=b"n,,n=unknown,r=abcdefgh")
        return dict(part.split("=", 1) for part in reply.value.decode().split(","))["s"]


def test_salt_of_an_unknown_user_survives_a_restart(make_node):
    node = make_node().start().provision()
    first = salt_of_unknown_user(node)
    node.stop()
    assert salt_of_unknown_user(node.start()) == first


def test_sha1_is_offered_if_it_is_set_and_then_for_new_passwords(make_node):
    node = make_node().start().provision()

    def listed():
        with Connection(node.kv_port) as connection:
            return connection.call(Op.SASL_LIST).value.split()

    def log_in(*login):
        with Connection(node.kv_port) as connection:
            return connection.log_in(*login, "SCRAM-SHA1").status

    assert b"SCRAM-SHA1" not in listed()
    assert log_in(USER, PASSWORD) == Status.AUTH_ERROR
    assert node.admin.post("/settings/security", {"scramSha1Enabled": "true"}).status == 200
    assert b"SCRAM-SHA1" in listed()
    # The password has no keys for it until it is set again.
    assert log_in(USER, PASSWORD) == Status.AUTH_ERROR
    assert node.admin.post("/controller/changePassword", {"password": PASSWORD}).status == 200
    node.create_bucket("guarded", saslPassword="its own")
    node.create_bucket("open", passwordless=1)
    for login in ((USER, PASSWORD), ("guarded", "its own"), ("open", "")):
        assert log_in(*login) == Status.SUCCESS
        assert log_in(login[0], "wrong") == Status.AUTH_ERROR


def test_nonce_with_spaces_is_accepted_unchanged(raw):
    """The C++ core of the SDKs prints its nonce as hexadecimal numbers with spaces."""
    nonce = "0x03 0x7c 0xffffff9e 0x10"
    value = f"n,,n={USER},r={nonce}".encode()
    reply = raw.call(Op.SASL_AUTH, b"SCRAM-SHA512", value=value, vbucket=0)
    assert reply.status == Status.AUTH_CONTINUE
    assert reply.value.startswith(f"r={nonce}".encode())


def test_plain_accepts_the_password(raw, bucket):
    assert raw.plain(USER, "wrong").status == Status.AUTH_ERROR
    assert raw.plain(USER, PASSWORD).status == Status.SUCCESS
    assert raw.select_bucket(bucket).status == Status.SUCCESS


@pytest.mark.parametrize(
    "mechanism,value,status",
    [
        (b"SCRAM-SHA512", b"", Status.INVALID),
        (b"SCRAM-SHA512", b"n,,", Status.INVALID),
        (b"SCRAM-SHA512", b"\xff" * 1000, Status.INVALID),
        (b"PLAIN", b"no zeros", Status.INVALID),
        (b"PLAIN", b"\0\0", Status.INVALID),
        (b"CRAM-MD5", b"x", Status.AUTH_ERROR),
        (b"", b"", Status.INVALID),
    ],
)
def test_malformed_sasl_request_leaves_the_connection_usable(raw, mechanism, value, status):
    reply = raw.call(Op.SASL_AUTH, mechanism, value=value, vbucket=0)
    assert reply.status == status
    assert raw.call(Op.NOOP).status == Status.SUCCESS
    assert raw.log_in(USER, PASSWORD).status == Status.SUCCESS


def test_client_that_supports_channel_binding_is_answered_without_one(raw):
    """`y` states that the client could bind the login to a TLS channel, and that the server cannot."""
    value = f"y,,n={USER},r=x".encode()
    reply = raw.call(Op.SASL_AUTH, b"SCRAM-SHA512", value=value, vbucket=0)
    assert reply.status == Status.AUTH_CONTINUE and reply.value.startswith(b"r=x")


def test_sasl_step_without_a_start_is_refused(raw):
    reply = raw.call(Op.SASL_STEP, b"SCRAM-SHA512", value=b"c=biws,r=x,p=eA==", vbucket=0)
    assert reply.status == Status.INVALID


def test_connection_without_login_has_no_access_to_documents(raw):
    assert raw.get(b"key").status == Status.ACCESS
    assert raw.set(b"key", b"value").status == Status.ACCESS
    assert raw.select_bucket("travel").status == Status.ACCESS


# Bucket


def test_selection_of_unknown_bucket_is_refused_and_the_connection_stays_open(node, bucket):
    with node.connect() as connection:
        assert connection.select_bucket("there-is-none").status == Status.ACCESS
        assert connection.select_bucket("").status == Status.INVALID
        assert connection.select_bucket(bucket).status == Status.SUCCESS


def test_document_request_without_bucket_is_refused(node):
    with node.connect() as connection:
        assert connection.get(b"key").status == Status.NO_BUCKET


def test_buckets_have_separate_documents(node, bucket):
    node.create_bucket("apart")
    with node.connect(bucket) as one, node.connect("apart") as other:
        one.set(b"shared-name", b"1")
        assert other.get(b"shared-name").status == Status.NOT_FOUND
        other.set(b"shared-name", b"2")
        assert one.get(b"shared-name").value == b"1"


def test_connection_of_a_deleted_bucket_is_refused_or_closed(node):
    node.create_bucket("deleted-under")
    with node.connect("deleted-under") as connection:
        connection.set(b"key", b"value")
        node.admin.delete("/pools/default/buckets/deleted-under")

        def is_gone():
            try:
                return connection.get(b"key").status in (Status.NO_BUCKET, Status.ACCESS)
            except (Closed, ConnectionError):
                return True

        wait_until(is_gone, 5)


# Cluster configuration


def config(connection, extras=b""):
    return connection.call(Op.GET_CLUSTER_CONFIG, extras=extras)


def test_global_configuration_has_no_bucket_members(node):
    with node.connect() as connection:
        found = json.loads(config(connection).value)
    assert {"rev", "revEpoch", "nodesExt"} <= set(found)
    assert not {"name", "nodeLocator", "uuid", "vBucketServerMap"} & set(found)
    (this,) = [entry for entry in found["nodesExt"] if entry.get("thisNode")]
    assert this["services"]["kv"] == node.kv_port
    assert this["services"]["mgmt"] == node.admin_port
    assert this["services"]["capi"] == int(node.flag("--views-port"))
    for absent in ("n1ql", "fts", "cbas", "eventingAdminPort"):
        assert absent not in this["services"]


def test_bucket_configuration_has_every_mandatory_member(node, bucket):
    with node.connect(bucket) as connection:
        found = json.loads(config(connection).value)
    assert found["name"] == bucket
    assert found["nodeLocator"] == "vbucket"
    assert len(found["uuid"]) == 32
    table = found["vBucketServerMap"]
    assert table["hashAlgorithm"] == "CRC"
    assert len(table["vBucketMap"]) == 1024
    assert all(len(row) == 1 + table["numReplicas"] for row in table["vBucketMap"])
    assert {row[0] for row in table["vBucketMap"]} == {0}
    assert len(table["serverList"]) == 1
    assert all("services" in entry for entry in found["nodesExt"])
    assert len(found["nodes"]) == len(found["nodesExt"])
    assert not isinstance(found.get("collectionsManifestUid", "0"), int)


def test_known_configuration_version_gets_an_empty_answer(node, bucket):
    with Connection(node.kv_port) as connection:
        granted = connection.hello([*USUAL_FEATURES, Feature.CONFIG_WITH_VERSION])
        assert Feature.CONFIG_WITH_VERSION in granted
        connection.log_in(USER, PASSWORD)
        connection.select_bucket(bucket)
        found = json.loads(config(connection).value)
        epoch, revision = found["revEpoch"], found["rev"]
        same = config(connection, struct.pack(">qq", epoch, revision))
        assert same.status == Status.SUCCESS and same.value == b""
        older = config(connection, struct.pack(">qq", epoch, revision - 1))
        assert json.loads(older.value)["rev"] == revision
        assert config(connection, b"12345").status == Status.INVALID


def version(connection):
    found = json.loads(config(connection).value)
    return found["revEpoch"], found["rev"]


def test_revision_of_the_global_configuration_is_independent_of_buckets(node):
    with node.connect() as connection:
        before = version(connection)
        node.create_bucket("one-more")
        assert version(connection) == before


def test_revision_of_a_buckets_configuration_counts_its_changes(node):
    node.create_bucket("grows")
    with node.connect("grows") as connection:
        epoch, revision = version(connection)
        for number in (1, 2, 3):
            node.admin.post("/pools/default/buckets/grows", {"ramQuotaMB": 120 + number})
            wait_until(lambda: version(connection) != (epoch, revision + number - 1), 5)
            assert version(connection) == (epoch, revision + number)


# Unsupported commands


@pytest.mark.parametrize("op", [0xDA, 0x67, 0xFF])
def test_unsupported_opcode_is_an_unknown_command(kv, op):
    assert kv.call(op, b"key").status == Status.UNKNOWN_COMMAND
    assert kv.call(Op.NOOP).status == Status.SUCCESS


def test_memcached_flush_is_refused_on_the_data_port(kv):
    kv.set(b"not-flushed", b"1")
    assert kv.call(Op.FLUSH).status == Status.NOT_SUPPORTED
    assert kv.get(b"not-flushed").status == Status.SUCCESS


def test_version_and_noop_need_no_login(raw):
    assert raw.call(Op.NOOP).status == Status.SUCCESS
    reply = raw.call(Op.VERSION)
    assert reply.status == Status.SUCCESS and b"7.6.2" in reply.value


def test_quit_is_answered_and_closes_the_connection(raw):
    assert raw.call(Op.QUIT).status == Status.SUCCESS
    assert raw.is_closed_by_server()


def test_quiet_quit_closes_without_an_answer(node):
    with Connection(node.kv_port) as connection:
        connection.send(frame(Op.QUITQ))
        connection.socket.settimeout(5)
        assert connection.socket.recv(1) == b""


def test_replies_are_in_order_and_echo_the_opaque(kv):
    count = 500
    requests = [frame(Op.NOOP, opaque=number) for number in range(count)]
    kv.send(b"".join(requests))
    assert [kv.receive().opaque for _ in range(count)] == list(range(count))


def test_request_may_arrive_byte_by_byte(raw):
    for octet in frame(Op.NOOP, opaque=42):
        raw.send(bytes([octet]))
    assert raw.receive().opaque == 42


def test_small_requests_are_answered_without_nagle_delay(raw):
    raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    began = time.monotonic()
    for _ in range(200):
        raw.call(Op.NOOP)
    # 40 ms each would be Nagle's algorithm waiting for a delayed acknowledgement.
    assert time.monotonic() - began < 6
