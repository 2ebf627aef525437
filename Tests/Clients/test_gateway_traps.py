"""The traps of Sync Gateway's mount (sync-gateway-mount.md, section 1), each by its number."""

import http.client
import json
import socket
import struct
import time

import pytest

from rig import dcp
from rig import subdocument as sub
from rig.dcp import Consumer, Position
from rig.gateway import Gateway
from rig.gateway_gocb import CONTROLS, RELEASES, AttributeGateway
from rig.node import PASSWORD, USER
from rig.subdocument import Doc
from rig.wire import Feature, Op, Status, vbucket_of

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


@pytest.fixture
def gateway(node, gate):
    """The newest release, with the administrator's login."""
    return AttributeGateway(node, gate, RELEASES["4.0.0"], (USER, PASSWORD))


def test_trap_1_attributes_are_among_the_first_two_features_that_are_granted(gateway):
    """The DCP client of 1.5 to 3.0 reads no more of the answer than two features."""
    with Gateway(gateway.node, gateway.bucket).log_in() as kv:
        assert kv.hello((1, 7, 6), b"cbdatasource-SG-v-tests") == (7, 6)
        with Consumer(kv, "trap-1", 5) as consumer:
            assert consumer.opened.status == Status.SUCCESS


def test_trap_1_and_2_hello_leaves_out_datatype_and_keeps_the_order(node, gate):
    with Gateway(node, gate).log_in() as kv:
        granted = kv.hello((1, 7, 0x0B, 3))
        assert granted == (7, 0x0B, 3)


def test_trap_4_add_of_an_existing_key_answers_exists(node, gate):
    with Gateway(node, gate).log_in() as kv:
        assert kv.set("_sync:att:sha1-x", b"1", op=Op.ADD).status == Status.SUCCESS
        assert kv.set("_sync:att:sha1-x", b"1", op=Op.ADD).status == Status.EXISTS


def test_trap_5_words_of_errors(node, gate):
    gateway = Gateway(node, gate)
    with gateway.log_in() as kv:
        assert kv.get("none").value == b"Not found"
    connection = http.client.HTTPConnection("127.0.0.1", gateway.views.port, timeout=30)
    headers = gateway.views._headers(None)
    connection.request("GET", f"/{gate}/_design/none/_view/none", headers=headers)
    answer = connection.getresponse()
    connection.close()
    assert (answer.status, answer.reason) == (404, "Object Not Found")


def test_trap_6_counter_with_delta_0_stores_plain_digits(node, gate):
    with Gateway(node, gate).log_in() as kv:
        assert kv.counter(Op.INCR, "seq", 0, 0, 0).number == 0
        assert kv.get("seq").value == b"0"
        assert kv.counter(Op.INCR, "new", 5, 9, 0).number == 9
        assert kv.counter(Op.INCR, "new", 5, 9, 0).number == 14
        assert kv.get("new").value == b"14"


@pytest.mark.parametrize("sends_login", [False, True])
def test_trap_7_8_and_9_json_types_and_anonymous_rest(node, gate, sends_login):
    Gateway(node, gate, sends_login=sends_login).discover()


def test_trap_10_login_as_the_bucket_selects_it(node, gate):
    with Gateway(node, gate).log_in() as kv:
        assert kv.set("key", b"1").status == Status.SUCCESS


def test_trap_13_root_answers_200_or_leads_there(node):
    reply = node.anonymous.get("/")
    if reply.status in (301, 302):
        reply = node.anonymous.get(reply.headers["Location"])
    assert reply.status == 200


def test_trap_14_mechanisms_are_listed(node):
    with node.connect() as kv:
        listed = kv.call(Op.SASL_LIST).value.split()
        assert {b"SCRAM-SHA512", b"SCRAM-SHA256", b"PLAIN"} <= set(listed)


def test_trap_11_key_of_a_view_query_may_end_with_a_line_feed(node, gate):
    gateway = Gateway(node, gate, suffix="_2.1", newline="\n")
    gateway.install()
    with gateway.log_in() as kv:
        gateway.write(kv, "doc", 1)
    assert [row["id"] for row in gateway.channel("news")] == ["doc"]


