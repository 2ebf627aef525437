"""Prometheus's text format, read strictly, and the rules of `promtool check metrics`."""

import math
import re

NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
SAMPLE = re.compile(rf'({NAME})(?:\{{({LABEL.pattern}(?:,{LABEL.pattern})*)\}})? (\S+)')
# Abbreviated units in names, which the rules refuse.
ABBREVIATIONS = "s ms us ns sec b kb mb gb tb pb m h d".split()
KINDS = ("gauge", "counter", "untyped", "histogram")
PARTS = ("_bucket", "_sum", "_count")


def read(text):
    """The samples by name and labels; raises for anything that a strict reader refuses."""
    assert text.endswith("\n")
    helped, kinds, samples, last = {}, {}, {}, None
    for line in text[:-1].split("\n"):
        if found := re.fullmatch(rf"# HELP ({NAME}) (.+)", line):
            assert found[1] not in helped, f"{found[1]} has help twice"
            helped[found[1]], last = found[2], found[1]
        elif found := re.fullmatch(rf"# TYPE ({NAME}) (\w+)", line):
            assert found[1] == last and found[1] not in kinds and found[2] in KINDS, line
            kinds[found[1]] = found[2]
        else:
            found = SAMPLE.fullmatch(line)
            assert found, f"malformed: {line!r}"
            # All samples of a name are together, after its help and type.
            family = found[1]
            if kinds.get(last) == "histogram":
                family = next((family.removesuffix(each) for each in PARTS if family.endswith(each)),
                              "")
            assert family == last and last in kinds, f"{line!r} after those of {last}"
            labels = tuple(sorted(each.groups() for each in LABEL.finditer(found[2] or "")))
            assert len(dict(labels)) == len(labels), f"a label twice: {line!r}"
            assert (found[1], labels) not in samples, f"{line!r} twice"
            assert math.isfinite(float(found[found.re.groups])), line
            samples[found[1], labels] = float(found[found.re.groups])
    check_histograms(samples, kinds)
    return samples, kinds


def check_histograms(samples, kinds):
    """Buckets are cumulative and end with +Inf, which has the count."""
    series = {}
    for (name, labels), value in samples.items():
        family = name.removesuffix("_bucket")
        if name != family and kinds.get(family) == "histogram":
            others = tuple(each for each in labels if each[0] != "le")
            series.setdefault((family, others), []).append((float(dict(labels)["le"]), value))
    for (family, labels), buckets in series.items():
        bounds, values = zip(*sorted(buckets))
        assert bounds[-1] == math.inf and list(values) == sorted(values), (family, labels)
        assert samples[f"{family}_count", labels] == values[-1], (family, labels)
        assert (f"{family}_sum", labels) in samples, (family, labels)


def flaws(kinds):
    """What the rules of names say; the format has no summaries here."""
    found = []
    for name, kind in kinds.items():
        words = name.split("_")
        if kind == "counter" and not name.endswith("_total"):
            found.append(f"{name} is a counter without _total")
        if kind == "gauge" and name.endswith("_total"):
            found.append(f"{name} has _total and is a gauge")
        if name.endswith(("_count", "_sum", "_bucket")):
            found.append(f"{name} ends like a histogram's")
        if set(words) & {"gauge", "counter", "summary", "histogram", "untyped"}:
            found.append(f"{name} has its type in its name")
        if set(words[1:]) & set(ABBREVIATIONS):
            found.append(f"{name} has an abbreviated unit")
        if ":" in name or name != name.lower():
            found.append(f"{name} has a colon or a capital letter")
    return found
