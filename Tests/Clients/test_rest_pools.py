"""The admin port: logins, and the state of the cluster and its nodes (rest.md, 0 to 3)."""

import json
import re
import time

import pytest

from rig.node import PASSWORD, USER, wait_until
from rig.wire import Status

NOT_FOUND = "Requested resource not found.\r\n"
HEX32 = re.compile(r"[0-9a-f]{32}")


@pytest.fixture
def fresh(make_node):
    """A node that is not provisioned."""
    return make_node().start()


# Before and after provisioning


def test_unprovisioned_node_has_no_pool(fresh):
    pools = fresh.anonymous.get("/pools").json
    assert pools["pools"] == [] and pools["settings"] == [] and pools["uuid"] == []
    for path in ("/pools/default", "/pools/default/terseClusterInfo"):
        reply = fresh.anonymous.get(path)
        assert (reply.status, reply.json) == (404, "unknown pool")


@pytest.mark.parametrize("login", [None, ("unknown", "anything"), ("", "")])
def test_unprovisioned_node_accepts_any_credentials(fresh, login):
    admin = fresh.anonymous if login is None else fresh.anonymous.as_user(*login)
    assert admin.get("/pools").status == 200
    assert admin.get("/nodes/self").status == 200


def test_unprovisioned_node_describes_itself(fresh):
    own = {"hostname": "127.0.0.1", "dataPath": str(fresh.data), "afamily": "ipv4"}
    assert fresh.anonymous.post("/nodeInit", own).status == 200
    for name, value in [
        ("dataPath", "/elsewhere"),
        ("afamily", "ipv6"),
        ("afamilyOnly", "true"),
        ("javaHome", "/java"),
        ("datapath", str(fresh.data)),
    ]:
        reply = fresh.anonymous.post("/nodeInit", {name: value})
        assert reply.status == 400 and list(reply.json["errors"]) == [name], reply
    # In one request with other settings, it has the same bounds.
    form = {"username": USER, "password": PASSWORD, "services": "kv", "indexPath": "/elsewhere"}
    reply = fresh.anonymous.post("/clusterInit", form)
    assert reply.status == 400 and "--data" in reply.json["errors"]["indexPath"], reply
    assert fresh.anonymous.get("/pools").json["pools"] == []


def test_cluster_init_provisions_in_one_call(fresh):
    form = {
        "port": "SAME",
        "username": USER,
        "password": PASSWORD,
        "services": "kv",
        "memoryQuota": 512,
        "clusterName": "a cluster of one",
    }
    reply = fresh.anonymous.post("/clusterInit", form)
    assert reply.status == 200
    assert reply.json == {"newBaseUri": f"http://127.0.0.1:{fresh.admin_port}/"}
    # From here on every request needs the password.
    assert fresh.anonymous.get("/pools/default").status == 401
    assert fresh.admin.as_user("unknown", "anything").get("/pools/default").status == 401
    found = fresh.admin.get("/pools/default").json
    assert found["memoryQuota"] == 512 and found["clusterName"] == "a cluster of one"
    # And only once without it.
    assert fresh.anonymous.post("/clusterInit", form).status == 401


def test_settings_web_provisions_too(fresh):
    form = {"port": "SAME", "username": "chief", "password": "secret-word"}
    reply = fresh.anonymous.post("/settings/web", form)
    assert reply.status == 200 and "newBaseUri" in reply.json
    assert fresh.anonymous.get("/pools/default").status == 401
    chief = fresh.anonymous.as_user("chief", "secret-word")
    assert chief.get("/pools/default").status == 200
    assert chief.get("/settings/web").json == {"port": fresh.admin_port, "username": "chief"}


