"""The forms of the server's log: one line for each event, with its fields."""

import json
import re

import pytest

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def test_log_of_json_has_one_object_a_line_with_node_and_bucket(make_node):
    node = make_node("--log-format", "json").start().provision().create_bucket("travel")
    assert node.admin.delete("/pools/default/buckets/travel").status == 200
    # A client's text cannot begin another line.
    report = "first\nsecond \"quoted\" \\ back"
    assert node.admin.request("POST", "/logClientError", json.dumps(report)).status == 200
    node.stop()
    lines = [json.loads(line) for line in node.log().splitlines()]
    fields = ["time", "severity", "component", "node", "bucket", "message"]
    for line in lines:
        assert list(line) == fields
        assert re.fullmatch(TIME, line["time"])
        assert line["severity"] in ("debug", "info", "warning", "error", "fault")
    name = f"n_{node.admin_port}@127.0.0.1"
    about = [line for line in lines if line["bucket"] == "travel"]
    assert any("was created" in line["message"] for line in about)
    assert any("was deleted" in line["message"] for line in about)
    assert {(line["node"], line["component"]) for line in about} == {(name, "cluster")}
    (reported,) = [line for line in lines if "quoted" in line["message"]]
    assert reported["severity"] == "warning" and reported["bucket"] is None
    # A restart knows the name from its first line on.
    before = len(lines)
    node.start().stop()
    later = [json.loads(line) for line in node.log().splitlines()[before:]]
    started = next(line for line in later if "has started to serve" in line["message"])
    assert started["node"] == name


def test_log_of_text_names_node_and_bucket(make_node):
    node = make_node("--log-format", "text").start().provision().create_bucket("travel")
    node.stop()
    name = re.escape(f"n_{node.admin_port}@127.0.0.1")
    created = rf"{TIME} info  cluster \[{name} travel\]: Bucket \"travel\" was created: .*"
    assert [line for line in node.log().splitlines() if re.fullmatch(created, line)]


def test_unknown_log_format_is_refused(make_node):
    with pytest.raises(Exception, match="--log-format"):
        make_node("--log-format", "xml").start()
