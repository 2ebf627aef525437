"""The whole cluster as each of three nodes shows it (rest.md, 1 to 5)."""

import contextlib
import json
import socket
import threading
import urllib.parse

import pytest
from couchbase.auth import PasswordAuthenticator
from couchbase.cluster import Cluster
from couchbase.options import ClusterOptions

from rig.node import PASSWORD, USER, Node, wait_until
from rig.wire import Op, Status, vbucket_of

MEGABYTE = 1 << 20


def otp_nodes(node):
    return [one["otpNode"] for one in node.admin.get("/pools/default").json["nodes"]]


def otp_name(node):
    (own,) = [one for one in node.admin.get("/pools/default").json["nodes"] if one.get("thisNode")]
    return own["otpNode"]


def rebalance(node, ejected=()):
    form = {"knownNodes": ",".join(otp_nodes(node)), "ejectedNodes": ",".join(ejected)}
    reply = node.admin.post("/controller/rebalance", form)
    assert reply.status == 200, reply

    def is_over():
        (task,) = [
            one for one in node.admin.get("/pools/default/tasks").json if one["type"] == "rebalance"
        ]
        # The command line reads it without asking whether it is there.
        assert task["status"] == "notRunning" or isinstance(task["detailedProgress"], dict), task
        return task["status"] == "notRunning"

    wait_until(is_over, 60, "the rebalance is over")
    task = node.admin.get("/pools/default/tasks").json[0]
    assert "errorMessage" not in task, task


@pytest.fixture(scope="module")
def nodes():
    """Three nodes, one cluster, a bucket with one replica."""
    three = [Node(), Node(), Node()]
    try:
        for node in three:
            node.start()
        first = three[0].provision(512)
        for node in three[1:]:
            form = {"hostname": f"127.0.0.1:{node.admin_port}", "user": USER, "password": PASSWORD}
            reply = first.admin.post("/controller/addNode", {**form, "services": "kv"})
            assert reply.status == 200, reply
        pool = first.admin.get("/pools/default").json
        assert pool["balanced"] is False
        assert [one["clusterMembership"] for one in pool["nodes"]] == [
            "active", "inactiveAdded", "inactiveAdded"]
        rebalance(first)
        form = {"name": "b", "ramQuotaMB": 100, "replicaNumber": 1, "numVBuckets": 64}
        assert first.admin.post("/pools/default/buckets", form).status == 202
        for node in three:
            wait_until(lambda node=node: is_well(node), 30, "all nodes are healthy everywhere")
        yield three
    finally:
        for node in three:
            node.close()


def is_well(node):
    pool = node.admin.get("/pools/default").json
    bucket = node.admin.get("/pools/default/buckets/b")
    if bucket.status != 200 or len(pool["nodes"]) != 3:
        return False
    shown = pool["nodes"] + bucket.json["nodes"]
    return all(one["status"] == "healthy" for one in shown)


def test_every_node_shows_the_same_cluster(nodes):
    seen = []
    for node in nodes:
        reply = node.admin.get("/pools/default")
        assert reply.headers["Divan-Stale"] is None
        pool = reply.json
        assert pool["balanced"] is True and pool["rebalanceStatus"] == "none"
        assert [one.get("thisNode", False) for one in pool["nodes"]].count(True) == 1
        own = next(one for one in pool["nodes"] if one.get("thisNode"))
        assert own["hostname"] == f"127.0.0.1:{node.admin_port}"
        seen.append([(one["otpNode"], one["nodeUUID"], one["clusterMembership"], one["services"],
                      one["serverGroup"], one["ports"]) for one in pool["nodes"]])
    assert seen[0] == seen[1] == seen[2] and len(seen[0]) == 3
    leaders = {node.admin.get("/pools/default/terseClusterInfo").json["orchestrator"]
               for node in nodes}
    assert len(leaders) == 1 and leaders <= {one[0] for one in seen[0]}
    services = [node.admin.get("/pools/default/nodeServices").json["nodesExt"] for node in nodes]
    assert all(len(one) == 3 for one in services)
    ports = [[ext["services"]["kv"] for ext in one] for one in services]
    assert ports[0] == ports[1] == ports[2]


