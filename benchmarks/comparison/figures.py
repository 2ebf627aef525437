"""The tables of single figures: memory, disk, warmup, start-up."""

import statistics
import time

from . import driver as measured
from .flush import measure_flush
from .secured import PlainPortOf, SecuredDivan, StockServer, handshake_seconds, idle_bytes
from .servers import Divan, Failure, Memcached, Redis


def figure(what, value, unit, must=None, stretch=None, smaller=True, note=""):
    return {"what": what, "value": value, "unit": unit, "must": must, "stretch": stretch,
            "smaller": smaller, "note": note}


def memory_per_item(plan):
    """Growth of private memory by 10 M small documents, of Divan against memcached, and against the
    memory use that Divan counts."""
    items = 300_000 if plan.quick else 10_000_000
    divan = Divan(plan.server_core, megabytes=6000, quota=7000)
    peer = Memcached(plan.server_core, megabytes=6000)
    growth, counted = {}, 0
    try:
        for server in (divan, peer):
            plan.say(f"memory, {server.name}")
            server.start()
            if server is divan:
                server.provision()
                used = int(server.statistics("memory")["mem_used"])
            before = server.anonymous_bytes()
            plan.driver.load(server, "load-10m", keys=items)
            growth[server.name] = server.anonymous_bytes() - before
            if server is divan:
                counted = int(server.statistics("memory")["mem_used"]) - used
            server.stop()
    finally:
        divan.remove()
        peer.remove()
    ours, theirs = growth["divan"] / items, growth["memcached"] / items
    error = 100 * abs(counted - growth["divan"]) / growth["divan"]
    count = f"{items:,} items of 15 B key and 100 B value".replace(",", " ")
    return [
        figure("private bytes an item, against memcached", ours / theirs, "x", 0.85, 0.76,
               note=f"{ours:.1f} B against {theirs:.1f} B; {count}"),
        figure("quota accounting against private memory", error, "% off", 3, note=(
            f"counted {counted / items:.1f} B an item")),
    ]


def warmup_and_start(plan):
    """How long a million documents take from disk to memory, and how soon the first is served."""
    items = 50_000 if plan.quick else 1_000_000
    divan = Divan(plan.server_core, "persistent", megabytes=4000, quota=5000)
    peer = Redis(plan.server_core)
    loads = {"divan": [], "redis": []}
    try:
        plan.say("warmup: storing documents")
        divan.start()
        divan.provision()
        empty = restart_times(divan, plan, b"key:00000000000")
        plan.driver.load(divan, "load-1m-json", keys=items)
        plan.say("warmup: Divan")
        divan.stop()
        for _ in range(plan.rounds):
            began = time.monotonic()
            divan.start()
            await_resident(divan, items)
            loads["divan"].append(time.monotonic() - began)
            divan.stop()
        full = restart_times(divan, plan, b"key:00000000001", expected=0)
        plan.say("warmup: Redis")
        peer.start()
        plan.driver.load(peer, "load-1m-json", keys=items)
        peer.ask("SAVE")
        peer.stop()
        for _ in range(plan.rounds):
            began = time.monotonic()
            peer.start()
            peer.await_loaded()
            loads["redis"].append(time.monotonic() - began)
            peer.stop()
    finally:
        divan.remove()
        peer.remove()
    ours, theirs = (statistics.median(loads[name]) for name in ("divan", "redis"))
    count = f"{items:,}".replace(",", " ")
    return [
        figure("warmup, against Redis loading its RDB", theirs / ours, "x", 1.4, 2.3,
               smaller=False, note=f"{ours:.2f} s against {theirs:.2f} s; {count} x 1 KiB JSON, "
               "process start to every value in memory, one core each"),
        figure("process start to first answered GET, empty", 1000 * empty, "ms", 150, 50),
        figure(f"process start to first answered GET, {count} on disk", 1000 * full, "ms",
               1000, 300),
    ]


def restart_times(divan, plan, key, expected=1):
    """The median time from process start to an answered GET; leaves the server stopped or, where
    it ran before, running."""
    was_running = divan.process is not None
    divan.stop()
    times = []
    for _ in range(max(3, plan.rounds)):
        seconds, status = divan.start_and_get(key)
        if status != expected:
            raise Failure(f"GET after a restart was answered {status}, not {expected}")
        times.append(seconds)
        divan.stop()
    if was_running:
        divan.start()
    return statistics.median(times)


