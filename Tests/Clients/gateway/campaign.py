"""Runs the stream against two gateways, or against one and a record; records the answers of one.

    python -m gateway.campaign --seed 1 --requests 2000 --one PUBLIC ADMIN --other PUBLIC ADMIN
    python -m gateway.campaign --seed 1 --requests 2000 --one PUBLIC ADMIN --record FILE
    python -m gateway.campaign --seed 1 --requests 2000 --one PUBLIC ADMIN --replay FILE

Ports are numbers on the loopback interface. Both gateways must have started anew, with the
configuration of the users jane and joe. With `--release 3` the first one is Sync Gateway 3, started with
`-disable_persistent_config`, and the other's file has `"compatibility": "3"`.
"""

import argparse
import collections
import gzip
import json
import sys
import zlib

from . import comparer, differences, model
from .driver import Driver
from .generator import Generator
from .normal import Names, normalise


class Gateway:
    """One gateway: sends requests, gives normalised answers."""

    def __init__(self, public, admin, host="127.0.0.1", release="1.4"):
        self.names = Names()
        self.driver = Driver((host, public), (host, admin), self.names, release)

    def answer(self, request):
        return normalise(request, self.driver.send(request), self.names)

    def close(self):
        self.driver.close()


def fingerprint(request):
    """A number that changes with the request: a record belongs to one stream."""
    parts = [
        request.port,
        request.method,
        request.target,
        repr(request.headers),
        repr(request.body),
    ]
    woken = fingerprint(request.wake) if request.wake else 0
    return zlib.crc32("\n".join(parts).encode()) ^ woken


class Report:
    """What differs, and which of it is allowed."""

    def __init__(self, allowed):
        self.allowed = allowed
        self.requests = 0
        self.excused = 0
        self.found = []
        self.uses = collections.Counter()

    def add(self, request, expected, actual):
        """Compares two answers; a request is excused if every difference of it is allowed."""
        self.requests += 1
        here = comparer.compare(request, expected, actual)
        entries = [differences.entry_for(self.allowed, each) for each in here]
        if here and all(entries):
            self.excused += 1
            self.uses.update(entry.number for entry in set(entries))
        else:
            self.found += [(self.requests, each) for each in here]

    def add_answer_of(self, gateway, request, expected):
        """Compares the gateway's answer with the expected one; false if there is none."""
        try:
            actual = gateway.answer(request)
        except (OSError, EOFError, ValueError) as error:
            nothing = comparer.Difference(request, "answer", "an answer", repr(error))
            self.found.append((self.requests + 1, nothing))
            return False
        self.add(request, expected, actual)
        return True

    @property
    def is_within_limit(self):
        """At most 1 in 100 answers may have allowed differences."""
        return self.excused * 100 <= self.requests

    def text(self, shown=60):
        """The uses of the rows, and the differences by route and field, the most frequent first."""
        groups = collections.Counter((each.request.pattern, each.field) for _, each in self.found)
        numbers = {number for number, _ in self.found}
        lines = [
            f"{self.requests} requests, {self.excused} excused, {len(numbers)} without a row,"
            f" {len(self.found)} differences"
        ]
        entries = {entry.number: entry for entry in self.allowed}
        lines += [
            f"{count:6} by row {number}: {entries[number].route} | {', '.join(entries[number].fields)}"
            for number, count in self.uses.most_common()
        ]
        lines += [
            f"{count:6} {route}: {field}" for (route, field), count in groups.most_common(shown)
        ]
        for number, each in self.found[:shown]:
            lines.append(f"#{number} {each.request.text}\n    {each.text}")
        return "\n".join(lines)


def compare(seed, count, one, other, allowed):
    """The report of `count` requests to two gateways; the model learns from answers of the first."""
    generator, report = Generator(seed), Report(allowed)
    for _ in range(count):
        request = generator.next()
        expected = one.answer(request)
        generator.learn(expected)
        if not report.add_answer_of(other, request, expected):
            break
    return report


def record(seed, count, gateway, path):
    """Writes the answers of a gateway: a line for each, with the request's fingerprint."""
    generator = Generator(seed)
    with gzip.GzipFile(path, "wb", compresslevel=9, mtime=0) as file:
        for _ in range(count):
            request = generator.next()
            answer = gateway.answer(request)
            generator.learn(answer)
            line = json.dumps([fingerprint(request), answer], ensure_ascii=False)
            file.write(line.encode("utf-8", errors="surrogatepass") + b"\n")


class OtherStream(Exception):
    """The record does not belong to the stream that the generator makes now."""


def recorded(seed, path):
    """Pairs of request and recorded answer."""
    generator = Generator(seed)
    with gzip.open(path, "rt", encoding="utf-8", errors="surrogatepass") as file:
        for line in file:
            number, answer = json.loads(line)
            request = generator.next()
            if fingerprint(request) != number:
                raise OtherStream(f"request {generator.count}, now {request.text}")
            generator.learn(answer)
            yield request, answer


def replay(seed, path, gateway, allowed, count=None):
    """The report of the recorded requests, sent to `gateway`."""
    report = Report(allowed)
    for request, expected in recorded(seed, path):
        if not report.add_answer_of(gateway, request, expected) or report.requests == count:
            break
    return report


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--one", nargs=2, type=int, required=True, metavar=("PUBLIC", "ADMIN"))
    parser.add_argument("--other", nargs=2, type=int, metavar=("PUBLIC", "ADMIN"))
    parser.add_argument("--record", metavar="FILE")
    parser.add_argument("--replay", metavar="FILE")
    parser.add_argument("--shown", type=int, default=60, help="differences that are printed")
    parser.add_argument("--strict", action="store_true", help="allow no difference")
    parser.add_argument("--release", choices=("1.4", "3"), default="1.4", help="of the real one")
    options = parser.parse_args()
    if options.release == "3":
        # The lowest that it accepts.
        model.KINDS["short"]["revs_limit"] = 20
    one = Gateway(*options.one, release=options.release)
    if options.record:
        return record(options.seed, options.requests, one, options.record)
    allowed = [] if options.strict else differences.load(release=options.release)
    if options.replay:
        report = replay(options.seed, options.replay, one, allowed, options.requests)
    else:
        other = Gateway(*options.other, release=options.release)
        report = compare(options.seed, options.requests, one, other, allowed)
    print(report.text(options.shown))
    sys.exit(bool(report.found) or not report.is_within_limit)


if __name__ == "__main__":
    main()