def test_quotas_and_totals_are_of_all_nodes(nodes):
    for node in nodes:
        totals = node.admin.get("/pools/default").json["storageTotals"]
        assert totals["ram"]["quotaTotal"] == 3 * 512 * MEGABYTE
        assert totals["ram"]["quotaTotalPerNode"] == 512 * MEGABYTE
        assert totals["ram"]["quotaUsed"] == 3 * 100 * MEGABYTE
        own = node.admin.get("/nodes/self").json["storageTotals"]
        assert own["ram"]["quotaTotal"] == 512 * MEGABYTE
        # The same machine three times.
        assert totals["ram"]["total"] == 3 * own["ram"]["total"] > 0
        # The nodes of the tests share a disk, which counts once.
        assert totals["hdd"]["total"] == own["hdd"]["total"] > 0
        bucket = node.admin.get("/pools/default/buckets/b").json
        assert bucket["quota"] == {"ram": 300 * MEGABYTE, "rawRAM": 100 * MEGABYTE}
        assert all(one["replication"] == 1 for one in bucket["nodes"])


def test_setting_posted_on_one_node_is_visible_on_every_other_at_once(nodes):
    for turn, node in enumerate(nodes):
        name = f"cluster {turn}"
        assert node.admin.post("/pools/default", {"clusterName": name}).status == 200
        for other in nodes:
            assert other.admin.get("/pools/default").json["clusterName"] == name
        form = {"name": f"made{turn}", "ramQuotaMB": 100, "replicaNumber": 0, "numVBuckets": 64}
        assert node.admin.post("/pools/default/buckets", form).status == 202
        for other in nodes:
            assert other.admin.get(f"/pools/default/buckets/made{turn}").status == 200
        assert node.admin.delete(f"/pools/default/buckets/made{turn}").status == 200
        for other in nodes:
            assert other.admin.get(f"/pools/default/buckets/made{turn}").status == 404


def test_documents_are_reached_through_every_node(nodes):
    base = "/pools/default/buckets/b/docs"
    keys = [f"key{number:02}" for number in range(40)]
    for number, key in enumerate(keys):
        node = nodes[number % 3]
        reply = node.admin.post(f"{base}/{key}", {"value": json.dumps({"n": number})})
        assert reply.status == 200, reply
    for node in nodes:
        for number, key in enumerate(keys):
            found = node.admin.get(f"{base}/{key}")
            assert found.status == 200 and json.loads(found.json["json"]) == {"n": number}
        listed = node.admin.get(base).json["rows"]
        assert [row["id"] for row in listed] == keys
        page = node.admin.get(f"{base}?skip=5&limit=7&include_docs=true").json["rows"]
        assert [row["id"] for row in page] == keys[5:12]
        assert [row["doc"]["json"]["n"] for row in page] == list(range(5, 12))
        bounds = urllib.parse.urlencode({"startkey": '"key30"', "endkey": '"key33"'})
        some = node.admin.get(f"{base}?{bounds}").json["rows"]
        assert [row["id"] for row in some] == keys[30:34]
        assert node.admin.get("/pools/default/buckets/b/localRandomKey").json["key"] in keys

    def counts():
        seen = []
        for node in nodes:
            bucket = node.admin.get("/pools/default/buckets/b").json
            per_node = [one["interestingStats"] for one in bucket["nodes"]]
            seen.append((bucket["basicStats"]["itemCount"],
                         sum(one["curr_items"] for one in per_node),
                         sum(one["vb_replica_curr_items"] for one in per_node)))
        return all(one == (40, 40, 40) for one in seen)

    # Within the second in which nodes exchange their figures.
    wait_until(counts, 10, "every node counts 40 documents and 40 copies")
    assert nodes[2].admin.delete(f"{base}/key00").status == 200
    for node in nodes:
        assert node.admin.get(f"{base}/key00").status == 404


def test_long_poll_of_the_pool_ignores_changes_of_statistics(nodes):
    first = nodes[1].admin.get("/pools/default?waitChange=0").json
    later = nodes[1].admin.get(f"/pools/default?waitChange=2500&etag={first['etag']}").json
    assert later["etag"] == first["etag"]


def test_server_groups_are_the_same_on_every_node(nodes):
    base = "/pools/default/serverGroups"
    assert nodes[1].admin.post(base, {"name": "Rack 2"}).status == 200
    layouts = [node.admin.get(base).json for node in nodes]
    for layout in layouts:
        assert [group["name"] for group in layout["groups"]] == ["Group 1", "Rack 2"]
        assert len(layout["groups"][0]["nodes"]) == 3
    assert len({layout["uri"] for layout in layouts}) == 1
    uri = layouts[0]["groups"][1]["uri"]
    assert nodes[2].admin.delete(uri).status == 200
    assert len(nodes[0].admin.get(base).json["groups"]) == 1
    # The other nodes know it by its name now.
    for name in ("elsewhere", "localhost", "127.0.0.2"):
        reply = nodes[0].admin.post("/node/controller/rename", {"hostname": name})
        assert reply.status == 400, (name, reply)


