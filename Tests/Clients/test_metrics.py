"""The metrics of the nodes of a cluster, as Prometheus reads them."""

import json

from cluster import made
from documents import Documents
from rig import metrics
from rig.node import PASSWORD, USER, wait_until
from rig.rest import Rest
from rig.wire import Status, vbucket_of

USERS = "/settings/rbac/users/local"


def read(node):
    samples, kinds = metrics.read(node.admin.get("/metrics").text)
    assert metrics.flaws(kinds) == []
    return samples


def sum_of(samples, name, **labels):
    """The sum of the samples with these labels."""
    wanted = set(labels.items())
    return sum(value for (each, has), value in samples.items()
               if each == name and wanted <= set(has))


def test_metrics_are_strict_prometheus_text_with_help_and_good_names(start):
    cluster = start(made, 2, buckets=["b"])
    Documents(cluster, "b").write("key", 300, 0)
    view = {"views": {"v": {"map": "function (doc, meta) { emit(meta.id, null); }"}}}
    views = Rest(cluster[0].ready["views"], (USER, PASSWORD))
    headers = {"Content-Type": "application/json"}
    reply = views.request("PUT", "/b/_design/d", json.dumps(view), headers)
    assert reply.status == 201, reply
    assert len(views.get("/b/_design/d/_view/v?stale=false").json["rows"]) == 300
    wait_until(lambda: sum_of(read(cluster[0]), "view_indexes", bucket="b") == 1, 20,
               "the index is measured")
    for number in range(2):
        node = cluster[number]
        wait_until(lambda: sum_of(read(node), "kv_replication_backlog_items") == 0, 20,
                   "the other node has acknowledged every change")
    samples = [read(node) for node in cluster.members]
    both = {key: sum(each.get(key, 0) for each in samples) for key in samples[0]}
    assert sum_of(both, "kv_curr_items", bucket="b") == 300
    assert sum_of(both, "kv_vb_curr_items", bucket="b", state="active") == 300
    assert sum_of(both, "kv_vb_curr_items", bucket="b", state="replica") == 300
    assert sum_of(both, "kv_num_vbuckets", bucket="b", state="active") == 64
    assert sum_of(both, "kv_num_vbuckets", bucket="b", state="replica") == 64
    writes = sum_of(both, "kv_cmd_duration_seconds_count", bucket="b", opcode="SET")
    assert writes == sum_of(both, "kv_ops", bucket="b", op="set") == 300
    assert sum_of(both, "kv_replication_acknowledgement_seconds_count", bucket="b") > 0
    for phase in "open", "rows":
        queries = sum_of(samples[0], "view_query_seconds_count", bucket="b", phase=phase)
        assert queries == 1, phase
    for each in "views", "statistics", "pools":
        assert sum_of(samples[0], "cm_http_requests_seconds_count", **{"class": each}) > 0, each
    assert sum_of(both, "cm_raft_role", role="leader") == 1
    assert sum_of(both, "cm_raft_role") == 2
    for each in samples:
        assert sum_of(each, "cm_raft_term") >= 1
        assert sum_of(each, "cm_alerts") == 0
        assert sum_of(each, "cm_lost_redundancy_vbuckets") == 0
        assert sum_of(each, "process_cpu_seconds_total") > 0
        assert sum_of(each, "process_resident_memory_bytes") > 10 << 20
        assert 10 < sum_of(each, "process_open_fds") < sum_of(each, "process_max_fds")


def test_backlog_of_a_link_grows_while_the_other_node_is_down(start):
    cluster = start(made, 2, buckets=["b"])
    other = cluster.name(1)
    mine = Documents(cluster, "b")
    mine.write("before", 200, 0)
    form = {"enabled": "false"}
    assert cluster[0].admin.post("/settings/autoFailover", form).status == 200
    cluster[1].suspend()
    with cluster[0].connect("b") as connection:
        owners = mine.owners(0)
        keys = [b"after-%d" % number for number in range(400)]
        owned = [key for key in keys if owners[vbucket_of(key, len(owners))] == 0]
        # The node serves until its lease ends.
        stored = sum(connection.set(key, b"1").status == Status.SUCCESS for key in owned[:50])
    assert stored > 0
    backlog = sum_of(read(cluster[0]), "kv_replication_backlog_items", bucket="b", node=other)
    assert backlog >= stored
    assert sum_of(read(cluster[0]), "kv_replication_backlog_items") == backlog
    cluster[1].resume()
    wait_until(lambda: sum_of(read(cluster[0]), "kv_replication_backlog_items") == 0, 30,
               "the other node catches up")


def test_external_stats_reader_reads_metrics_and_nothing_else(make_node):
    node = make_node().start().provision().create_bucket("b", replicaNumber=0)
    form = {"password": "secret-1", "roles": "external_stats_reader"}
    assert node.admin.put(f"{USERS}/prometheus", form).status == 200
    reader = node.admin.as_user("prometheus", "secret-1")
    assert reader.get("/metrics").text.startswith("# HELP ")
    assert reader.get("/prometheus_sd_config").status == 200
    for path in "/pools/default", "/pools/default/buckets/b/docs", "/logs", USERS:
        assert reader.get(path).status == 403, path
    (role,) = [each for each in node.admin.get("/settings/rbac/roles").json
               if each["role"] == "external_stats_reader"]
    assert role["name"] == "External Stats Reader"