def await_resident(divan, items):
    deadline = time.monotonic() + 120
    while True:
        try:
            found = divan.statistics()
            if int(found["curr_items"]) - int(found["vb_active_num_non_resident"]) >= items:
                return
        except (OSError, KeyError):
            pass  # It does not listen yet, or the bucket does not exist yet.
        if time.monotonic() > deadline:
            raise Failure("warmup does not end")
        time.sleep(0.01)


def idle_memory(plan):
    """Unused features must cost nearly nothing."""
    many = 20 if plan.quick else 100
    divan = Divan(plan.server_core, "persistent", megabytes=100, quota=12_000)
    try:
        plan.say("idle memory")
        divan.start()
        divan.provision()
        divan.request("/internalSettings", {"maxBucketCount": "1000"})
        time.sleep(2)
        one = divan.anonymous_bytes()
        for number in range(many):
            divan.create(f"empty{number}")
        time.sleep(2)
        each = (divan.anonymous_bytes() - one) / many
    finally:
        divan.remove()
    return [
        figure("idle private memory, one empty bucket", one / (1 << 20), "MB", 20, 10),
        figure(f"each of {many} empty buckets adds", each / (1 << 20), "MB", 2, 0.5),
    ]


def flush(plan):
    """Documents a second that Persistence writes, against SQLite rows with the same documents."""
    plan.say("flush")
    found = measure_flush(plan)
    return [
        figure("flush of new 1 KiB JSON, against rows", found["insert"], "x", 1.9, 2.5,
               smaller=False, note=found["insertNote"]),
        figure("flush of overwritten 1 KiB JSON, against rows", found["overwrite"], "x", 1.8, 3,
               smaller=False, note=found["overwriteNote"]),
        figure("bytes on disk after compaction, of raw JSON", found["disk"], "x", 0.50, 0.45,
               note=found["diskNote"]),
    ]


def over_tls(plan):
    """Costs of TLS: of a GET against a plain one, of a handshake against OpenSSL's server, of an idle
    connection."""
    divan, peer = SecuredDivan(plan.server_core), StockServer(plan.server_core)
    try:
        plan.say("tls")
        divan.start()
        divan.provision()
        peer.start()
        plan.driver.load(divan, "get-1k")
        costs, handshakes = [], []
        for _ in range(plan.rounds):
            options = {"depth": 16, "seconds": plan.seconds, "warm_up": plan.warm_up, "preload": False}
            secured = plan.driver.run(divan, "get-1k", **options)
            plain = plan.driver.run(PlainPortOf(divan), "get-1k", **options)
            costs.append((measured.cpu(secured), measured.cpu(plain)))
            handshakes.append((
                handshake_seconds(divan, divan.secured, plan),
                handshake_seconds(peer, peer.port, plan),
            ))
        idle = idle_bytes(divan, 500 if plan.quick else 2_000) / 1024
    finally:
        divan.remove()
        peer.remove()
    cost = statistics.median(ours / theirs for ours, theirs in costs)
    handshake = statistics.median(ours / theirs for ours, theirs in handshakes)
    numbers = [statistics.median(pair[place] for pair in costs) for place in (0, 1)]
    times = [1e6 * statistics.median(pair[place] for pair in handshakes) for place in (0, 1)]
    return [
        figure("CPU of a GET of 1 KiB over TLS, against plain, depth 16", cost, "x", 2.0, 1.5,
               note=f"{numbers[0]:.0f} ns against {numbers[1]:.0f} ns"),
        figure("CPU of a full TLS 1.3 handshake, against `openssl s_server`", handshake, "x", 1.25, 1.0,
               note=f"{times[0]:.0f} us against {times[1]:.0f} us, keys of P-256, no tickets"),
        figure("an idle connection with TLS", idle, "KiB", 40, 12),
    ]


FIGURES = {
    "memory": memory_per_item,
    "warmup": warmup_and_start,
    "idle": idle_memory,
    "flush": flush,
    "tls": over_tls,
}