@pytest.mark.parametrize(
    "change,field",
    [
        ({"password": "short"}, "password"),
        ({"username": ""}, "username"),
        ({"username": "a:b"}, "username"),
        ({"username": "x" * 129}, "username"),
        ({"memoryQuota": "100"}, "memoryQuota"),
        ({"memoryQuota": "much"}, "memoryQuota"),
        ({"services": "kv,n1ql"}, "services"),
        ({"port": "x"}, "port"),
    ],
    ids=str,
)
def test_invalid_settings_are_reported_field_by_field(fresh, change, field):
    form = {
        "port": "SAME",
        "username": USER,
        "password": PASSWORD,
        "services": "kv",
        "memoryQuota": 512,
        **change,
    }
    reply = fresh.anonymous.post("/clusterInit", form)
    assert reply.status == 400
    assert field in reply.json["errors"], reply.text
    assert fresh.anonymous.get("/pools").json["pools"] == []


def test_memory_quota_below_the_least_is_refused_in_couchbases_words(fresh):
    form = {"port": "SAME", "username": USER, "password": PASSWORD, "memoryQuota": 100}
    errors = fresh.anonymous.post("/clusterInit", form).json["errors"]
    assert errors["memoryQuota"].startswith(
        "The data service quota (100MB) cannot be less than 256MB"
    )


def test_changed_password_counts_at_once(make_node):
    node = make_node().start().provision().create_bucket("kept")
    form = {"port": "SAME", "username": USER, "password": "another-word"}
    assert node.admin.post("/settings/web", form).status == 200
    assert node.admin.get("/pools/default").status == 401
    assert node.admin.as_user(USER, "another-word").get("/pools/default").status == 200


# Every route


def test_without_a_login_there_is_a_challenge(node):
    reply = node.anonymous.get("/pools/default")
    assert reply.status == 401 and b"name and the password" in reply.body
    expected = 'Basic realm="Couchbase Server Admin / REST"'
    assert reply.headers["WWW-Authenticate"] == expected
    quiet = node.anonymous.get("/pools/default", headers={"invalid-auth-response": "on"})
    assert quiet.status == 401 and quiet.headers["WWW-Authenticate"] is None


@pytest.mark.parametrize("header", ["Basic", "Basic !!!", "Bearer x", "Basic YWJj", "Basic Og=="])
def test_malformed_login_is_refused(node, header):
    assert node.anonymous.get("/pools/default", headers={"Authorization": header}).status == 401


def test_unknown_path_is_not_found_in_couchbases_words(node):
    for path in ("/nothing", "/pools/other", "/pools/default/buckets/none"):
        reply = node.admin.get(path)
        assert (reply.status, reply.text) == (404, NOT_FOUND), path
        assert reply.headers["Content-Type"].startswith("text/plain")


def test_headers_that_every_answer_has(node):
    headers = node.admin.get("/pools").headers
    assert headers["Cache-Control"] == "no-cache,no-store,must-revalidate"
    assert headers["Pragma"] == "no-cache"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Server"]
    assert headers["Content-Type"].startswith("application/json")


def test_slashes_may_be_repeated_and_trail(node):
    for path in ("/pools/default/", "//pools//default", "/metrics/"):
        assert node.admin.get(path).status == 200, path


def test_another_clusters_uuid_is_refused(node):
    uuid = node.admin.get("/pools").json["uuid"]
    assert HEX32.fullmatch(uuid)
    assert node.admin.get(f"/pools/default?uuid={uuid}").status == 200
    reply = node.admin.get(f"/pools/default?uuid={'0' * 32}")
    assert reply.status == 404
    assert reply.text == "Cluster uuid does not match the requested.\r\n"


def test_wrong_method_is_answered_with_404_or_405(node):
    for method, path in (("DELETE", "/pools"), ("PUT", "/pools/default"), ("PATCH", "/clusterInit")):
        assert node.admin.request(method, path).status in (404, 405)


def test_password_checks_do_not_cost_a_derivation_each(node):
    node.admin.get("/pools")
    before = node.processor_seconds()
    for _ in range(100):
        assert node.admin.get("/pools").status == 200
    assert (node.processor_seconds() - before) / 100 < 0.01


# The cluster


