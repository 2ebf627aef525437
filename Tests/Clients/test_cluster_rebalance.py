"""Rebalance with real processes: the placement and content of copies, and the outcome."""

import json
import os
import threading
import time

import pytest

from rig.node import PASSWORD, USER, Node, wait_until
from rig.wire import Op, Status, frame, vbucket_of

BUCKET = "b"
# More of them for a measurement.
DOCUMENTS = int(os.environ.get("DIVAN_DOCUMENTS", 20_000))


class Grid:
    """Nodes that may become one cluster: the first is provisioned, the others have no cluster."""

    def __init__(self, count):
        self.nodes = []
        try:
            for _ in range(count):
                self.add_process()
            self.nodes[0].provision(512)
        except BaseException:
            self.close()
            raise

    def add_process(self):
        node = Node("--memory-quota", "512")
        self.nodes.append(node)
        node.start()
        return node

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for node in self.nodes:
            node.close()

    @property
    def admin(self):
        return next(node for node in self.nodes if node.is_running).admin

    def keep_killed_nodes(self):
        """Has automatic failover wait for longer than a test."""
        form = {"enabled": "true", "timeout": 1_000, "maxCount": 10}
        reply = self.admin.post("/settings/autoFailover", form)
        if reply.status != 200:
            raise RuntimeError(f"autoFailover: {reply!r}")

    def join(self, number):
        form = {
            "hostname": f"127.0.0.1:{self.nodes[number].admin_port}",
            "user": USER,
            "password": PASSWORD,
            "services": "kv",
        }
        reply = self.admin.post("/controller/addNode", form, seconds=60)
        assert reply.status == 200, reply

    def otp(self, number):
        """The name under which the cluster knows a node."""
        place = f"127.0.0.1:{self.nodes[number].admin_port}"
        return next(
            node["otpNode"]
            for node in self.admin.get("/pools/default").json["nodes"]
            if node["hostname"] == place
        )

    def start_rebalance(self, eject=(), admin=None):
        admin = admin or self.admin
        known = [node["otpNode"] for node in admin.get("/pools/default").json["nodes"]]
        form = {
            "knownNodes": ",".join(known),
            "ejectedNodes": ",".join(self.otp(number) for number in eject),
        }
        reply = admin.post("/controller/rebalance", form)
        assert reply.status == 200, reply

    def task(self, admin=None):
        tasks = (admin or self.admin).get("/pools/default/tasks").json
        return next(task for task in tasks if task["type"] == "rebalance")

    def await_end(self, seconds=60, admin=None, shown=None):
        """Waits for the end of the rebalance, and checks that its progress never falls."""
        shown = shown or Shown()

        def is_over():
            task = self.task(admin)
            if task["status"] == "notRunning":
                return task
            shown.take(task)
            time.sleep(0.03)
            return None

        task = wait_until(is_over, seconds, "the rebalance ends")
        assert "errorMessage" not in task, task
        return task

    def rebalance(self, eject=(), seconds=60):
        """Rebalances; returns the seconds it took."""
        began = time.monotonic()
        self.start_rebalance(eject)
        self.await_end(seconds)
        return time.monotonic() - began

    def map(self, admin=None):
        return (admin or self.admin).get(f"/pools/default/b/{BUCKET}").json["vBucketServerMap"]

    def rows(self):
        """By vBucket: indexes into `nodes`, active first, of the copies there are."""
        place = self.map()
        kv = {f"127.0.0.1:{node.kv_port}": number for number, node in enumerate(self.nodes)}
        names = [name.replace("$HOST", "127.0.0.1") for name in place["serverList"]]
        return [
            [kv[names[column]] for column in row if column >= 0] for row in place["vBucketMap"]
        ]

    def settle(self, seconds=20):
        """Waits until every copy in the map is complete, on every node."""

        def is_settled():
            try:
                self.check_copies()
                return True
            except (AssertionError, OSError):
                time.sleep(0.1)
                return False

        try:
            wait_until(is_settled, seconds)
        except TimeoutError:
            self.check_copies()

    def check_copies(self):
        rows = self.rows()
        states, highs = {}, {}
        for number, node in enumerate(self.nodes):
            if not node.is_running or not any(number in row for row in rows):
                continue
            with node.connect(BUCKET) as connection:
                states[number] = connection.stat("vbucket")
                highs[number] = connection.stat("vbucket-seqno")
        for vbucket, row in enumerate(rows):
            expected = highs[row[0]][f"vb_{vbucket}:high_seqno"]
            for number, found in states.items():
                state = found.get(f"vb_{vbucket}", "dead")
                wanted = "active" if row[0] == number else "replica" if number in row else "dead"
                assert state == wanted, (vbucket, row, number, state)
                if number in row:
                    assert highs[number][f"vb_{vbucket}:high_seqno"] == expected, (vbucket, row)


