"""Stand-ins of Sync Gateway releases that keep their state in extended attributes.

2.8.3 (`enable_shared_bucket_access`), 3.0.8, 3.1.0, 3.2.8 and 4.0.0 (sync-gateway-mount.md, sections
5 to 7 and 11).
"""

import json
import struct

import pytest

from rig import dcp
from rig import subdocument as sub
from rig.dcp import Consumer
from rig.gateway_gocb import CONTROLS, RELEASES, AttributeGateway
from rig.node import PASSWORD, USER
from rig.subdocument import Doc, Path
from rig.wire import Op, Status, vbucket_of

SUCCESSES = (Status.SUCCESS, sub.SUCCESS_DELETED)
JSON = 1
BODY, NEWER = b'{"text":"first"}', b'{"text":"second","n":[1,2]}'


@pytest.fixture(scope="module")
def login(node):
    """A user as an operator of a gateway makes it."""
    form = {"password": "secret-sg", "roles": "bucket_full_access[*],ro_admin"}
    assert node.admin.put("/settings/rbac/users/local/sg", form).status == 200
    return "sg", "secret-sg"


@pytest.fixture(params=RELEASES)
def gateway(node, gate, login, request):
    return AttributeGateway(node, gate, RELEASES[request.param], login)


def await_change(consumer, key, op=dcp.MUTATION):
    """The next change of a document, which has to be of this kind."""
    while True:
        message = consumer.receive()
        if message.op in dcp.CHANGES and message.key == key:
            assert message.op == op, message
            return message


def check_change(gateway, message, written, body):
    """A change has the CAS of the answer, and attributes with the same CAS."""
    assert written.status in SUCCESSES, written
    assert message.cas == written.cas and message.datatype & sub.ATTRIBUTES
    attributes, found = sub.split(message)
    assert found == (body or b"")
    return gateway.check_attributes(attributes, written.cas, body)


def test_attributes_release_mounts_writes_and_reads_its_feed(gateway):
    with gateway.mount() as kv, gateway.open_feed(kv) as consumer:
        written = gateway.create(kv, "doc", 2, BODY)
        check_change(gateway, await_change(consumer, b"doc"), written, BODY)
        assert gateway.create(kv, "doc", 2, BODY).status == Status.EXISTS
        stale = gateway.update(kv, "doc", 3, NEWER, written.cas + 1)
        assert stale.status == Status.EXISTS
        # A read without paths returns the body alone.
        plain = kv.get("doc")
        assert plain.value == BODY and not plain.datatype & sub.ATTRIBUTES
        written = gateway.update(kv, "doc", 3, NEWER, written.cas)
        check_change(gateway, await_change(consumer, b"doc"), written, NEWER)
    # What a restarted gateway reads through its views.
    with gateway.remount():
        for user in ("", "role:none"):
            assert gateway.query("access", key=user) == []
            assert gateway.query("role_access", key=user) == []
        assert [row["id"] for row in gateway.channel("news")] == ["doc"]
        rows = gateway.query("all_docs", "sync_housekeeping", reduce=True)
        assert rows[0]["value"] == 1


def test_read_returns_attributes_body_and_missing_paths(gateway):
    with gateway.log_in_agent() as kv:
        assert gateway.read(kv, "none").status == Status.NOT_FOUND
        # A document of an application has no state of a gateway.
        assert kv.set("plain", BODY).status == Status.SUCCESS
        found = gateway.read(kv, "plain")
        assert found.status == sub.MULTI_PATH_FAILURE
        assert found.results[0] == (sub.PATH_MISSING, b"")
        assert found.results[-1] == (Status.SUCCESS, BODY)
        written = gateway.create(kv, "doc", 1, BODY)
        found = gateway.read(kv, "doc")
        assert found.cas == written.cas and found.results[-1] == (Status.SUCCESS, BODY)
        sync = json.loads(found.results[0][1])
        assert sync["sequence"] == 1 and sync["cas"] == sub.cas_text(written.cas)
        if gateway.release.versions:
            assert found.status == sub.MULTI_PATH_FAILURE
            names = [status for status, _ in found.results]
            # `_mou` is missing.
            assert names == [0, 0, sub.PATH_MISSING, 0, 0]
        else:
            assert found.status == Status.SUCCESS