def test_any_node_shows_the_bucket_statistics_of_each_node(nodes):
    names = [f"127.0.0.1:{node.admin_port}" for node in nodes]
    bucket = "/pools/default/buckets/b"

    def is_shown():
        for asked in nodes:
            one = asked.admin.get(f"{bucket}/stats/ep_max_size").json["nodeStats"]
            assert sorted(one) == sorted(names)
            for name in names:
                reply = asked.admin.get(f"{bucket}/nodes/{name}/stats?zoom=minute")
                assert reply.status == 200, reply
                samples = reply.json["op"]["samples"]
                if len(samples["timestamp"]) < 2 or min(samples["ep_max_size"]) == 0:
                    return False
        return True

    wait_until(is_shown, 20, "every node's past is shown by every node")
    quota = nodes[0].admin.get(bucket).json["quota"]
    for asked in nodes:
        newest = asked.admin.get(f"{bucket}/stats").json["op"]["samples"]["ep_max_size"][-1]
        assert newest == quota["ram"] == 3 * quota["rawRAM"]
    assert nodes[0].admin.get(f"{bucket}/nodes/127.0.0.1:1/stats").status == 404


def test_largest_document_goes_through_any_node_and_to_its_replica(nodes):
    text = '"' + "x" * (20 * MEGABYTE - 2) + '"'
    path = "/pools/default/buckets/b/docs/large"
    for writer in nodes:
        reply = writer.admin.post(path, {"value": text}, seconds=60)
        assert reply.status == 200, reply
        for reader in nodes:
            reply = reader.admin.get(path, seconds=60)
            assert reply.status == 200, reply
            assert reply.json["json"] == text
    place = nodes[0].admin.get("/pools/default/b/b").json["vBucketServerMap"]
    row = place["vBucketMap"][vbucket_of(b"large", 64)]
    port = int(place["serverList"][row[1]].rsplit(":", 1)[1])
    replica = next(node for node in nodes if node.kv_port == port)

    def is_there():
        with replica.connect("b") as connection:
            reply = connection.call(Op.GET_REPLICA, b"large")
            return reply.status == Status.SUCCESS and len(reply.value) == len(text)

    wait_until(is_there, 20, "the replica has it")
    assert nodes[0].admin.delete(path).status == 200


def test_metrics_count_events_of_the_cluster(nodes):
    before = nodes[0].admin.get("/pools/default").json["counters"]
    rebalance(nodes[1])
    after = nodes[2].admin.get("/pools/default").json["counters"]
    assert after["rebalance_start"] == before.get("rebalance_start", 0) + 1
    assert after["rebalance_success"] == before.get("rebalance_success", 0) + 1


EXTERNAL = "/node/controller/setupAlternateAddresses/external"