class Shown:
    """The shown progress of a rebalance: neither the total nor that of a node ever falls."""

    def __init__(self):
        self.all = 0.0
        self.parts = {}

    def take(self, task):
        parts = {name: part["progress"] for name, part in task["perNode"].items()}
        assert task["progress"] >= self.all, (task, self.all)
        # A failed-over node takes no part.
        assert set(parts) <= set(self.parts or parts), (parts, self.parts)
        fallen = [name for name, part in parts.items() if part < self.parts.get(name, 0)]
        assert not fallen, (parts, self.parts)
        self.all, self.parts = task["progress"], parts


class Follower:
    """A client that routes by the map and, on NOT_MY_VBUCKET, gets a newer one."""

    def __init__(self, grid):
        self.grid = grid
        self.connections = {}
        self.refresh()

    def refresh(self):
        self.rows = self.grid.rows()

    def close(self):
        for connection in self.connections.values():
            connection.close()

    def connection(self, number):
        if number not in self.connections:
            self.connections[number] = self.grid.nodes[number].connect(BUCKET)
        return self.connections[number]

    def call(self, op, key, extras=b"", value=b""):
        deadline = time.monotonic() + 10
        while True:
            vbucket = vbucket_of(key, len(self.rows))
            reply = self.connection(self.rows[vbucket][0]).call(
                op, key, extras, value, vbucket=vbucket
            )
            again = (Status.NOT_MY_VBUCKET, Status.TEMPORARY)
            if reply.status not in again or time.monotonic() > deadline:
                return reply
            time.sleep(0.005)
            self.refresh()

    def load(self, count, size=64, depth=256):
        """Stores documents, each by the map; returns their keys."""
        groups = {}
        for number in range(count):
            key = b"doc-%d" % number
            groups.setdefault(self.rows[vbucket_of(key, len(self.rows))][0], []).append(key)
        for place, keys in groups.items():
            connection = self.connection(place)
            for start in range(0, len(keys), depth):
                part = keys[start : start + depth]
                connection.send(
                    b"".join(
                        frame(
                            Op.SET,
                            key,
                            bytes(8),
                            value_of(key, size),
                            vbucket=vbucket_of(key, len(self.rows)),
                        )
                        for key in part
                    )
                )
                for key in part:
                    reply = connection.receive()
                    assert reply.status == 0, (key, reply)
        return [key for keys in groups.values() for key in keys]

    def verify(self, keys, size=64, depth=256):
        """Reads every document from every copy that the map names."""
        self.refresh()
        count = len(self.rows)
        asks = {}
        for key in keys:
            for column, number in enumerate(self.rows[vbucket_of(key, count)]):
                op = Op.GET if column == 0 else Op.GET_REPLICA
                asks.setdefault(number, []).append((op, key))
        wrong = []
        for number, questions in asks.items():
            connection = self.connection(number)
            for start in range(0, len(questions), depth):
                part = questions[start : start + depth]
                connection.send(
                    b"".join(frame(op, key, vbucket=vbucket_of(key, count)) for op, key in part)
                )
                for op, key in part:
                    reply = connection.receive()
                    if reply.status != 0 or reply.value != value_of(key, size):
                        wrong.append((key, number, hex(reply.status)))
        assert not wrong, (len(wrong), [self.describe(key) for key, _, _ in wrong[:3]], wrong[:20])

    def describe(self, key):
        """The answers of all copies of a document's vBucket."""
        vbucket = vbucket_of(key, len(self.rows))
        told = [(key, vbucket, self.rows[vbucket])]
        for column, number in enumerate(self.rows[vbucket]):
            connection = self.grid.nodes[number].connect(BUCKET)
            op = Op.GET if column == 0 else Op.GET_REPLICA
            told.append((number, hex(connection.call(op, key, vbucket=vbucket).status)))
            details = connection.stat(f"vbucket-details {vbucket}")
            told.append({name.split(":")[1]: text for name, text in details.items() if ":" in name})
            connection.close()
        return told


