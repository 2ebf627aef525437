"""The requests of releases with attributes, 2.8.3, 3.0.8, 3.1.0, 3.2.8 and 4.0.0, in their order.

The facts are those of sync-gateway-mount.md, sections 5 to 7 and 11; each step asserts what a
release reads.
"""

import json
import struct
from dataclasses import dataclass, replace

from . import subdocument as sub
from . import wire
from .dcp import FOREVER, Consumer, Position
from .gateway import Gateway
from .subdocument import Doc, Path
from .wire import Feature, Op, Status

# Of the agents of 3.x and 4.0: without a bucket, and with one.
AGENT = (2, 6, 8, 0x1E, 0x1D, 0x0C, 7, 0x0B, 0x10, 0x17, 0x19, 0x14, 0x1C, 0x11)
BUCKET_AGENT = (*AGENT[:8], 4, 0x0A, 0x13, 0x0F, 0x12, 0x0E, 0x1F, *AGENT[8:])
CONTROLS = (
    ("enable_noop", "true"),
    ("set_noop_interval", 180),
    ("set_priority", "medium"),
    ("connection_buffer_size", 20_971_520),
    ("send_stream_end_on_client_close_stream", "true"),
)
DEFAULT_COLLECTION = b'{"collections":["0"]}'
SYNC = """function (doc, meta) {
  var sync;
  if (meta.xattrs === undefined || meta.xattrs._sync === undefined) sync = doc._sync;
  else sync = meta.xattrs._sync;
  if (sync === undefined || meta.id.substring(0,6) == "_sync:") return;
"""
MAPS = {
    "channels": SYNC
    + """  var value = {rev: sync.rev}; removed = null;
  emit(["*", sync.sequence], value);
  for (ch in sync.channels) emit([ch, sync.sequence], value);
}""",
    "access": SYNC + "  for (name in sync.access) emit(name, sync.access[name]);\n}",
    "role_access": SYNC + "  for (name in sync.role_access) emit(name, sync.role_access[name]);\n}",
}
KEEPING = {
    "all_docs": {"map": SYNC + "  emit(meta.id, {s: sync.sequence});\n}", "reduce": "_count"},
    "tombstones": {"map": SYNC + "  if (sync.tombstoned_at) emit(sync.tombstoned_at, meta.id);\n}"},
}


@dataclass(frozen=True)
class Release:
    """What distinguishes a release.

    `feed` is the client of its feed: `cbdatasource` logs in over PLAIN and finds the bucket over
    REST, `gocbcore` logs in over SCRAM.
    """

    number: str
    feed: str = "gocbcore"
    agent: tuple = BUCKET_AGENT
    error_map: int = 2
    ping: str = "/"
    update: int = 0
    versions: bool = False
    has_sync_info: bool = True


_R3 = Release("3.1.0", update=Doc.MKDOC)
_R32 = Release("3.2.8")
RELEASES = {
    "2.8.3": Release(
        "2.8.3",
        feed="cbdatasource",
        agent=(2, 6, 8, 7, 0x0A, 0x0F),
        error_map=1,
        ping="",
        update=Doc.MKDOC,
        has_sync_info=False,
    ),
    "3.0.8": replace(_R3, number="3.0.8", feed="cbdatasource", error_map=1, has_sync_info=False),
    "3.1.0": _R3,
    "3.2.8": _R32,
    "4.0.0": replace(_R32, number="4.0.0", ping="/whoami", versions=True),
}