class Forwarder:
    """A port that forwards to another one, as a router's does, and counts connections."""

    def __init__(self, port):
        self.target = port
        self.came = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            self.came += 1
            server = socket.create_connection(("127.0.0.1", self.target))
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._carry, args=ends, daemon=True).start()

    @staticmethod
    def _carry(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.socket.close()


def put(node, form):
    return node.admin.request(
        "PUT",
        EXTERNAL,
        urllib.parse.urlencode(form),
        {"Content-Type": "application/x-www-form-urlencoded"},
    )


def test_external_client_connects_to_alternate_addresses(nodes):
    forwarders = [Forwarder(node.kv_port) for node in nodes]
    try:
        for node, forwarder in zip(nodes, forwarders):
            reply = put(node, {"hostname": "localhost", "kv": forwarder.port})
            assert reply.status == 200, reply
        for node in nodes:
            shown = node.admin.get("/pools/default/nodeServices").json["nodesExt"]
            assert sorted(
                each["alternateAddresses"]["external"]["ports"]["kv"] for each in shown
            ) == sorted(each.port for each in forwarders)
        options = ClusterOptions(PasswordAuthenticator(USER, PASSWORD), network="external")
        cluster = Cluster(f"couchbase://localhost:{forwarders[0].port}", options)
        try:
            collection = cluster.bucket("b").default_collection()
            for number in range(60):
                collection.upsert(f"outside-{number}", {"number": number})
                assert collection.get(f"outside-{number}").content_as[dict] == {"number": number}
        finally:
            cluster.close()
        assert all(each.came > 0 for each in forwarders)
    finally:
        for node, forwarder in zip(nodes, forwarders):
            assert node.admin.delete(EXTERNAL).status == 200
            forwarder.close()
    shown = nodes[0].admin.get("/pools/default/nodeServices").json["nodesExt"]
    assert not any("alternateAddresses" in each for each in shown)


@pytest.mark.parametrize(
    "form, text",
    [
        ({}, "must be supplied"),
        ({"hostname": "a b"}, "is not a host name or IP address"),
        ({"hostname": "a", "kv": "0"}, "in range from 1 to 65535"),
        ({"hostname": "a", "query": "9"}, "Unknown port"),
    ],
)
def test_invalid_alternate_addresses_are_refused(nodes, form, text):
    reply = put(nodes[0], form)
    assert reply.status == 400 and text in reply.text


def test_port_with_tls_is_no_port_by_which_nodes_are_added(nodes):
    form = {"hostname": f"https://127.0.0.1:{nodes[1].ready['admin_tls']}", "user": "x", "password": "y"}
    reply = nodes[0].admin.post("/controller/addNode", form)
    assert reply.status == 400 and "plain admin port" in reply.text, reply


def test_active_node_cannot_be_recovered(nodes):
    name = otp_nodes(nodes[0])[0]
    for path in ("/controller/reAddNode", "/controller/reFailOver"):
        reply = nodes[0].admin.post(path, {"otpNode": name})
        assert reply.status == 400 and "was failed over" in reply.text


def test_address_that_is_not_a_node_is_reported_as_such(nodes):
    with socket.create_server(("127.0.0.1", 0)) as stranger:

        def greet():
            connection, _ = stranger.accept()
            with connection:
                connection.sendall(b"SSH-2.0-other\r\n")
                connection.recv(4096)

        threading.Thread(target=greet, daemon=True).start()
        form = {"hostname": f"127.0.0.1:{stranger.getsockname()[1]}", "user": "", "password": ""}
        reply = nodes[0].admin.post("/controller/addNode", form)
    assert reply.status == 400 and "the response is not HTTP" in reply.text, reply


def test_unreachable_node_is_reported_without_names_of_system_calls(nodes):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    form = {"hostname": f"127.0.0.1:{port}", "user": "", "password": ""}
    reply = nodes[0].admin.post("/controller/addNode", form)
    assert reply.status == 400
    assert reply.json == [
        f"Prepare join failed. The node 127.0.0.1:{port} could not be reached: the connection was "
        "refused: no process listens there. Check that it runs, and that its admin port is open to "
        "this node."
    ]


def test_failed_rebalances_may_be_tried_again(nodes):
    path = "/settings/retryRebalance"
    asked = {"enabled": "true", "afterTimePeriod": 30, "maxAttempts": 2}
    expected = {"enabled": True, "afterTimePeriod": 30, "maxAttempts": 2}
    before = nodes[0].admin.get(path).json
    assert before == {"enabled": False, "afterTimePeriod": 300, "maxAttempts": 1}
    assert nodes[0].admin.post(path, asked).json == expected
    for node in nodes:
        assert node.admin.get(path).json == expected
        pending = node.admin.get("/pools/default/pendingRetryRebalance").json
        assert pending == {"retry_rebalance": "not_pending"}
    for wrong in ({}, {**asked, "afterTimePeriod": 4}, {**asked, "maxAttempts": 4}):
        reply = nodes[1].admin.post(path, wrong)
        assert reply.status == 400 and reply.json["errors"], reply
    assert nodes[1].admin.post("/controller/cancelRebalanceRetry/none").status == 404
    assert nodes[2].admin.post(path, before | {"enabled": "false"}).status == 200


def test_unsupported_automatic_failover_settings_are_refused(nodes):
    path = "/settings/autoFailover"
    before = nodes[0].admin.get(path).json
    form = {"enabled": "true", "timeout": 5, "failoverOnDataDiskIssues[enabled]": "true"}
    reply = nodes[1].admin.post(path, form)
    assert reply.status == 400, reply
    assert "disk" in reply.json["errors"]["failoverOnDataDiskIssues[enabled]"]
    assert nodes[2].admin.get(path).json == before
    form["failoverOnDataDiskIssues[enabled]"] = "false"
    assert nodes[1].admin.post(path, {**form, "timeout": before["timeout"]}).status == 200


def test_fixed_settings_are_accepted_and_unknown_ones_refused(nodes):
    path = "/settings/autoFailover"
    form = {"enabled": "true", "timeout": nodes[0].admin.get(path).json["timeout"]}
    shown = nodes[2].admin.get(path).json
    assert shown["canAbortRebalance"] is True and shown["disableMaxCount"] is False
    said = {"canAbortRebalance": "true", "allowFailoverEphemeralNoReplicas": "false"}
    assert nodes[1].admin.post(path, {**form, **said}).status == 200
    for name, value in [("canAbortRebalance", "false"), ("maxcount", "3")]:
        reply = nodes[1].admin.post(path, {**form, name: value})
        assert reply.status == 400 and name in reply.json["errors"], reply
    reply = nodes[1].admin.post("/settings/retryRebalance", {"enabled": "false", "often": "9"})
    assert reply.status == 400 and "often" in reply.json["errors"], reply


def test_validated_only_request_changes_nothing(nodes):
    before = nodes[0].admin.get("/pools/default").json
    shown = ["/settings/retryRebalance", "/settings/rebalance", "/settings/autoFailover"]
    settings = [nodes[0].admin.get(path).json for path in shown]
    for path, form, wrong in [
        ("/pools/default", {"clusterName": "other", "memoryQuota": 300}, {"memoryQuota": 1}),
        (
            "/settings/autoFailover",
            {"enabled": "true", "timeout": 77},
            {"enabled": "true"},
        ),
        ("/settings/retryRebalance", {"enabled": "true"}, {"enabled": "perhaps"}),
        ("/settings/rebalance", {"rebalanceMovesPerNode": 7}, {"rebalanceMovesPerNode": 0}),
        ("/internalSettings", {"maxBucketCount": 3}, {"maxBucketCount": 0}),
        (
            "/settings/web",
            {"port": "SAME", "username": "other", "password": "other-password"},
            {"port": "SAME", "username": "other", "password": "short"},
        ),
    ]:
        reply = nodes[1].admin.post(path + "?just_validate=1", form)
        assert reply.status == 200 and reply.json == {"errors": {}}, (path, reply)
        reply = nodes[1].admin.post(path + "?just_validate=1", wrong)
        assert reply.status == 400 and reply.json["errors"], (path, reply)
    assert [nodes[0].admin.get(path).json for path in shown] == settings
    assert nodes[0].admin.get("/internalSettings").json["maxBucketCount"] != 3
    # An order that cannot be validated without being executed is not executed.
    reply = nodes[1].admin.post("/controller/stopRebalance?just_validate=1", {})
    assert reply.status == 400 and "just_validate" in reply.json["errors"], reply
    after = nodes[2].admin.get("/pools/default").json
    assert [after[key] for key in ("clusterName", "memoryQuota")] == [
        before[key] for key in ("clusterName", "memoryQuota")
    ]


def test_change_on_one_node_sees_earlier_changes_on_other_nodes(nodes):
    buckets = "/pools/default/buckets"
    form = {"bucketType": "couchbase", "ramQuotaMB": 100, "numVBuckets": 64}
    for turn in range(8):
        one, other = nodes[turn % 3], nodes[(turn + 1) % 3]
        assert one.admin.post(buckets, {**form, "name": "passing"}).status == 202
        assert other.admin.post(f"{buckets}/passing", {"ramQuotaMB": 110}).status == 200
        assert one.admin.delete(f"{buckets}/passing").status == 200
        assert other.admin.delete(f"{buckets}/passing").status == 404


def test_changes_at_the_same_time_are_all_kept(nodes):
    base = "/pools/default/serverGroups"
    # At most as many as a change is retried for when others are committed first.
    names = [f"Row {number}" for number in range(9)]
    failures = []

    def add(number):
        node = nodes[number % 3]
        reply = node.admin.post(base, {"name": names[number]})
        form = {"ramQuotaMB" if number % 2 else "flushEnabled": 110 if number % 2 else 1}
        other = node.admin.post("/pools/default/buckets/b", form)
        retry = {"enabled": "false", "afterTimePeriod": 77}
        moves = {"rebalanceMovesPerNode": 7}
        third = node.admin.post(
            *(("/settings/retryRebalance", retry) if number % 2 else ("/settings/rebalance", moves))
        )
        failures.extend(one for one in (reply, other, third) if one.status != 200)

    before = {
        "retry": nodes[0].admin.get("/settings/retryRebalance").json,
        "moves": nodes[0].admin.get("/settings/rebalance").json,
    }
    threads = [threading.Thread(target=add, args=(number,)) for number in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    groups = nodes[0].admin.get(base).json["groups"]
    assert {group["name"] for group in groups} == {"Group 1", *names}
    bucket = nodes[1].admin.get("/pools/default/buckets/b").json
    assert bucket["quota"]["rawRAM"] == 110 << 20 and "flush" in bucket["controllers"]
    assert nodes[2].admin.get("/settings/retryRebalance").json["afterTimePeriod"] == 77
    assert nodes[2].admin.get("/settings/rebalance").json == {"rebalanceMovesPerNode": 7}
    for group in groups:
        if group["name"] in names:
            assert nodes[0].admin.delete(group["uri"]).status == 200
    again = {"enabled": "false", "afterTimePeriod": before["retry"]["afterTimePeriod"]}
    assert nodes[0].admin.post("/settings/retryRebalance", again).status == 200
    assert nodes[0].admin.post("/settings/rebalance", before["moves"]).status == 200


def test_session_ends_on_every_node_with_the_password(nodes):
    def page(node, cookie):
        return node.admin.as_user("", "").request(
            "GET", "/whoami", headers={"ns-server-ui": "yes", "Cookie": cookie, "Authorization": ""}
        )

    cookies = []
    for node in nodes:
        reply = node.admin.post("/uilogin", {"user": USER, "password": PASSWORD})
        assert reply.status == 200
        cookies.append(reply.headers["Set-Cookie"].split(";")[0])
        assert page(node, cookies[-1]).json["id"] == USER
    stream = nodes[2].admin.stream("/poolsStreaming/default")
    assert stream.next()
    form = {"port": "SAME", "username": USER, "password": PASSWORD}
    assert nodes[0].admin.post("/settings/web", form).status == 200

    for node, cookie in zip(nodes, cookies):
        wait_until(lambda: page(node, cookie).status == 401, 10, "the session is over")
    while stream.next() is not None:
        pass


def test_every_node_shows_the_log_entries_of_all_nodes(nodes):
    """Every node shows the log entries of every other, with the name of the node."""
    form = {"bucketType": "couchbase", "name": "logged", "ramQuotaMB": 100, "numVBuckets": 64}
    assert nodes[1].admin.post("/pools/default/buckets", form).status == 202
    assert nodes[2].admin.delete("/pools/default/buckets/logged").status == 200
    for node in nodes:
        found = node.admin.get("/logs?limit=3000").json["list"]
        (created,) = [one for one in found if 'Bucket "logged" was created' in one["text"]]
        (deleted,) = [one for one in found if one["text"] == 'Bucket "logged" was deleted.']
        assert [created["node"], deleted["node"]] == [otp_name(nodes[1]), otp_name(nodes[2])]
        stamps = [one["tstamp"] for one in found]
        assert stamps == sorted(stamps)
        # Not older than the last of them there is nothing but what came since.
        newest = node.admin.get(f"/logs?sinceTime={deleted['tstamp']}").json["list"]
        assert deleted in newest and created not in newest
        assert len(node.admin.get("/logs?limit=2").json["list"]) == 2


def test_killed_node_is_unhealthy_and_its_statistics_are_not_shown(nodes):
    """The last: it ends a node."""
    gone = nodes[2]
    name = f"127.0.0.1:{gone.admin_port}"
    reply = nodes[0].admin.post("/settings/autoFailover", {"enabled": "false"})
    assert reply.status == 200
    gone.kill()
    for node in nodes[:2]:
        def is_named(node=node):
            statuses = node.admin.get("/nodeStatuses").json
            alerts = [one["msg"] for one in node.admin.get("/pools/default").json["alerts"]]
            why = [text for text in alerts if name in text and "switched off" in text]
            return statuses[name]["status"] == "unhealthy" and why

        wait_until(is_named, 20, "the node that is gone is named, and why it stays")
        shown = {one["hostname"]: one for one in node.admin.get("/pools/default").json["nodes"]}
        assert shown[name]["interestingStats"] == {} and shown[name]["uptime"] == "0"
        assert "gracefulFailoverPossible" not in node.admin.get("/nodeStatuses").json[name]
    # Alone, a node shows its state, marked as possibly outdated.
    nodes[1].kill()
    reply = wait_until(lambda: stale(nodes[0]), 20, "what the last one says is marked as old")
    assert len(reply.json["nodes"]) == 3


def stale(node):
    reply = node.admin.get("/pools/default")
    return reply if reply.headers["Divan-Stale"] == "true" else None