def test_trap_12_channel_query_has_rows_of_everything_written_before(node, gate):
    gateway = Gateway(node, gate)
    gateway.install()
    with gateway.log_in() as kv:
        for number in range(1, 6):
            gateway.write(kv, f"doc-{number}", number)
            assert len(gateway.channel("news")) == number


def test_observe_lets_release_1_0_wait_until_a_write_is_persisted(node, gate):
    """The release repeats OBSERVE for 10 s, or for twice the time in the CAS field if that is not 0."""
    with Gateway(node, gate, sends_login=False).log_in() as kv:
        for number in range(50):
            key = b"user-%d" % number
            cas = kv.set(key, b'{"n":%d}' % number).cas
            place = struct.pack(">HH", vbucket_of(key, kv.vbuckets), len(key)) + key
            began, timeout, pause = time.monotonic(), 10, 0.005
            while True:
                time.sleep(pause)
                pause *= 1.5
                reply = kv.call(Op.OBSERVE, value=place)
                state, found = struct.unpack(">BQ", reply.value[-9:])
                assert found == cas
                if state == 0x01:
                    break
                timeout = 2 * (reply.cas >> 32) / 1000 or timeout
                assert time.monotonic() - began < timeout - pause, (number, reply.cas >> 32)


def test_trap_17_streaming_route_stays_open_beside_other_requests(node, gate):
    gateway = Gateway(node, gate)
    with gateway.rest.stream(f"/pools/default/bucketsStreaming/{gate}") as stream:
        assert stream.status == 200
        assert json.loads(stream.next())["name"] == gate
        gateway.discover()
        assert not stream.answer.isclosed()


# Traps of later releases


def test_trap_3_macro_has_the_cas_of_the_change_in_its_answer_its_document_and_its_feed(gateway):
    with gateway.log_in_agent() as kv, gateway.open_feed(kv) as consumer:
        written = gateway.create(kv, "doc", 1, b'{"n":1}')
        for _ in range(3):
            assert written.status == Status.SUCCESS
            message = consumer.receive()
            while message.op != dcp.MUTATION:
                message = consumer.receive()
            assert message.cas == written.cas
            attributes, body = sub.split(message)
            assert gateway.check_attributes(attributes, written.cas, body)
            found = gateway.read(kv, "doc")
            assert found.cas == written.cas
            assert found.results[0] == (Status.SUCCESS, attributes["_sync"])
            written = gateway.update(kv, "doc", 2, b'{"n":2}', written.cas)


def test_trap_15_collections_are_not_granted_and_keys_have_no_prefix(gateway):
    with gateway.log_in_agent() as kv:
        assert kv.set("doc", b"1").status == Status.SUCCESS
        assert kv.get(b"\0doc").status == Status.NOT_FOUND
        assert kv.get("doc").value == b"1"
        # Releases from 3.1 on read it of every cluster from 7.0 on.
        manifest = json.loads(kv.call(0xBA, vbucket=0).value)
        (scope,) = manifest["scopes"]
        assert (manifest["uid"], scope["name"], scope["uid"]) == ("0", "_default", "0")
        assert scope["collections"] == [{"name": "_default", "uid": "0"}]
        features = (Feature.XATTR, Feature.COLLECTIONS, Feature.SELECT_BUCKET, Feature.JSON)
        feed = gateway.log_in_agent(features)
        with Consumer(feed, "trap-15", 1) as consumer:
            for number in range(feed.vbuckets):
                assert consumer.request(number).status == Status.SUCCESS
            message = consumer.receive()
            while message.op != dcp.MUTATION:
                message = consumer.receive()
            assert message.key == b"doc"


def test_trap_16_cluster_is_compatible_with_release_4(node):
    """It ends at once below 7.6; what 7.6 has and Divan has not is not among the capabilities."""
    for path in ("/pools/default", "/pools/nodes"):
        (this,) = node.admin.get(path).json["nodes"]
        assert this["clusterCompatibility"] >= 458_758
    assert node.admin.get("/pools/default/terseClusterInfo").json["clusterCompatVersion"] == "7.6"


