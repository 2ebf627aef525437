"""Longpolls that wait: how soon a write is seen, and what a delivery and a waiting client cost."""

import json
import time

from comparison.figures import figure
from comparison.servers import Failure

from .client import Connection, Poll, on_core
from .rounds import cheaper, median, pair
from .servers import DATABASE, request
from .writes import USER, numbered, template

WAITING = 1_000
WRITES_A_SECOND = 500
WRITERS = 16
BODY_BYTES = 300
# Between two looks for answers; epoll waits for whole milliseconds.
PAUSE_SECONDS = 50e-6
DELIVERY_PAUSE_SECONDS = 1e-3
# How long a write may take to be seen before it counts as missing.
PATIENCE_SECONDS = 5
# All wait when the gateway used less than this share of a core for a fifth of a second.
IDLE_SHARE = 0.1


def newest(gateway):
    """The sequence that a feed without a past starts from."""
    status, body = gateway.ask("GET", f"/{DATABASE}/")
    if status != 200:
        raise Failure(f"the database was answered {status}")
    return json.loads(body)["update_seq"]


def await_idle(gateway):
    deadline = time.monotonic() + 60
    while True:
        used = gateway.cpu_seconds()
        time.sleep(0.2)
        if gateway.cpu_seconds() - used < 0.2 * IDLE_SHARE:
            return
        if time.monotonic() > deadline:
            raise Failure(f"{gateway.name} is not idle with waiting requests")


def longpoll(user, since, channel=None):
    chosen = f"&filter=sync_gateway/bychannel&channels={channel}" if channel else ""
    return request(
        "GET", f"/{DATABASE}/_changes?feed=longpoll&style=all_docs&since={since}{chosen}", user=user)


def put(owner, tag):
    """A function from a number to a PUT over the administration port: it may write for all owners."""
    text = template(BODY_BYTES, owner, tag)
    before, after = request("PUT", f"/{DATABASE}/NAME", text).split(b"NAME")
    return lambda number: b"%bd%08d%b" % (before, number, numbered(after, number))


def rows(body):
    """The ids and the newest sequence of an answer."""
    answer = json.loads(body)
    return [row["id"] for row in answer["results"]], answer["last_seq"]


class Writers:
    """An open loop of writes on some connections; those without a free one wait, and are late."""

    def __init__(self, gateway, poll):
        self.free = [Connection(gateway.admin) for _ in range(WRITERS)]
        for connection in self.free:
            poll.add(connection)
        self.due = {}

    def send(self, number, data, due):
        self.due[b"d%08d" % number] = due
        self.free.pop().send(data)


def measure_seen(plan, server):
    """Each client waits for its channel and asks again; writes go to the channels in turns."""
    with server as gateway, on_core(plan.driver_core):
        gateway.put_user("device", ["*"])
        since = newest(gateway)
        poll = Poll()
        try:
            for number in range(WAITING):
                connection = Connection(gateway.port)
                poll.add(connection, f"_u{number:04d}")
                connection.send(longpoll("device", since, f"_u{number:04d}"))
            await_idle(gateway)
            return write_and_watch(plan, gateway, poll)
        finally:
            poll.close()


