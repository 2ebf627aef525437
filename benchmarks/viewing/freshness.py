"""How soon an update is visible, and what waiting for it costs: ten views, 1 000 updates a second."""

import multiprocessing
import random
import statistics
import time

from comparison.figures import figure
from comparison.servers import Failure

from . import documents
from .build import grouped
from .node import Documents, ViewNode

VIEWS = 10
RATE = 1_000
# One of so many updates is watched.
WATCHED = 10
# Seconds in which an update must be seen after the last one that counts.
GRACE = 3
# No document is updated again before its row was seen.
COUNT = 50_000


def source(number):
    """Each view is an index of its own: rows at random places, and rows that are watched."""
    return (
        f"function (doc, meta) {{ emit(doc.numbers[{number}], doc.update); "
        "if (doc.watched) emit(['watched', doc.update], null); }"
    )


def value(draw, text, update, watched):
    numbers = ",".join(str(draw.randrange(1_000_000)) for _ in range(VIEWS))
    head = (f'{{"numbers":[{numbers}],"update":{update},"watched":{"true" if watched else "false"},'
            '"text":"')
    return f'{head}{text[:documents.BYTES - len(head) - 2]}"}}'.encode()


def write(port, count, stop, found):
    """A process that updates documents at the rate until it is stopped, and then returns when each
    watched update was answered, and how late the updates were."""
    draw = random.Random(7)
    pool = documents.texts(draw, 256)
    order = list(range(count))
    draw.shuffle(order)
    connection = Documents(port)
    answered, late = {}, []
    began = time.monotonic()
    update = 0
    while not stop.is_set():
        update += 1
        due = began + update / RATE
        now = time.monotonic()
        if due > now:
            time.sleep(due - now)
        watched = update % WATCHED == 0
        body = value(draw, pool[update % len(pool)], update, watched)
        connection.store(documents.key(order[update % count]), body)
        done = time.monotonic()
        late.append(done - due)
        if watched:
            answered[update] = done
    found.send((answered, late))
    connection.close()


class Updates:
    """The writer, as a process of its own: its clock is this one's."""

    def __init__(self, node, count):
        context = multiprocessing.get_context("fork")
        self.stop = context.Event()
        self.found, there = context.Pipe(duplex=False)
        self.process = context.Process(target=write, args=(node.plain, count, self.stop, there))
        self.process.start()
        there.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.is_alive():
            self.process.kill()
        self.process.join()

    def end(self):
        self.stop.set()
        try:
            found = self.found.recv()
        except EOFError:
            raise Failure("the updates failed") from None
        self.process.join()
        return found


def watch(node, seconds):
    """Polls one view after the other; returns when each watched update was first seen, by its
    number, and the times of the polls."""
    seen, polls = {}, []
    oldest = 0
    with node.connection() as connection:
        end = time.monotonic() + seconds
        while (began := time.monotonic()) < end:
            view = f"view{int(end - began) % VIEWS}"
            request = connection.query(
                view, stale="ok", startkey=["watched", oldest + 1], endkey=["watched", {}])
            rows = connection.answer(request)["rows"]
            now = time.monotonic()
            polls.append(now - began)
            for row in rows:
                seen.setdefault(row["key"][1], now)
            while oldest + WATCHED in seen:
                oldest += WATCHED
            time.sleep(0.002)
    return seen, polls


def pairs(node, seconds):
    """Times of the same query with `stale=ok` and `stale=false`, one after the other."""
    times = {"ok": [], "false": []}
    draw = random.Random(9)
    with node.connection() as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            view, key = f"view{draw.randrange(VIEWS)}", draw.randrange(1_000_000)
            for stale, measured in times.items():
                request = connection.query(view, stale=stale, startkey=key, limit=10)
                began = time.monotonic()
                connection.answer(request)
                measured.append(time.monotonic() - began)
            # So that the queries do not keep step with the commits.
            time.sleep(draw.random() * 0.02)
    return times


def percentile(times, percent):
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def milliseconds(times, percent):
    return 1_000 * percentile(times, percent)


def visibility(answered, seen):
    """Seconds from each watched update's answer to its first sight; infinite if it was not seen."""
    return [max(0, seen[number] - done) if number in seen else float("inf")
            for number, done in answered.items()]


def freshness(plan):
    seconds, count = plan.seconds(30), plan.scaled(COUNT, least=20_000)
    with ViewNode(megabytes=1024) as node:
        plan.say(f"freshness: {VIEWS} views of {count:,} documents")
        draw = random.Random(3)
        pool = documents.texts(draw, 256)
        node.load((documents.key(number), value(draw, pool[number % 256], 0, False))
                  for number in range(count))
        node.design({f"view{number}": source(number) for number in range(VIEWS)})
        node.await_built(*(f"view{number}" for number in range(VIEWS)))
        plan.say(f"freshness: {RATE} updates/s, `stale=ok`")
        with Updates(node, count) as updates:
            # The first second, in which the updates begin, does not count.
            first = time.monotonic() + 1
            seen, polls = watch(node, 1 + seconds + GRACE)
            plan.say(f"freshness: {RATE} updates/s, `stale=false`")
            times = pairs(node, seconds)
            answered, late = updates.end()
    counted = {number: done for number, done in answered.items() if first < done < first + seconds}
    if not counted:
        raise Failure("no update was answered")
    waits = visibility(counted, seen)
    missed = waits.count(float("inf"))
    load = (f"{VIEWS} views of their own indexes, {RATE} updates/s, answered "
            f"{milliseconds(late, 50):.1f} ms (p50), {milliseconds(late, 99):.1f} ms (p99) after they "
            f"were due; {grouped(count)} documents of 1 KiB")
    spread = f"{len(waits)} updates, {missed} not seen in {GRACE} s, longest {1_000 * max(waits):.0f} ms"
    polling = (f"a query, each {milliseconds(polls, 50):.1f} ms (p50), "
               f"{milliseconds(polls, 99):.1f} ms (p99), is counted in")
    usual = statistics.median(times["ok"])
    added = [each - usual for each in times["false"]]
    return [
        figure("update visible to `stale=ok`, p50", milliseconds(waits, 50), "ms", 100, 20,
               note=f"{spread}; {polling}; {load}"),
        figure("update visible to `stale=ok`, p99", milliseconds(waits, 99), "ms", 250, 50,
               note="the same updates"),
        figure("what `stale=false` adds, p99", milliseconds(added, 99), "ms", 150, 30, note=(
            f"p50 {milliseconds(added, 50):.1f} ms, longest {1_000 * max(added):.0f} ms, of "
            f"{len(added)} queries of 10 rows, less the {1_000 * usual:.1f} ms (p50) of the same with "
            f"`stale=ok` (p99 {milliseconds(times['ok'], 99):.1f} ms); the same load")),
    ]
