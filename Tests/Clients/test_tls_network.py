"""What clients on another machine may do over plain ports, by the cluster's settings."""

import pytest

from rig import tls
from rig.network import node_elsewhere
from rig.node import PASSWORD, USER, Node
from rig.rest import Rest
from rig.wire import Closed, Connection, Op, Status

SECURITY = "/settings/security"
PLAIN = f"\0{USER}\0{PASSWORD}".encode()


@pytest.fixture(scope="module")
def node():
    """A node on a machine of its own; the tests open their sockets on another one."""
    with node_elsewhere(has_name=True) as node:
        yield node.create_bucket("travel")


@pytest.fixture
def settings(node):
    """Sets settings of security for a test, as an operator on the node's machine."""

    def post(**form):
        with node.network.inside("db1"):
            reply = Rest(node.admin_port, (USER, PASSWORD)).post(SECURITY, form)
        assert reply.status == 200, reply

    yield post
    post(allowPlainWithoutTLS="true", clusterEncryptionLevel="control")


def test_certificate_has_the_name_of_the_option(node):
    trusted = tls.context(tls.authority(node))
    with tls.connect(node, trusted, "travel") as connection:
        assert connection.call(Op.NOOP).status == 0
    assert tls.admin(node, trusted).get("/pools/default").status == 200


def test_password_is_not_accepted_without_tls_once_that_is_switched_off(node, settings):
    with Connection(node.kv_port, host=node.host) as connection:
        assert connection.call(Op.SASL_AUTH, b"PLAIN", value=PLAIN, vbucket=0).status == 0
    settings(allowPlainWithoutTLS="false")
    with Connection(node.kv_port, host=node.host) as connection:
        assert b"PLAIN" not in connection.call(Op.SASL_LIST).value
        reply = connection.call(Op.SASL_AUTH, b"PLAIN", value=PLAIN, vbucket=0)
        assert reply.status == Status.AUTH_ERROR
    with Connection(node.ready["kv_tls"], host=node.host, context=tls.context(tls.authority(node))) as connection:
        assert b"PLAIN" in connection.call(Op.SASL_LIST).value
        assert connection.call(Op.SASL_AUTH, b"PLAIN", value=PLAIN, vbucket=0).status == 0
    # No other machine reads it on the way.
    with node.network.inside("db1"), Connection(node.kv_port) as connection:
        assert connection.call(Op.SASL_AUTH, b"PLAIN", value=PLAIN, vbucket=0).status == 0


def test_each_password_without_tls_is_counted_and_the_first_one_of_a_user_is_an_event(node, settings):
    with node.network.inside("db1"):
        admin = Rest(node.admin_port, (USER, PASSWORD))
        form = {"password": "of-the-reader", "roles": "data_reader[travel]"}
        assert admin.put("/settings/rbac/users/local/plain-reader", form).status == 200

    def counted():
        with node.network.inside("db1"):
            lines = Rest(node.admin_port, (USER, PASSWORD)).get("/metrics").text.splitlines()
        (value,) = [line.split()[1] for line in lines if line.startswith("kv_plain_logins_total ")]
        return int(value)

    def log_in(port="kv", context=None):
        with Connection(node.ready[port], host=node.host, context=context) as connection:
            assert connection.plain("plain-reader", "of-the-reader").status == 0

    before = counted()
    for _ in range(3):
        log_in()
    log_in("kv_tls", tls.context(tls.authority(node)))
    with node.network.inside("db1"), Connection(node.kv_port) as connection:
        assert connection.plain("plain-reader", "of-the-reader").status == 0
    with Connection(node.kv_port, host=node.host) as connection:
        assert connection.plain("plain-reader", "wrong").status == Status.AUTH_ERROR
        assert connection.log_in("plain-reader", "of-the-reader").status == 0
    assert counted() == before + 3
    with node.network.inside("db1"):
        events = [each["text"] for each in Rest(node.admin_port, (USER, PASSWORD)).get("/logs").json["list"]]
    (event,) = [text for text in events if '"plain-reader" without TLS' in text]
    assert "allowPlainWithoutTLS=false" in event and "of-the-reader" not in event


def test_strict_leaves_the_plain_ports_to_clients_of_the_machine(node, settings):
    trusted = tls.context(tls.authority(node))
    settings(clusterEncryptionLevel="strict")
    with pytest.raises((Closed, ConnectionError)), Connection(node.kv_port, host=node.host) as connection:
        connection.call(Op.NOOP)
    for port in (node.admin_port, node.ready["views"]):
        reply = Rest(port, (USER, PASSWORD), node.host).get("/pools/default")
        assert reply.status == 403 and b"clusterEncryptionLevel is strict" in reply.body, reply
    with tls.connect(node, trusted, "travel") as connection:
        assert connection.call(Op.NOOP).status == 0
    assert tls.admin(node, trusted).get("/pools/default").status == 200
    with node.network.inside("db1"):
        with Connection(node.kv_port) as connection:
            assert connection.call(Op.NOOP).status == 0
        assert Rest(node.admin_port, (USER, PASSWORD)).get("/pools/default").status == 200


@pytest.mark.parametrize("bind, warns", [("0.0.0.0", True), ("127.0.0.1", False)])
def test_node_that_serves_other_machines_without_tls_warns(node, bind, warns):
    flags = ("--bind", bind, "--no-tls")
    with Node(*flags, prefix=node.network.command("db1")) as other, node.network.inside("db1"):
        other.start().provision()
        alerts = [each["msg"] for each in other.admin.get("/pools/default").json["alerts"]]
        sentence = f"serves clients on {bind} without TLS"
        assert any(sentence in each for each in alerts) is warns, alerts
        assert (sentence in other.log()) is warns
    with node.network.inside("db1"):
        alerts = Rest(node.admin_port, (USER, PASSWORD)).get("/pools/default").json["alerts"]
    assert not any("without TLS" in each["msg"] for each in alerts), alerts
