"""Rounds of ours and the peer in turns, and the figures that are ratios of both."""

import statistics

from comparison.figures import figure

# Servers are compared by throughput only if both used so much of their core in every round.
SATURATED = 0.95


def sample(gateway, count, seconds, cpu, driver):
    """What one round found: of `count` units of work, in seconds of the clock and of processors."""
    return {
        "rate": count / seconds, "cost": 1e6 * cpu / count, "busy": 100 * cpu / seconds, "cpu": cpu,
        "driver": 100 * driver / seconds, "peak": gateway.peak_bytes() / (1 << 20),
    }


def median(rounds, name):
    return statistics.median(each[name] for each in rounds)


def pair(found, name, digits=0):
    """The medians of ours and of the peer, as a text."""
    values = [median(rounds, name) for rounds in found.values()]
    return " : ".join(f"{value:,.{digits}f}".replace(",", " ") for value in values)


def ratios(found, name):
    """Ours by the peer's, of each round."""
    return [ours[name] / peer[name]
            for ours, peer in zip(found["ours"], found["peer"], strict=True)]


def spread(values):
    return f"{min(values):.2f} to {max(values):.2f} in {len(values)} rounds"


def costs(found, noun):
    return (
        f"{pair(found, 'rate')} {noun}/s; {pair(found, 'cost')} us of CPU each, "
        f"{pair(found, 'cpu', 1)} s in a round; core busy {pair(found, 'busy')} %, the driver's "
        f"{pair(found, 'driver')} %; peak memory {pair(found, 'peak')} MiB")


def faster(what, found, noun, must, stretch, note=""):
    """Throughput, ours by the peer's; by processor time unless both were saturated."""
    if "peer" not in found:
        return figure(f"{what}, without a peer", median(found["ours"], "rate"), f"{noun}/s",
                      smaller=False, note=costs(found, noun) + note)
    by_rate = ratios(found, "rate")
    by_cost = [1 / each for each in ratios(found, "cost")]
    is_saturated = all(each["busy"] >= 100 * SATURATED for each in found["ours"] + found["peer"])
    chosen, by = (by_rate, "throughput") if is_saturated else (
        by_cost, f"CPU; throughput {statistics.median(by_rate):.2f}")
    return figure(what, statistics.median(chosen), "x", must, stretch, smaller=False,
                  note=f"by {by}; {spread(chosen)}; {costs(found, noun)}{note}")


def cheaper(what, found, name, unit, must, stretch, note=""):
    """A cost, ours by the peer's: lower is better."""
    if "peer" not in found:
        return figure(f"{what}, without a peer", median(found["ours"], name), unit, note=note)
    by_round = ratios(found, name)
    return figure(what, statistics.median(by_round), "x", must, stretch,
                  note=f"{pair(found, name, 1)} {unit}; {spread(by_round)}{note}")