def test_deletion_keeps_sync_attribute_and_a_new_document_replaces_it(gateway):
    with gateway.mount() as kv, gateway.open_feed(kv) as consumer:
        written = gateway.create(kv, "doc", 1, BODY)
        check_change(gateway, await_change(consumer, b"doc"), written, BODY)
        assert gateway.delete(kv, "doc", 2, written.cas + 1).status == Status.EXISTS
        deleted = gateway.delete(kv, "doc", 2, written.cas)
        message = await_change(consumer, b"doc", dcp.DELETION)
        assert check_change(gateway, message, deleted, None)["sequence"] == 2
        assert kv.get("doc").status == Status.NOT_FOUND
        found = gateway.read(kv, "doc")
        assert found.status == sub.FAILURE_DELETED and found.cas == deleted.cas
        assert json.loads(found.results[0][1])["sequence"] == 2
        assert found.results[-1][0] == sub.PATH_MISSING
        rows = gateway.query("tombstones", "sync_housekeeping", startkey=0, endkey=2_000_000_000)
        assert [row["value"] for row in rows] == ["doc"]
        # An update of the tombstone.
        specs = (sub.attribute("_sync", gateway.sync(3)), sub.macro("_sync.cas"))
        updated = sub.mutate(kv, "doc", *specs, doc_flags=Doc.ACCESS_DELETED, cas=deleted.cas)
        assert updated.status == sub.SUCCESS_DELETED
        message = await_change(consumer, b"doc", dcp.DELETION)
        sync = json.loads(sub.split(message)[0]["_sync"])
        assert (sync["sequence"], sync["cas"]) == (3, sub.cas_text(updated.cas))
        # A document of the same name.
        written = gateway.revive(kv, "doc", 4, NEWER, updated.cas)
        message = await_change(consumer, b"doc")
        assert check_change(gateway, message, written, NEWER)["sequence"] == 4
        assert kv.get("doc").value == NEWER


def test_document_may_be_created_as_a_tombstone(gateway):
    flags = Doc.CREATE_AS_DELETED | Doc.ACCESS_DELETED
    with gateway.mount() as kv, gateway.open_feed(kv) as consumer:
        specs = (sub.attribute("_sync", gateway.sync(1)), sub.macro("_sync.cas"))
        written = sub.mutate(kv, "doc", *specs, doc_flags=flags | Doc.MKDOC)
        assert written.status in SUCCESSES
        message = await_change(consumer, b"doc", dcp.DELETION)
        attributes, body = sub.split(message)
        assert body == b"" and message.cas == written.cas
        assert json.loads(attributes["_sync"])["cas"] == sub.cas_text(written.cas)
        assert kv.get("doc").status == Status.NOT_FOUND
        again = sub.mutate(kv, "doc", *specs, doc_flags=flags | Doc.ADD)
        assert again.status == Status.EXISTS
        assert gateway.read(kv, "doc").status == sub.FAILURE_DELETED


def test_application_writes_keep_the_state_and_are_imported(gateway):
    """A gateway imports a document whose CAS is not that of `_sync.cas`."""
    with gateway.mount() as kv, gateway.open_feed(kv) as consumer:
        # Documents of other datatypes are not imported; feeds up to 3.0 do not agree to this one.
        assert kv.set("plain", BODY).status == Status.SUCCESS
        assert await_change(consumer, b"plain").datatype == JSON
        gateway.create(kv, "doc", 1, BODY)
        await_change(consumer, b"doc")
        stored = kv.set("doc", NEWER)
        message = await_change(consumer, b"doc")
        attributes, body = sub.split(message)
        assert body == NEWER and message.cas == stored.cas
        sync = json.loads(attributes["_sync"])
        assert sync["cas"] != sub.cas_text(message.cas)
        assert sync["value_crc32c"] == sub.crc32c_text(BODY)
        # The import writes attributes alone; the sum is that of the body that is there.
        specs = [each for each in gateway.specs(2, NEWER) if each[0] != sub.SET_DOC]
        written = sub.mutate(kv, "doc", *specs, cas=stored.cas)
        message = await_change(consumer, b"doc")
        assert check_change(gateway, message, written, NEWER)["sequence"] == 2
        # An application deletes it: the state stays on the tombstone.
        assert kv.call(Op.DELETE, "doc").status == Status.SUCCESS
        message = await_change(consumer, b"doc", dcp.DELETION)
        attributes, body = sub.split(message)
        assert json.loads(attributes["_sync"])["sequence"] == 2 and body == b""


def test_expiry_and_virtual_attributes(gateway):
    with gateway.log_in_agent() as kv:
        specs = gateway.specs(1, BODY)
        written = sub.mutate(kv, "doc", *specs, doc_flags=Doc.ADD, expiry=4_000_000_000)
        assert written.status == Status.SUCCESS
        paths = [(sub.GET, Path.XATTR, f"$document.{name}") for name in ("exptime", "revid")]
        found = sub.lookup(kv, "doc", *paths, (sub.GET, Path.XATTR, "$document"))
        assert found.status == Status.SUCCESS
        assert json.loads(found.results[0][1]) == 4_000_000_000
        assert int(json.loads(found.results[1][1])) >= 1
        document = json.loads(found.results[2][1])
        assert document["value_crc32c"] == sub.crc32c_text(BODY)
        reply = kv.call(Op.GET_META, "doc", b"\2")
        assert reply.status == Status.SUCCESS and len(reply.extras) == 21
        deleted, _, expiry, _ = struct.unpack(">IIIQ", reply.extras[:20])
        assert (deleted, expiry) == (0, 4_000_000_000)
        # A gateway repeats the expiry with each write, or preserves it; a user's attribute is read
        # beside the state.
        update = (sub.attribute("channels", ["news"]), *gateway.specs(2, NEWER))
        updated = sub.mutate(kv, "doc", *update, expiry=4_000_000_000, cas=written.cas)
        assert updated.status == Status.SUCCESS
        wanted = (sub.GET, Path.XATTR, "channels")
        found = sub.lookup(kv, "doc", paths[0], wanted, (sub.GET, Path.XATTR, "_sync"))
        assert found.status == Status.SUCCESS
        assert json.loads(found.results[0][1]) == 4_000_000_000
        assert found.results[1][1] == b'["news"]'


