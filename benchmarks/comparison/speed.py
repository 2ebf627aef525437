"""The tables of speed: Divan and a peer take turns under the same load."""

import statistics

from . import driver as measured
from .secured import SecuredDivan, SecuredMemcached
from .servers import Divan, Memcached, Redis

# A throughput ratio compares servers only if both were saturated.
BUSY_ENOUGH = 0.95


class SpeedTable:
    """One workload at several depths: the median of the rounds' ratios, and what p99 is at 70 % of
    the slower server's peak."""

    def __init__(self, name, title, workload, kind, peer, must, stretch, samples=False, own=Divan):
        self.name, self.title, self.workload = name, title, workload
        self.kind, self.peer, self.samples, self.own = kind, peer, samples, own
        self.targets = dict(zip((1, 16, 64), zip(must, stretch)))

    def run(self, plan):
        divan = self.own(plan.server_core, self.kind)
        peer = self.peer(plan.server_core)
        try:
            divan.start()
            divan.provision()
            peer.start()
            for server in (divan, peer):
                plan.driver.load(server, self.workload)
            rows = [self.row(plan, depth, divan, peer) for depth in plan.depths]
        finally:
            divan.remove()
            peer.remove()
        return {"name": self.name, "title": self.title, "peer": peer.name, "rows": rows,
                "samples": self.samples}

    def row(self, plan, depth, divan, peer):
        plan.say(f"{self.name}, depth {depth}")
        seconds = plan.seconds * (2 if self.samples else 1)
        rounds = []
        for _ in range(plan.rounds):
            rounds.append([
                plan.driver.run(
                    server, self.workload, depth=depth, seconds=seconds,
                    warm_up=plan.warm_up, preload=False,
                    **({"sample_persistence": True} if self.samples and server is divan else {}),
                )
                for server in (divan, peer)
            ])
        throughput = [ours["opsPerSecond"] / theirs["opsPerSecond"] for ours, theirs in rounds]
        processor = [measured.cpu(theirs) / measured.cpu(ours) for ours, theirs in rounds]
        counts = all(measured.busy(r) >= BUSY_ENOUGH for pair in rounds for r in pair)
        ratios = throughput if counts else processor
        must, stretch = self.targets[depth]
        row = {
            "depth": depth,
            "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios),
            "by": "ops/s" if counts else "CPU/op",
            "must": must, "stretch": stretch,
            "throughput": statistics.median(throughput), "processor": statistics.median(processor),
        }
        for who, place in (("divan", 0), ("peer", 1)):
            results = [pair[place] for pair in rounds]
            row[who] = {
                "opsPerSecond": statistics.median(r["opsPerSecond"] for r in results),
                "cpu": statistics.median(measured.cpu(r) for r in results),
                "busy": statistics.median(measured.busy(r) for r in results),
                "driverCPU": statistics.median(r["driver"]["cpuNanosecondsPerOp"] for r in results),
                "driverBusy": statistics.median(r["driver"]["utilisation"] for r in results),
            }
        if self.samples:
            row["persistence"] = {
                "age": max(pair[0]["persistence"]["ageSecondsMax"] for pair in rounds),
                "samples": sum(pair[0]["persistence"]["samples"] for pair in rounds),
                "late": sum(
                    pair[0]["persistence"]["unpersistedAfterHalfASecond"] for pair in rounds
                ),
            }
        self.measure_latency(plan, depth, divan, peer, row)
        return row

    def measure_latency(self, plan, depth, divan, peer, row):
        """Both in an open loop at the same rate; the median of the rounds, because one hiccup of a
        shared machine affects a hundredth of two seconds."""
        rate = 0.7 * min(row[who]["opsPerSecond"] for who in ("divan", "peer"))
        row["rate"] = rate
        found = {"divan": [], "peer": []}
        for _ in range(plan.rounds):
            for who, server in (("divan", divan), ("peer", peer)):
                try:
                    result = plan.driver.run(
                        server, self.workload, depth=depth, seconds=plan.seconds,
                        warm_up=plan.warm_up, preload=False, rate=rate,
                    )
                    found[who].append(measured.p99(result))
                except measured.Overrun:
                    found[who].append(float("inf"))
        for who, times in found.items():
            p99 = statistics.median(times)
            row[who]["p99"] = None if p99 == float("inf") else p99


TABLES = [
    SpeedTable(
        "get-1k", "95 % GET, 1 KiB, ephemeral bucket against memcached", "set5-1k",
        "ephemeral", Memcached, (1.10, 1.8, 2.3), (1.3, 2.6, 4.0),
    ),
    SpeedTable(
        "get-100", "95 % GET, 100 B, ephemeral bucket against memcached", "set5-100",
        "ephemeral", Memcached, (1.05, 2.0, 3.2), (1.3, 2.6, 6.0),
    ),
    SpeedTable(
        "set-1k", "50 % SET, 1 KiB, ephemeral bucket against memcached", "set50-1k",
        "ephemeral", Memcached, (1.05, 1.6, 2.2), (1.3, 2.6, 4.0),
    ),
    SpeedTable(
        "tls-1k", "GET, 1 KiB, over TLS, ephemeral bucket against memcached with `-Z`", "get-1k",
        "ephemeral", SecuredMemcached, (1.0, 1.3, 1.6), (1.1, 2.0, 3.0), own=SecuredDivan,
    ),
    SpeedTable(
        "persistent-1k", "50 % SET, 1 KiB, persistent bucket against Redis with AOF everysec",
        "set50-json-1k", "persistent", lambda core: Redis(core, appends=True),
        (1.0, 1.3, 1.3), (1.4, 2.5, 3.0), samples=True,
    ),
]