def test_trap_18_open_and_every_control_of_each_client_are_accepted(gateway):
    sizes = (("connection_buffer_size", 20_000_000), ("set_noop_interval", 120))
    for flags, controls in ((1, sizes[:1]), (5, (("enable_noop", "true"), *sizes)), (5, CONTROLS)):
        with Consumer(gateway.log_in_agent(), "trap-18", flags) as consumer:
            assert consumer.opened.status == Status.SUCCESS
            for name, value in controls:
                assert consumer.control(name, value) == Status.SUCCESS, name


def send_chunked(rest, method, path, body, kind):
    """A request whose body has no Content-Length; returns its answer."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked"]
    headers = rest._headers({"Content-Type": kind, "Connection": "close"})
    head = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items())])
    parts = [body[at : at + 7] for at in range(0, len(body), 7)]
    with socket.create_connection(("127.0.0.1", rest.port), timeout=30) as connection:
        connection.sendall(f"{head}\r\n\r\n".encode())
        for part in (*parts, b""):
            connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        answer = http.client.HTTPResponse(connection, method=method)
        answer.begin()
        return answer.status, answer.read()


def test_trap_19_bodies_may_be_chunked_on_both_ports(node, gate, gateway):
    definition = b'{"views":{"v":{"map":"function (doc, meta) { emit(meta.id); }"}}}'
    user, keys = b"password=secret&roles=admin", b'{"keys":["chunked"]}'
    design = f"/{gate}/_design/chunked"
    bucket = f"/pools/default/buckets/{gate}"
    sent = [
        (node.admin, "POST", "/pools/default/checkPermissions", b"cluster!admin", FORM, 200),
        (node.admin, "POST", bucket, b"ramQuotaMB=101", FORM, 200),
        (node.admin, "POST", f"{bucket}/docs/chunked", b"value=%7B%22n%22%3A1%7D", FORM, 200),
        (node.admin, "PUT", "/settings/rbac/users/local/chunk", user, FORM, 200),
        (gateway.views, "PUT", design, definition, JSON, 201),
        (gateway.views, "POST", f"{design}/_view/v?stale=false", keys, JSON, 200),
    ]
    for rest, method, path, body, kind, expected in sent:
        status, text = send_chunked(rest, method, path, body, kind)
        assert status == expected, (path, text)
    # The last query has found the document of a request before it.
    assert [row["id"] for row in json.loads(text)["rows"]] == ["chunked"]
    # There is no query service, and a request for it is read whole.
    query = b'{"statement":"SELECT 1"}'
    status, _ = send_chunked(node.admin, "POST", "/query/service", query, JSON)
    assert status == 404


def test_trap_20_readiness_queries_answer_200_before_the_first_document(gateway):
    gateway.install()
    gateway.await_views()


# What the traps do not name and later releases need


def test_sixteen_paths_with_several_attributes_are_one_request(gateway):
    with gateway.log_in_agent() as kv:
        paths = [sub.attribute(f"_key{number}", number) for number in range(15)]
        written = sub.mutate(kv, "doc", *paths, sub.body(b"{}"), doc_flags=Doc.ADD)
        assert written.status == Status.SUCCESS
        reads = [(sub.GET, sub.Path.XATTR, f"_key{number}") for number in range(15)]
        found = sub.lookup(kv, "doc", *reads, (sub.GET_DOC, 0, ""))
        assert found.status == Status.SUCCESS
        assert [text for _, text in found.results] == [*(b"%d" % each for each in range(15)), b"{}"]
        refused = sub.lookup(kv, "doc", *reads, *reads[:2])
        assert refused.status == sub.TOO_MANY_PATHS


def test_stream_to_the_latest_change_ends(gateway):
    with gateway.log_in_agent() as kv:
        assert kv.set("doc", b"1").status == Status.SUCCESS
        with Consumer(gateway.log_in_agent(), "latest", 5) as consumer:
            streams = range(consumer.connection.vbuckets)
            for number in streams:
                assert consumer.request(number, flags=0x04).status == Status.SUCCESS
            positions = {number: Position() for number in streams}
            state = consumer.read(positions, lambda state: len(state.ends) == len(streams))
    assert set(state.ends.values()) == {"finished"} and list(state.documents) == [b"doc"]