def write_and_watch(plan, gateway, poll):
    writers = Writers(gateway, poll)
    puts = [put(f"u{number:04d}", "note") for number in range(WAITING)]
    # The delays of the first second do not count: a script process starts.
    warming = int(plan.seconds(1) * WRITES_A_SECOND)
    count, sent, seen_count = warming + int(plan.seconds(10) * WRITES_A_SECOND), 0, 0
    delays = []
    used, own = gateway.cpu_seconds(), time.process_time()
    began = time.monotonic()
    end = began + count / WRITES_A_SECOND + PATIENCE_SECONDS
    while seen_count < count and (now := time.monotonic()) < end:
        due = began + sent / WRITES_A_SECOND
        while sent < count and due <= now and writers.free:
            writers.send(sent, puts[sent * 7 % WAITING](sent), due)
            sent += 1
            due = began + sent / WRITES_A_SECOND
        answers = list(poll.answers(0))
        if not answers:
            time.sleep(PAUSE_SECONDS)
        for connection, channel, status, body in answers:
            if status not in (200, 201):
                raise Failure(f"a request was answered {status}: {body[:200]!r}")
            if channel is None:
                writers.free.append(connection)
                continue
            now = time.monotonic()
            ids, last = rows(body)
            connection.send(longpoll("device", last, channel))
            for name in ids:
                begun = writers.due.pop(name.encode(), None)
                if begun is not None:
                    seen_count += 1
                    if begun >= began + warming / WRITES_A_SECOND:
                        delays.append(now - begun)
    seconds = time.monotonic() - began
    used, own = gateway.cpu_seconds() - used, time.process_time() - own
    if not delays:
        raise Failure(f"{gateway.name} delivered nothing")
    delays.sort()
    return {
        "p50": 1e3 * delays[len(delays) // 2], "p99": 1e3 * delays[len(delays) * 99 // 100],
        "missing": count - seen_count, "busy": 100 * used / seconds, "driver": 100 * own / seconds,
        "cpu": used, "peak": gateway.peak_bytes() / (1 << 20),
    }


def seen(plan):
    found = plan.alternate("seen", lambda server: measure_seen(plan, server))
    ours = found["ours"]
    note = (f"{WAITING} clients in channels of their own, {WRITES_A_SECOND} writes/s; p50 "
            f"{pair(found, 'p50', 2)} ms, p99 {pair(found, 'p99', 2)} ms, missing "
            f"{' : '.join(str(sum(each['missing'] for each in rounds)) for rounds in found.values())}")
    cost = (f"core busy {pair(found, 'busy')} %, {pair(found, 'cpu', 1)} s of CPU in a round, the "
            f"driver's core {pair(found, 'driver')} %, peak memory {pair(found, 'peak')} MiB")
    return [
        figure("write to seen, p50", median(ours, "p50"), "ms", 2, 0.5, note=note),
        figure("write to seen, p99", median(ours, "p99"), "ms", 15, 5, note=cost),
        figure("writes not seen", sum(each["missing"] for each in ours), "", 0, note="of all rounds"),
    ]


def measure_delivery(plan, server):
    """All wait for one channel; no client asks again before the processor time was read."""
    with server as gateway, on_core(plan.driver_core):
        gateway.log_in(USER)
        since = newest(gateway)
        await_idle(gateway)
        before = gateway.private_bytes()
        poll, costs = Poll(), []
        try:
            for number in range(WAITING):
                poll.add(Connection(gateway.port), number)
            ask_all(poll, since)
            await_idle(gateway)
            memory = (gateway.private_bytes() - before) / WAITING / 1024
            write = put("other", "public")
            for number in range(2 if plan.quick else 11):
                used = gateway.cpu_seconds()
                deliver(gateway, poll, write(number))
                costs.append(1e6 * (gateway.cpu_seconds() - used) / WAITING)
                since = newest(gateway)
                ask_all(poll, since)
                await_idle(gateway)
        finally:
            poll.close()
        costs.sort()
        return {"cost": costs[len(costs) // 2], "memory": memory,
                "peak": gateway.peak_bytes() / (1 << 20), "cpu": gateway.cpu_seconds()}


def ask_all(poll, since):
    data = longpoll(USER, since)
    for connection, _ in poll.connections.values():
        connection.send(data)


def deliver(gateway, poll, data):
    """One write; returns when all have it."""
    writer = Connection(gateway.admin)
    status, body = writer.exchange(data)
    writer.close()
    if status != 201:
        raise Failure(f"a write was answered {status}: {body[:200]!r}")
    count, deadline = 0, time.monotonic() + 30
    while count < WAITING:
        # To wake the driver for each answer would cost the gateway, which it does not with distant clients.
        time.sleep(DELIVERY_PAUSE_SECONDS)
        for _, _, status, _ in poll.answers(0):
            count += status == 200
        if time.monotonic() > deadline:
            raise Failure(f"{WAITING - count} clients of {WAITING} did not get a write")


def delivery(plan):
    found = plan.alternate("delivery", lambda server: measure_delivery(plan, server))
    cost = f"; peak memory {pair(found, 'peak')} MiB, {pair(found, 'cpu', 1)} s of CPU in a round"
    return [
        cheaper(f"a write that {WAITING} clients wait for, CPU of a delivery", found, "cost", "us",
                0.3, 0.1, note=cost),
        cheaper("private memory of a waiting client", found, "memory", "KiB", 0.5, 0.1),
    ]