def test_import_feed_of_2_8_3_continues_from_its_checkpoints(node, gate, login):
    gateway = AttributeGateway(node, gate, RELEASES["2.8.3"], login)
    with gateway.mount() as kv:
        for key in ("_sync:dcp_backfill", "_sync:dcp_ck:0"):
            assert kv.get(key).status == Status.NOT_FOUND
        assert kv.set("app", BODY).status == Status.SUCCESS
        vbucket = vbucket_of(b"app", kv.vbuckets)
        with Consumer(gateway.log_in_agent(), "SGI-tests", 5) as consumer:
            for name, value in CONTROLS[:2]:
                assert consumer.control(name, value) == Status.SUCCESS
            assert consumer.request(vbucket).status == Status.SUCCESS
            message = await_change(consumer, b"app")
            checkpoint = {"seqno": message.seqno}
        assert kv.set("_sync:dcp_ck:0", json.dumps(checkpoint).encode()).status == Status.SUCCESS


def test_release_4_migrates_attachments_once(node, gate, login):
    gateway = AttributeGateway(node, gate, RELEASES["4.0.0"], login)
    with gateway.mount() as kv:
        gateway.create(kv, "doc", 1, BODY)
        job = "_sync:background_process:attachment_migration"
        beat = f"{job}:heartbeat"
        assert kv.set(beat, b"{}", expiry=30, op=Op.ADD).status == Status.SUCCESS
        state = [(sub.UPSERT, Path.MKDIR, name, b'{"n":1}') for name in ("status", "meta")]
        for _ in range(2):
            assert sub.mutate(kv, job, *state, doc_flags=Doc.MKDOC).status == Status.SUCCESS
        assert json.loads(kv.get(job).value) == {"status": {"n": 1}, "meta": {"n": 1}}
        assert b"doc" in gateway.read_once(kv, f"sg-4.0:att_migration:{gate}")
        assert kv.call(Op.DELETE, beat).status == Status.SUCCESS
        info = b'{"metadata_version":"4.0.0"}'
        assert kv.set("_sync:syncInfo", info, op=Op.ADD).status == Status.SUCCESS
    with gateway.remount() as kv:
        assert kv.get("_sync:syncInfo").value == info


@pytest.mark.parametrize("number", ["3.0.8", "3.1.0", "3.2.8", "4.0.0"])
def test_configuration_is_kept_in_the_bucket(node, gate, login, number):
    """The mode without a configuration file (section 11)."""
    gateway = AttributeGateway(node, gate, RELEASES[number], login)
    found = gateway._json("/pools/default/buckets")
    assert gate in [each["name"] for each in found]
    with gateway.log_in_agent() as kv:
        keys = ["_sync:dbconfig:default"]
        if number != "3.0.8":
            keys = ["_sync:registry", "_sync:dbconfig:demo:default"]
        for key in keys:
            assert kv.get(key).status == Status.NOT_FOUND
            stored = kv.set(key, b'{"version":"1"}', op=Op.ADD)
            assert stored.status == Status.SUCCESS
            assert kv.set(key, b"{}", op=Op.REPLACE, cas=stored.cas + 1).status == Status.EXISTS
            stored = kv.set(key, b'{"version":"2"}', op=Op.REPLACE, cas=stored.cas)
            assert stored.status == Status.SUCCESS
        gateway.mount().close()


@pytest.mark.parametrize("bucket_part", ["gate", "gate:_default:_default"])
def test_administrators_of_a_gateway_are_checked_over_rest(node, login, bucket_part):
    kind = "collection" if ":" in bucket_part else "bucket"
    names = [
        f"cluster.{kind}[{bucket_part}].sgw.db!create",
        f"cluster.{kind}[{bucket_part}].sgw.appdata!write",
    ]
    headers = {"Content-Type": "application/x-www-form-urlencoded"}

    def check(user, password, body=",".join(names)):
        rest = node.admin.as_user(user, password)
        path = "/pools/default/checkPermissions"
        return rest.request("POST", path, body, headers), rest.get("/whoami")

    allowed, me = check(USER, PASSWORD)
    assert allowed.json == {name: True for name in names}
    assert me.json["roles"] == [{"role": "admin"}]
    # A local user gets exactly the names that were asked for.
    allowed, me = check(*login)
    assert allowed.status == 200 and list(allowed.json) == names
    assert {"ro_admin", "bucket_full_access"} == {each["role"] for each in me.json["roles"]}
    for reply in check("sg", "wrong"):
        assert reply.status == 401
    # Without names it is a check of the login alone.
    assert check(*login, body="")[0].status == 400