def test_pools_name_the_versions_clients_branch_on(node):
    pools = node.admin.get("/pools").json
    assert pools["implementationVersion"] == "7.6.2-0000-enterprise"
    assert pools["isEnterprise"] is True and pools["isAdminCreds"] is True
    assert pools["componentsVersion"]["ns_server"] == "7.6.2-0000-enterprise"
    assert pools["divanVersion"]
    (pool,) = pools["pools"]
    assert pool["name"] == "default" and pool["uri"].startswith("/pools/default")
    versions = node.anonymous.get("/versions")
    versions = versions if versions.status == 200 else node.admin.get("/versions")
    assert versions.json["implementationVersion"] == "7.6.2-0000-enterprise"
    assert versions.json["divanVersion"] == pools["divanVersion"]


def test_pool_has_the_members_that_clients_require(node, bucket):
    found = node.admin.get("/pools/default").json
    assert found["name"] == "default"
    assert {"bucketName", "uuid"} <= set(found["bucketNames"][0])
    assert found["maxBucketCount"] == 1000
    assert found["rebalanceStatus"] == "none" and found["balanced"] is True
    assert found["memoryQuota"] == 2048
    assert found["buckets"]["uri"].startswith("/pools/default/buckets")
    assert found["buckets"]["terseBucketsBase"] == "/pools/default/b/"
    assert found["buckets"]["terseStreamingBucketsBase"] == "/pools/default/bs/"
    assert node.admin.get(found["remoteClusters"]["uri"]).json == []
    compaction = found["controllers"]["setAutoCompaction"]
    form = {"parallelDBAndViewCompaction": "false"}
    assert node.admin.post(compaction["validateURI"], form).status == 200
    assert compaction["uri"].startswith("/controller/setAutoCompaction?uuid=")
    ram = found["storageTotals"]["ram"]
    assert ram["quotaTotal"] == 2048 << 20 and ram["quotaUsed"] >= 100 << 20
    (this,) = found["nodes"]
    for text in ("hostname", "otpNode", "version", "os", "status"):
        assert isinstance(this[text], str) and this[text]


def test_node_description_matches_the_node(node, bucket):
    this = node.admin.get("/nodes/self").json
    assert this["hostname"] == f"127.0.0.1:{node.admin_port}"
    assert this["otpNode"] == f"n_{node.admin_port}@127.0.0.1"
    assert this["clusterCompatibility"] == 458758
    assert this["version"] == "7.6.2-0000-enterprise"
    assert this["services"] == ["kv"]
    assert this["ports"]["direct"] == node.kv_port
    assert this["clusterMembership"] == "active" and this["status"] == "healthy"
    assert int(this["uptime"]) >= 0 and isinstance(this["uptime"], str)
    assert this["memoryTotal"] > this["memoryFree"] > 0
    assert this["cpuCount"] >= 1
    assert this["couchApiBase"] == f"http://127.0.0.1:{node.ready['views']}/"
    assert this["couchApiBaseHTTPS"] == f"https://127.0.0.1:{node.ready['views_tls']}/"
    assert this["ports"]["httpsMgmt"] == node.ready["admin_tls"]
    assert this["ports"]["httpsCAPI"] == node.ready["views_tls"]
    by_name = node.admin.get(f"/nodes/{this['otpNode']}").json
    assert by_name["otpNode"] == this["otpNode"]
    reply = node.admin.get("/nodes/n_1@nowhere")
    assert (reply.status, reply.json) == (404, "Node is unknown to this cluster.")


def test_node_statuses_and_services(node):
    (status,) = node.admin.get("/nodeStatuses").json.values()
    assert status["status"] == "healthy" and status["otpNode"].startswith("n_")
    services = node.admin.get("/pools/default/nodeServices").json
    (this,) = services["nodesExt"]
    assert this["thisNode"] is True
    ports = {"mgmt": node.admin_port, "kv": node.kv_port, "capi": node.ready["views"]}
    secured = {"mgmtSSL": "admin_tls", "kvSSL": "kv_tls", "capiSSL": "views_tls"}
    assert this["services"] == ports | {name: node.ready[key] for name, key in secured.items()}
    assert not {"name", "vBucketServerMap"} & set(services)
    info = node.admin.get("/pools/default/terseClusterInfo").json
    assert HEX32.fullmatch(info["clusterUUID"]) and info["isBalanced"] is True


