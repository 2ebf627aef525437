"""Stand-ins of Sync Gateway releases that keep their state in documents (sync-gateway-mount.md).

Each mounts, writes, follows the feed and restarts.
"""

import json
import struct

import pytest

from rig import dcp
from rig.gateway import Gateway
from rig.wire import Feature, Op, Status, frame

TAP_CONNECT, TAP_MUTATION = 0x40, 0x41
FEEDS_1X = {"1.0.3": "tap", "1.4.1-tap": "tap", "1.4.1-dcp": "dcp"}
GOCB_150 = (0x02, 0x06, 0x07)
GOCB_283 = (0x02, 0x06, 0x08, 0x07, 0x0A, 0x0F)


def check_back_fill(gateway, key):
    """What a restarted gateway reads through its views."""
    for user in ("", "role:none"):
        assert gateway.query("access", key=user) == []
        assert gateway.query("role_access", key=user) == []
    assert [row["id"] for row in gateway.channel("news")] == [key]
    assert gateway.channel("news")[0]["value"]["rev"] == "1-a"
    rows = gateway.query("all_docs", "sync_housekeeping", reduce=True)
    assert rows[0]["value"] == 1


def open_tap(kv):
    kv.send(frame(TAP_CONNECT, extras=struct.pack(">I", 1), value=b"\xff" * 8))
    # TAP_CONNECT has no reply: the reply to a later request comes first.
    assert kv.call(Op.NOOP).op == Op.NOOP


def await_tap(kv, key):
    while True:
        message = kv.receive()
        if message.op == TAP_MUTATION and message.key == key:
            assert message.extras[:2] == b"\0\0"
            return message


def await_dcp(consumer, key):
    while True:
        message = consumer.receive()
        if message.op == dcp.MUTATION and message.key == key:
            return message


@pytest.mark.parametrize("release", FEEDS_1X)
def test_release_1_mounts_writes_and_reads_its_feed(node, gate, release):
    gateway = Gateway(node, gate, sends_login=release != "1.0.3")
    gateway.discover()
    if release != "1.0.3":
        with gateway.rest.stream(f"/pools/default/bucketsStreaming/{gate}") as stream:
            gateway.check_bucket(json.loads(stream.next()))
    gateway.install()
    with gateway.log_in() as kv, gateway.log_in() as feed:
        for _ in range(2):
            assert kv.counter(Op.INCR, "_sync:seq", 0, 0, 0).number == 0
        assert kv.get("_sync:seq").value == b"0"
        consumer = gateway.open_dcp(feed) if FEEDS_1X[release] == "dcp" else None
        if consumer is None:
            open_tap(feed)
        assert kv.get("_sync:syncdata").status == Status.NOT_FOUND
        assert kv.set("_sync:syncdata", b'{"Sync":""}', op=Op.ADD).status == Status.SUCCESS
        assert kv.set("_sync:user:", b'{"name":""}').status == Status.SUCCESS
        assert kv.counter(Op.INCR, "_sync:seq", 1, 1, 0).number == 1
        body, cas = gateway.write(kv, "doc", 1)
        message = await_dcp(consumer, b"doc") if consumer else await_tap(feed, b"doc")
        assert message.value == body
        while message.cas != cas:
            message = await_dcp(consumer, b"doc") if consumer else await_tap(feed, b"doc")
    restarted = Gateway(node, gate, sends_login=release != "1.0.3")
    restarted.discover()
    restarted.install()
    check_back_fill(restarted, "doc")


@pytest.mark.parametrize("release", ["1.5.0", "2.8.3"])
def test_gocb_release_mounts_writes_and_reads_its_feed(node, gate, release):
    is_newer = release == "2.8.3"
    suffix, newline = ("_2.1", "\n") if is_newer else ("", "")
    gateway = Gateway(node, gate, suffix=suffix, newline=newline)
    kv, granted = gateway.log_in_gocb(GOCB_283 if is_newer else GOCB_150)
    with kv:
        if is_newer:
            assert Feature.SELECT_BUCKET in granted
            reply = gateway.views.get(f"/{gate}/_design/sync_gateway_2.1")
            assert reply.status == 404
        gateway.install()
        if is_newer:
            for view in ("access", "role_access", "channels"):
                assert gateway.query(view, key=f"view_{view}_ready_check", limit=1) == []
        info = gateway.discover()
        assert info.get("maxTTL", 0) == 0
        assert kv.get("_sync:seq").status == Status.NOT_FOUND
        with gateway.log_in() as feed:
            assert 1 not in feed.hello((1, 7), b"cbdatasource-SG-v-tests")
            controls = (("enable_noop", "true"), ("set_noop_interval", 120))
            consumer = gateway.open_dcp(feed, controls)
            assert kv.counter(Op.INCR, "_sync:seq", 1, 1, 0).number == 1
            body, _ = gateway.write(kv, "doc", 1)
            assert await_dcp(consumer, b"doc").value == body
    restarted = Gateway(node, gate, suffix=suffix, newline=newline)
    restarted.log_in_gocb(GOCB_283 if is_newer else GOCB_150)[0].close()
    check_back_fill(restarted, "doc")