def value_of(key, size):
    return (key + b"-") * (size // (len(key) + 1) + 1)


class Steady(threading.Thread):
    """Writes and reads one key after the other during other actions; counts errors."""

    def __init__(self, grid, name):
        super().__init__()
        self.follower = Follower(grid)
        self.name_ = name
        self.over = threading.Event()
        self.errors = []
        self.calls = 0
        self.written = {}
        self.longest = 0.0

    def run(self):
        number = 0
        while not self.over.is_set():
            key = b"%s-%d" % (self.name_.encode(), number % 500)
            value = b"%d" % number
            began = time.monotonic()
            try:
                reply = self.follower.call(Op.SET, key, bytes(8), value)
                if reply.status == 0:
                    self.written[key] = value
                    reply = self.follower.call(Op.GET, key)
                    if reply.status != 0 or reply.value != value:
                        self.errors.append((key, value, reply))
                else:
                    self.errors.append((key, reply))
            except Exception as error:
                self.errors.append((key, repr(error)))
                return
            self.longest = max(self.longest, time.monotonic() - began)
            self.calls += 2
            number += 1

    def end(self):
        self.over.set()
        self.join(30)
        assert not self.errors, self.errors[:5]
        assert self.calls > 0
        for key, value in self.written.items():
            reply = self.follower.call(Op.GET, key)
            assert reply.status == 0 and reply.value == value, (key, value, reply)
        self.follower.close()


@pytest.fixture
def grid():
    made = []

    def make(count, **bucket):
        made.append(Grid(count))
        made[-1].nodes[0].create_bucket(BUCKET, **{"replicaNumber": 1, **bucket})
        return made[-1]

    yield make
    for each in made:
        each.close()


def change_replicas(grid, count):
    reply = grid.admin.post(f"/pools/default/buckets/{BUCKET}", {"replicaNumber": count})
    assert reply.status == 200, reply


def spread(rows, column, nodes):
    counts = [sum(len(row) > column and row[column] == number for row in rows) for number in nodes]
    return max(counts) - min(counts)


def check_rows(grid, nodes, copies):
    rows = grid.rows()
    for row in rows:
        assert len(row) == copies and len(set(row)) == copies and set(row) <= set(nodes), row
    assert spread(rows, 0, nodes) <= 1
    return rows


def test_empty_bucket_is_moved_in_seconds_and_a_second_rebalance_moves_nothing(grid):
    grid = grid(2)
    grid.join(1)
    took = grid.rebalance()
    rows = check_rows(grid, [0, 1], 2)
    grid.settle()
    print(f"1024 vBuckets, empty, 1 to 2 nodes: {took:.2f} s")
    assert took < 30
    before = grid.map()["vBucketMap"]
    grid.rebalance()
    assert grid.map()["vBucketMap"] == before and grid.rows() == rows


def test_documents_stay_through_every_kind_of_rebalance(grid):
    grid = grid(4)
    follower = Follower(grid)
    keys = follower.load(DOCUMENTS)
    steady = Steady(grid, "steady")
    steady.start()
    times = {}

    def step(name, nodes, copies, **options):
        times[name] = grid.rebalance(**options)
        check_rows(grid, nodes, copies)
        follower.verify(keys)

    grid.join(1)
    step("1 to 2", [0, 1], 2)
    grid.join(2)
    step("2 to 3", [0, 1, 2], 2)
    change_replicas(grid, 2)
    step("1 to 2 replicas", [0, 1, 2], 3)
    change_replicas(grid, 1)
    step("2 to 1 replicas", [0, 1, 2], 2)
    grid.join(3)
    step("swap", [0, 1, 3], 2, eject=[2])
    step("3 to 2", [0, 1], 2, eject=[3])
    change_replicas(grid, 0)
    step("1 to 0 replicas", [0, 1], 1)
    steady.end()
    grid.settle()
    print(json.dumps({name: round(took, 2) for name, took in times.items()}))
    print(f"{steady.calls} calls meanwhile, the longest {steady.longest * 1000:.0f} ms")
    follower.close()


def test_stopped_rebalance_leaves_a_serving_bucket_and_can_be_continued(grid):
    grid = grid(2)
    follower = Follower(grid)
    keys = follower.load(60_000, size=256)
    grid.join(1)
    grid.start_rebalance()
    wait_until(lambda: grid.task().get("progress", 100) > 15, 20)
    assert grid.admin.post("/controller/stopRebalance").status == 200
    grid.await_end(15)
    rows = grid.rows()
    assert any(len(row) < 2 for row in rows), "it was over before it was stopped"
    follower.verify(keys, size=256)
    grid.rebalance()
    check_rows(grid, [0, 1], 2)
    grid.settle()
    follower.verify(keys, size=256)
    follower.close()


def test_rebalance_does_not_wait_for_replicas_removed_meanwhile(grid):
    grid = grid(2)
    follower = Follower(grid)
    keys = follower.load(60_000, size=256)
    grid.join(1)
    grid.start_rebalance()
    wait_until(lambda: grid.task().get("progress", 100) > 15, 20)
    change_replicas(grid, 0)
    grid.await_end(30)
    check_rows(grid, [0, 1], 1)
    grid.settle()
    follower.verify(keys, size=256)
    follower.close()


def leader(grid):
    """The leader, by the logs of the nodes."""
    for number, node in enumerate(grid.nodes):
        if node.is_running and "leads" in node.log():
            return number
    return 0


def test_next_leader_continues_the_rebalance_of_a_failed_leader(grid):
    grid = grid(3, replicaNumber=2)
    grid.keep_killed_nodes()
    for number in (1, 2):
        grid.join(number)
    grid.rebalance()
    follower = Follower(grid)
    keys = follower.load(40_000, size=256)
    grid.add_process()
    grid.join(3)
    grid.start_rebalance()
    # It sees the founder lead, then no leader, then another leader.
    other = grid.nodes[1].admin
    shown = Shown()

    def is_under_way():
        shown.take(grid.task(other))
        return shown.all > 15

    wait_until(is_under_way, 20)
    # The founder leads as long as it runs.
    grid.nodes[0].kill()
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        task = grid.task(other)
        if task["status"] == "running":
            shown.take(task)
    grid.nodes[0].start()
    grid.await_end(60, admin=other, shown=shown)
    check_rows(grid, [0, 1, 2, 3], 3)
    grid.settle()
    Follower(grid).verify(keys, size=256)
    follower.close()


def test_rebalance_waits_with_a_reason_for_a_failed_participant(grid):
    grid = grid(2)
    grid.keep_killed_nodes()
    follower = Follower(grid)
    keys = follower.load(40_000, size=256)
    grid.add_process()
    for number in (1, 2):
        grid.join(number)
    grid.start_rebalance()
    wait_until(lambda: grid.task().get("progress", 100) > 10, 20)
    grid.nodes[2].kill()

    def reason():
        task = grid.task()
        assert task["status"] == "running", task
        text = task.get("waitingFor", "")
        return "cannot be reached" in text and text

    text = wait_until(reason, 10, "a reason")
    assert str(grid.nodes[2].admin_port) in text and "vBucket" in text, text
    grid.nodes[2].start()
    grid.await_end(60)
    check_rows(grid, [0, 1, 2], 2)
    grid.settle()
    Follower(grid).verify(keys, size=256)
    follower.close()


def test_flush_leaves_all_copies_empty_and_serving(grid):
    grid = grid(3, replicaNumber=2)
    for number in (1, 2):
        grid.join(number)
    grid.rebalance()
    follower = Follower(grid)
    keys = follower.load(20_000)
    grid.settle()
    reply = grid.admin.post(f"/pools/default/buckets/{BUCKET}/controller/doFlush", seconds=60)
    assert reply.status == 200, reply
    grid.settle()
    for key in keys[:500]:
        assert follower.call(Op.GET, key).status == Status.NOT_FOUND
    follower.close()
    follower = Follower(grid)
    keys = follower.load(5_000)
    grid.settle()
    follower.verify(keys)
    follower.close()


def test_graceful_failover_moves_active_copies_before_it_ends(grid):
    grid = grid(3)
    for number in (1, 2):
        grid.join(number)
    grid.rebalance()
    follower = Follower(grid)
    keys = follower.load(20_000)
    steady = Steady(grid, "graceful")
    steady.start()
    reply = grid.admin.post("/controller/startGracefulFailover", {"otpNode": grid.otp(2)})
    assert reply.status == 200, reply
    grid.await_end(60)
    steady.end()
    rows = grid.rows()
    assert all(row and 2 not in row for row in rows)
    follower.refresh()
    for key in keys[:5_000]:
        assert follower.call(Op.GET, key).status == 0
    follower.close()