def test_pools_nodes_is_an_alias(node):
    found = node.admin.get("/pools/nodes").json["nodes"]
    assert found[0]["configuredHostname"] == f"127.0.0.1:{node.admin_port}"


def test_whoami_describes_the_administrator(node):
    found = node.admin.get("/whoami").json
    assert found["id"] == USER and found["domain"] == "admin"
    assert found["roles"] == [{"role": "admin"}]


def test_cluster_can_be_renamed_and_resized(make_node):
    node = make_node().start().provision()
    assert node.admin.post("/pools/default", {"clusterName": "new", "memoryQuota": 1024}).status == 200
    found = node.admin.get("/pools/default").json
    assert (found["clusterName"], found["memoryQuota"]) == ("new", 1024)
    node.create_bucket("large", ramQuotaMB=600)
    reply = node.admin.post("/pools/default", {"memoryQuota": 500})
    assert reply.status == 400 and "600MB" in reply.json["errors"]["memoryQuota"]
    assert node.admin.post("/pools/default", {}).status == 400


def test_permissions_are_answered_as_they_were_asked(node):
    asked = "cluster.bucket[travel].data.docs!read,cluster.admin!write"
    reply = node.admin.request("POST", "/pools/default/checkPermissions", asked)
    assert reply.status == 200
    assert reply.json == {permission: True for permission in asked.split(",")}
    assert node.admin.request("POST", "/pools/default/checkPermissions", "").status == 400
    anonymous = node.anonymous.request("POST", "/pools/default/checkPermissions", asked)
    assert anonymous.status == 401


def test_tasks_always_contain_the_rebalance(node):
    tasks = node.admin.get("/pools/default/tasks").json
    (rebalance,) = [task for task in tasks if task["type"] == "rebalance"]
    assert rebalance["status"] == "notRunning"


def test_logs_contain_events(node, bucket):
    found = node.admin.get("/logs").json["list"]
    assert found
    for entry in found:
        assert entry["type"] in ("info", "warning", "critical")
        assert entry["text"] and entry["tstamp"] > 1_700_000_000_000
    assert any(bucket in entry["text"] for entry in found)


def test_reported_error_of_a_user_interface_is_in_the_nodes_log_only(node):
    report = b'{"message":"Uncaught' + b"\n" + b"error of a test" + b"x" * 5000
    assert node.admin.request("POST", "/logClientError", report).status == 200
    (line,) = [line for line in node.log().splitlines() if "error of a test" in line]
    assert "Uncaught error of a test" in line and line.endswith("xx (shortened)")
    assert "error of a test" not in node.admin.get("/logs").text


def test_reports_of_a_user_interface_are_bounded_in_length_and_number(make_node):
    node = make_node().start().provision()
    report = b"first report " + b"\xff" * 4000
    assert node.admin.request("POST", "/logClientError", report).status == 200
    (line,) = [line for line in node.log().splitlines() if "first report" in line]
    assert line.endswith(" (shortened)") and len(line.encode()) < 4096 + 200
    replies = [
        node.admin.request("POST", "/logClientError", b"report %d." % number)
        for number in range(24)
    ]
    assert [reply.status for reply in replies] == 19 * [200] + 5 * [429]
    for reply in replies[19:]:
        assert "was not logged" in reply.text and 1 <= int(reply.headers["Retry-After"]) <= 60
    logged = [number for number in range(24) if f"report {number}." in node.log()]
    assert logged == list(range(19))


def test_prometheus_finds_the_admin_port(node):
    reply = node.admin.get("/prometheus_sd_config")
    assert reply.json == [{"targets": [f"127.0.0.1:{node.admin_port}"]}]


def test_metrics_are_prometheus_text_without_duplicates(node, bucket):
    with node.connect(bucket) as connection:
        for number in range(10):
            connection.set(b"metric-%d" % number, b"1")
    reply = node.admin.get("/metrics")
    assert reply.status == 200 and reply.headers["Content-Type"].startswith("text/plain")
    seen = set()
    for line in reply.text.splitlines():
        if not line or line.startswith("#"):
            continue
        series, value = line.rsplit(" ", 1)
        assert series not in seen, f"{series} twice"
        seen.add(series)
        float(value)
    names = {series.split("{")[0] for series in seen}
    assert {"kv_ops", "kv_curr_items", "kv_mem_used_bytes"} <= names
    assert node.anonymous.get("/metrics").status == 401


