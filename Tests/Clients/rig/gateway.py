"""The requests of Sync Gateway releases, in the order in which they send them.

The facts are those of sync-gateway-mount.md; each step asserts what a release reads.
"""

import json
import struct
import urllib.parse

from . import rest, wire
from .dcp import FOREVER, Consumer, Position
from .wire import Feature, Op, Status

# The maps that all releases install, without what the tests do not read.
CHANNELS = """function (doc, meta) {
  if (meta.id.substring(0,6) == "_sync:") return;
  var sync = doc._sync; if (sync === undefined) return;
  var value = {rev: sync.rev}; removed = null;
  emit(["*", sync.sequence], value);
  for (ch in sync.channels) emit([ch, sync.sequence], value);
}"""
ACCESS = """function (doc, meta) {
  var sync = doc._sync; if (sync === undefined || meta.id.substring(0,6) == "_sync:") return;
  for (name in sync.access) emit(name, sync.access[name]);
}"""
ALL_DOCS = """function (doc, meta) {
  if (meta.id.substring(0,6) != "_sync:" && doc._sync) emit(meta.id, {s: doc._sync.sequence});
}"""


class Gateway:
    """One gateway of one bucket. `sends_login` is false for 1.0.x, whose REST has no login.

    With a password it logs in as the local user of the bucket's name.
    """

    def __init__(self, node, bucket, sends_login=True, suffix="", newline="", password=""):
        self.node, self.bucket = node, bucket
        self.login = (bucket, password)
        self.rest = rest.Rest(node.admin_port, self.login if sends_login else None, node.host)
        self.views = rest.Rest(int(node.ready["views"]), self.login, node.host)
        self.suffix, self.newline = suffix, newline
        self.kv = None

    # REST

    def discover(self):
        """The four requests of go-couchbase; returns the bucket's object."""
        pools = self._json("/pools")
        pool = next(each for each in pools["pools"] if each["name"] == "default")
        assert all(isinstance(each, str) for each in pools["componentsVersion"].values())
        pool = self._json(pool["uri"])
        buckets = pool["buckets"]
        assert all(isinstance(each, str) for each in buckets.values())
        for each in pool["nodes"]:
            assert int(each["uptime"]) >= 0 and isinstance(each["uptime"], str)
            assert isinstance(each["clusterCompatibility"], int)
            assert all(isinstance(port, int) for port in each["ports"].values())
        listed = self._json(buckets["uri"])
        entry = next(each for each in listed if each["name"] == self.bucket)
        found = self._json(entry["uri"])
        self.check_bucket(found)
        return found

    def check_bucket(self, found):
        for each in found["nodes"]:
            assert each["status"] == "healthy"
            url = urllib.parse.urlsplit(each["couchApiBase"])
            assert url.scheme == "http" and url.port == self.views.port
        table = found["vBucketServerMap"]
        count = len(table["vBucketMap"])
        assert count & (count - 1) == 0 and table["serverList"]
        assert isinstance(table["numReplicas"], int)

    def _json(self, path):
        reply = self.rest.get(path)
        assert reply.status == 200, (path, reply)
        return reply.json

    # Data port

    def log_in(self, lists=True):
        """A login as the bucket's name, which selects the bucket."""
        kv = wire.Connection(self.node.kv_port, host=self.node.host)
        if lists:
            assert b"PLAIN" in kv.call(Op.SASL_LIST).value.split()
        assert kv.plain(*self.login).status == Status.SUCCESS
        terse = self.node.admin.get(f"/pools/default/b/{self.bucket}").json
        kv.vbuckets = len(terse["vBucketServerMap"]["vBucketMap"])
        return kv

    def log_in_gocb(self, features):
        """HELLO, error map, PLAIN and configuration in one write; the replies come in order."""
        kv = wire.Connection(self.node.kv_port, host=self.node.host)
        hello = struct.pack(f">{len(features)}H", *features)
        plain = b"\0" + self.login[0].encode() + b"\0" + self.login[1].encode()
        selects = Feature.SELECT_BUCKET in features
        requests = [
            wire.frame(Op.HELLO, "gocb/v6-dev", value=hello, opaque=1),
            wire.frame(Op.GET_ERROR_MAP, value=b"\0\1", opaque=2),
            wire.frame(Op.SASL_AUTH, "PLAIN", value=plain, opaque=3),
        ]
        if selects:
            requests.append(wire.frame(Op.SELECT_BUCKET, self.bucket, opaque=4))
        requests.append(wire.frame(Op.GET_CLUSTER_CONFIG, opaque=5))
        kv.send(b"".join(requests))
        replies = [kv.receive() for _ in requests]
        assert [each.opaque for each in replies] == [1, 2, 3, *([4] if selects else []), 5]
        assert all(each.status == Status.SUCCESS for each in replies), replies
        granted = struct.unpack(f">{len(replies[0].value) // 2}H", replies[0].value)
        config = json.loads(replies[-1].value)
        assert config["nodeLocator"] == "vbucket" and config["name"] == self.bucket
        assert {"kv", "capi", "mgmt"} <= set(config["nodesExt"][0]["services"])
        kv.vbuckets = len(config["vBucketServerMap"]["vBucketMap"])
        return kv, granted

    # Design documents and views

    def install(self):
        views = {"channels": CHANNELS, "access": ACCESS, "role_access": ACCESS}
        self._put("sync_gateway", {name: {"map": text} for name, text in views.items()})
        self._put("sync_housekeeping", {"all_docs": {"map": ALL_DOCS, "reduce": "_count"}})

    def _put(self, name, views):
        body = {"views": views, "index_xattr_on_deleted_docs": True}
        path = f"/{self.bucket}/_design/{name}{self.suffix}"
        headers = {"Content-Type": "application/json"}
        reply = self.views.request("PUT", path, json.dumps(body), headers)
        assert reply.status == 201, reply

    def query(self, view, document="sync_gateway", **parameters):
        """The rows of a view; 2.x and later end each key with a line feed."""
        pairs = {
            name: json.dumps(each) + (self.newline if "key" in name else "")
            for name, each in parameters.items()
        }
        pairs["stale"] = "false"
        path = f"/{self.bucket}/_design/{document}{self.suffix}/_view/{view}"
        reply = self.views.get(f"{path}?{urllib.parse.urlencode(pairs)}")
        assert reply.status == 200, reply
        return reply.json["rows"]

    def channel(self, name):
        return self.query("channels", startkey=[name, 0], endkey=[name, {}])

    # Feeds and documents

    def open_dcp(self, kv, controls=()):
        """Opens a stream of every vBucket at the positions of STAT."""
        positions = kv.stat("vbucket-seqno")
        consumer = Consumer(kv, f"cbdatasource-{self.bucket}")
        assert consumer.opened.status == Status.SUCCESS
        for name, value in (("connection_buffer_size", 20_000_000), *controls):
            assert consumer.control(name, value) == Status.SUCCESS, name
        for number in range(kv.vbuckets):
            seqno = int(positions[f"vb_{number}:high_seqno"])
            uuid = int(positions[f"vb_{number}:uuid"]) if seqno else 0
            reply = consumer.request(number, Position(uuid, seqno), FOREVER)
            assert reply.status == Status.SUCCESS
            assert reply.value and len(reply.value) % 16 == 0
        return consumer

    def write(self, kv, key, sequence, channel="news"):
        sync = {"rev": "1-a", "sequence": sequence, "channels": {channel: None}}
        body = json.dumps({"text": key, "_sync": sync}).encode()
        stored = kv.set(key, body, op=Op.ADD)
        assert stored.status == Status.SUCCESS
        assert kv.set(key, body, op=Op.ADD).status == Status.EXISTS
        assert kv.set(key, body, cas=stored.cas + 1).status == Status.EXISTS
        stored = kv.set(key, body, cas=stored.cas)
        assert stored.status == Status.SUCCESS
        return body, stored.cas