class AttributeGateway(Gateway):
    """A gateway that keeps its state in attributes, with the login of a user."""

    def __init__(self, node, bucket, release, login):
        super().__init__(node, bucket, suffix="_2.1", newline="\n")
        self.release = release
        self.login = self.rest.login = self.views.login = login

    @property
    def is_gocb_2(self):
        return self.release.number >= "3"

    # Bootstrap

    def mount(self):
        """Everything until the database is online; returns the connection for documents."""
        if self.is_gocb_2:
            self._find_cluster()
        kv = self.log_in_agent()
        self._check_cluster()
        for name in ("sync_gateway", "sync_housekeeping"):
            assert self.views.get(f"/{self.bucket}/_design/{name}{self.suffix}").status == 404
        self.install()
        self.await_views()
        self._read_principals(kv)
        return kv

    def remount(self):
        """As `mount`, with the design documents of the first one."""
        if self.is_gocb_2:
            self._find_cluster()
        kv = self.log_in_agent()
        self._check_cluster()
        for name in ("sync_gateway", "sync_housekeeping"):
            assert self.views.get(f"/{self.bucket}/_design/{name}{self.suffix}").status == 200
        self.await_views()
        return kv

    def await_views(self):
        """The queries without whose answer the mount never ends (trap 20)."""
        for view in ("access", "role_access", "channels"):
            assert self.query(view, key=f"view_{view}_ready_check", limit=1) == []

    def _find_cluster(self):
        """The agent without a bucket."""
        with wire.Connection(self.node.kv_port) as kv:
            assert Feature.XERROR in self._hello(kv, AGENT)
            self._authenticate(kv)
            reply = kv.call(Op.GET_CLUSTER_CONFIG)
            assert reply.status == Status.SUCCESS
            config = json.loads(reply.value)
            assert {"rev", "revEpoch", "nodesExt"} <= set(config)
            assert not {"name", "vBucketServerMap", "nodeLocator"} & set(config)
            assert {"kv", "capi", "mgmt"} <= set(config["nodesExt"][0]["services"])
            assert "n1ql" not in config["nodesExt"][0]["services"]
        reply = self.rest.get(self.release.ping)
        if reply.status in (301, 302):
            reply = self.rest.get(reply.headers["Location"])
        assert reply.status == 200
        if self.release.ping == "/whoami":
            assert reply.json["id"] == self.login[0] and reply.json["roles"]

    def _check_cluster(self):
        cluster = self._json("/pools/default")
        # xattrs from 5.0, create-as-deleted from 6.6; 4.0 refuses anything below 7.6 (trap 16).
        assert cluster["nodes"][0]["clusterCompatibility"] >= 7 << 16 | 6
        found = self._json(f"/pools/default/buckets/{self.bucket}")
        assert found.get("maxTTL", 0) == 0
        assert not found.get("enableCrossClusterVersioning", False)
        assert isinstance(found.get("purgeInterval", 3.0), (int, float))
        assert {"xattr", "tombstonedUserXAttrs"} <= set(found["bucketCapabilities"])
        assert isinstance(self._json("/settings/autoCompaction")["purgeInterval"], (int, float))
        assert len(self._json("/pools")["uuid"]) == 32

    def _hello(self, kv, features):
        """Grants are in the order of the request (trap 2)."""
        granted = kv.hello(features)
        assert list(granted) == [each for each in features if each in granted], granted
        assert 1 not in granted and Feature.COLLECTIONS not in granted
        assert {Feature.XATTR, Feature.SELECT_BUCKET} <= set(granted), granted
        return granted

    def _authenticate(self, kv):
        reply = kv.call(Op.GET_ERROR_MAP, value=self.release.error_map.to_bytes(2, "big"))
        assert reply.status == Status.SUCCESS
        assert json.loads(reply.value)["version"] <= self.release.error_map
        if self.is_gocb_2:
            assert b"SCRAM-SHA512" in kv.call(Op.SASL_LIST).value.split()
            assert kv.log_in(*self.login).status == Status.SUCCESS
        else:
            assert kv.plain(*self.login).status == Status.SUCCESS

    def log_in_agent(self, features=None):
        """A connection of a bucket's agent."""
        kv = wire.Connection(self.node.kv_port)
        self._hello(kv, features or self.release.agent)
        self._authenticate(kv)
        assert kv.select_bucket(self.bucket).status == Status.SUCCESS
        config = json.loads(kv.call(Op.GET_CLUSTER_CONFIG).value)
        assert config["name"] == self.bucket and config["nodeLocator"] == "vbucket"
        kv.vbuckets = len(config["vBucketServerMap"]["vBucketMap"])
        return kv

    def install(self):
        self._put("sync_gateway", {name: {"map": text} for name, text in MAPS.items()})
        self._put("sync_housekeeping", KEEPING)

    def _read_principals(self, kv):
        if self.is_gocb_2:
            # "Not found" in any form means that the bucket is ready.
            reply = kv.call(Op.GET_META, "WaitUntilDataStoreReady")
            assert reply.status == Status.NOT_FOUND
        keys = ["_sync:seq", "_sync:syncdata", "_sync:user:"]
        for key in (["_sync:syncInfo"] if self.release.has_sync_info else []) + keys:
            assert kv.get(key).status == Status.NOT_FOUND
        assert kv.counter(Op.INCR, "_sync:seq", 1, 1, 0).number == 1
        for key in keys[1:]:
            assert kv.set(key, b'{"name":""}', op=Op.ADD).status == Status.SUCCESS

    # Feeds

    def open_feed(self, kv):
        """Streams of all vBuckets from their present end, with attributes."""
        positions = kv.stat("vbucket-seqno")
        if self.release.feed == "cbdatasource":
            return self._open_cbdatasource(positions, kv.vbuckets)
        # From the cluster's version these releases conclude that there are collections.
        manifest = kv.call(0xBA)
        assert manifest.status == Status.SUCCESS, manifest
        assert json.loads(manifest.value)["scopes"][0]["name"] == "_default"
        with self.rest.stream(f"/pools/default/bs/{self.bucket}") as stream:
            assert json.loads(stream.next())["name"] == self.bucket
        consumer = Consumer(self.log_in_agent(), f"SG-v-{self.release.number}-{self.bucket}", 5)
        assert consumer.opened.status == Status.SUCCESS, consumer.opened
        for name, value in CONTROLS:
            assert consumer.control(name, value) == Status.SUCCESS, name
        self._open_streams(consumer, positions, 0x10, DEFAULT_COLLECTION)
        return consumer

    def _open_cbdatasource(self, positions, vbuckets):
        self.discover()
        entries = self._json("/pools/default/nodeServices")["nodesExt"]
        assert any(each.get("thisNode") for each in entries)
        kv = wire.Connection(self.node.kv_port)
        assert b"PLAIN" in kv.call(Op.SASL_LIST).value.split()
        assert kv.plain(*self.login).status == Status.SUCCESS
        # The client looks for 6 in the first two features only (trap 1).
        assert Feature.XATTR in kv.hello((1, 7, 6), b"cbdatasource-SG-v-tests")[:2]
        assert kv.select_bucket(self.bucket).status == Status.SUCCESS
        kv.vbuckets = vbuckets
        consumer = Consumer(kv, f"SG-v-{self.release.number}-{self.bucket}", 5)
        assert consumer.opened.status == Status.SUCCESS, consumer.opened
        sizes = (("connection_buffer_size", 20_000_000), ("enable_noop", "true"))
        for name, value in (*sizes, ("set_noop_interval", 120)):
            assert consumer.control(name, value) == Status.SUCCESS, name
        self._open_streams(consumer, positions, 0)
        return consumer

    @staticmethod
    def _open_streams(consumer, positions, flags, chosen=b""):
        for number in range(consumer.connection.vbuckets):
            seqno = int(positions[f"vb_{number}:high_seqno"])
            uuid = int(positions[f"vb_{number}:uuid"]) if seqno else 0
            at = Position(uuid, seqno)
            reply = consumer.request(number, at, FOREVER, flags, value=chosen)
            assert reply.status == Status.SUCCESS, reply
            assert reply.value and len(reply.value) % 16 == 0

    # Documents (section 5.4)

    def sync(self, sequence, **more):
        found = {"rev": f"{sequence}-a", "sequence": sequence, "channels": {"news": None}, **more}
        if self.release.versions:
            found["rev"] = {"rev": f"{sequence}-a", "ver": ""}
        return found

    def specs(self, sequence, body=None, **more):
        """The paths of a write: attributes, macros, and the body or its deletion."""
        specs = [sub.attribute("_sync", self.sync(sequence, **more))]
        macros = [sub.macro("_sync.cas")]
        if self.release.versions:
            specs.insert(0, sub.attribute("_vv", {"src": "test", "ver": "", "cvCas": ""}))
            specs.append(sub.attribute("_globalSync", {"attachments_meta": {}}))
            macros += [sub.macro(path) for path in ("_vv.ver", "_vv.cvCas", "_sync.rev.ver")]
        if body is None:
            if self.release.versions:
                macros.append(sub.macro("_sync.channels.news.rev.ver"))
            sum = sub.attribute("_sync.value_crc32c", "0x00")
            return (*specs, *macros, sum, (sub.DELETE_DOC, 0, ""))
        return (*specs, *macros, sub.macro("_sync.value_crc32c", sub.CRC32C), sub.body(body))

    def create(self, kv, key, sequence, body):
        return sub.mutate(kv, key, *self.specs(sequence, body), doc_flags=Doc.ADD)

    def update(self, kv, key, sequence, body, cas):
        specs = self.specs(sequence, body)
        return sub.mutate(kv, key, *specs, doc_flags=self.release.update, cas=cas)

    def revive(self, kv, key, sequence, body, cas):
        """A document in place of the tombstone with `cas`, which releases up to 3.1 name."""
        if self.release.update == Doc.MKDOC:
            return self.update(kv, key, sequence, body, cas)
        return self.create(kv, key, sequence, body)

    def delete(self, kv, key, sequence, cas):
        """No document flags; `_sync` has to stay on the tombstone."""
        more = {"tombstoned_at": 1_700_000_000}
        if self.release.versions:
            more["channels"] = {"news": {"seq": sequence, "rev": {"rev": "", "ver": ""}}}
        return sub.mutate(kv, key, *self.specs(sequence, **more), cas=cas)

    def read(self, kv, key):
        """A read as before each write, also of a tombstone: the attributes, and the body."""
        names = ["_sync"]
        if self.release.versions:
            names = ["_sync", "_vv", "_mou", "_globalSync"]
        specs = [(sub.GET, Path.XATTR, name) for name in names]
        return sub.lookup(kv, key, *specs, (sub.GET_DOC, 0, ""), doc_flags=Doc.ACCESS_DELETED)

    def check_attributes(self, attributes, cas, body):
        """The macros have the change's own CAS (trap 3), or the gateway imports its own write."""
        sync = json.loads(attributes["_sync"])
        assert sync["cas"] == sub.cas_text(cas)
        assert sync["value_crc32c"] == (sub.crc32c_text(body) if body else "0x00")
        if self.release.versions:
            versions = json.loads(attributes["_vv"])
            assert versions["ver"] == versions["cvCas"] == sub.cas_text(cas)
            assert sync["rev"]["ver"] == sub.cas_text(cas)
            assert "_globalSync" in attributes
        return sync

    # Jobs that read a bucket once

    def read_once(self, kv, name):
        """Streams from the beginning to the present end; returns the keys that they have sent."""
        reply = kv.call(0x48, extras=struct.pack(">II", 1, 0))
        assert reply.status == Status.SUCCESS
        ends = dict(struct.iter_unpack(">HQ", reply.value))
        assert len(ends) == kv.vbuckets
        ends = {number: seqno for number, seqno in ends.items() if seqno}
        with Consumer(self.log_in_agent(), name, 5) as consumer:
            assert consumer.opened.status == Status.SUCCESS, consumer.opened
            for each, value in CONTROLS:
                assert consumer.control(each, value) == Status.SUCCESS, each
            for number, end in ends.items():
                reply = consumer.request(number, None, end, 0x10, value=DEFAULT_COLLECTION)
                assert reply.status == Status.SUCCESS, reply
            state = consumer.read(
                {number: Position() for number in ends}, lambda state: len(state.ends) == len(ends)
            )
        assert set(state.ends.values()) <= {"finished"}
        return {each.key for each in state.changes}