def test_metrics_count_what_clients_did(make_node):
    node = make_node().start().provision().create_bucket("one").create_bucket("two")

    def metrics(bucket):
        lines = node.admin.get("/metrics").text.splitlines()
        found = [line.split(" ") for line in lines if f'bucket="{bucket}"' in line]
        return {name.replace(f'bucket="{bucket}"', ""): float(number) for name, number in found}

    # The settings of a new bucket are written to disk too.
    wait_until(lambda: metrics("two")["kv_ep_oldest_unpersisted_seconds{}"] == 0, 5)
    with node.connect("one") as connection:
        before = metrics("one")
        others = metrics("two")
        cas = connection.set(b"key", b"v" * 1000).cas
        assert connection.set(b"key", b"other", cas=cas + 1).status == Status.EXISTS
        assert connection.get(b"key").status == Status.SUCCESS
        after = metrics("one")
        sent = (24 + 8 + 3 + 1000) + (24 + 8 + 3 + 5) + (24 + 3)
        assert after["kv_read_bytes{}"] - before["kv_read_bytes{}"] == sent
        written = after["kv_written_bytes{}"] - before["kv_written_bytes{}"]
        assert 1000 + 4 + 3 * 24 <= written < 1000 + 200
        assert after['kv_ops{,op="cas",result="badval"}'] == 1
        assert after["kv_curr_connections{}"] == 1
        assert metrics("two") == others
        assert others["kv_curr_connections{}"] == 0
    wait_until(lambda: metrics("one")["kv_curr_connections{}"] == 0, 5)


def test_streamed_pool_ends_documents_with_four_lines(node):
    with node.admin.stream("/poolsStreaming/default") as stream:
        assert stream.status == 200
        assert json.loads(stream.next())["name"] == "default"


def test_closed_streams_leave_no_connections(node):
    for _ in range(10):
        with node.admin.stream("/poolsStreaming/default") as stream:
            assert stream.next()
    assert node.admin.post("/pools/default", {"clusterName": "still here"}).status == 200
    time.sleep(0.3)
    assert node.is_running
    assert node.admin.get("/pools/default").json["clusterName"] == "still here"


def test_node_services_stream(node):
    with node.admin.stream("/pools/default/nodeServicesStreaming") as stream:
        assert json.loads(stream.next())["nodesExt"]


def test_change_of_the_pool_can_be_waited_for(node):
    etag = node.admin.get("/pools/default?waitChange=0&etag=").json["etag"]
    began = time.monotonic()
    assert node.admin.get(f"/pools/default?waitChange=400&etag={etag}").json["etag"] == etag
    assert time.monotonic() - began >= 0.4
    node.admin.post("/pools/default", {"clusterName": "waited for"})
    found = node.admin.get(f"/pools/default?waitChange=20000&etag={etag}").json
    assert found["clusterName"] == "waited for" and found["etag"] != etag
    assert time.monotonic() - began < 10


def test_erlang_is_not_evaluated(node):
    assert node.admin.request("POST", "/diag/eval", "1+1.").status in (403, 404)


def test_silent_clients_do_not_delay_other_clients(node):
    import socket

    idle = [socket.create_connection(("127.0.0.1", node.admin_port)) for _ in range(50)]
    for each in idle[:25]:
        each.sendall(b"GET /pools HTTP/1.1\r\nHost: x\r\nContent-Le")
    began = time.monotonic()
    assert node.admin.get("/pools").status == 200
    assert time.monotonic() - began < 10
    for each in idle:
        each.close()


def test_body_too_large_is_refused(node):
    form = {"name": "x" * (64 << 20)}
    try:
        assert node.admin.post("/pools/default/buckets", form).status in (400, 413)
    except (BrokenPipeError, ConnectionResetError):
        pass
    wait_until(lambda: node.admin.get("/pools").status == 200, 5)
