"""What clients on another machine may do over plain ports, by the cluster's settings."""

import pytest

from rig import network as rig_network
from rig import tls
from rig.node import PASSWORD, USER, Node
from rig.rest import Rest
from rig.wire import Closed, Connection, Op, Status

SECURITY = "/settings/security"
PLAIN = f"\0{USER}\0{PASSWORD}".encode()


@pytest.fixture(scope="module")
def node():
    """A node on a machine of its own; the tests open their sockets on another one."""
    try:
        network = rig_network.Network(["db1", "client"])
    except rig_network.Impossible as reason:
        pytest.skip(f"NOT TESTED: no network namespaces here: {reason}")
    address = network.addresses["db1"]
    try:
        flags = ("--bind", "0.0.0.0", "--host-name", address)
        with Node(*flags, host=address, prefix=network.command("db1")) as node:
            with network.inside("client"):
                node.start().provision()
                node.network = network
                node.create_bucket("travel")
                yield node
    finally:
        network.close()


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
