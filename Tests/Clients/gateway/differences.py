"""The differences that are allowed: a table of `docs/gateway-compatibility.md`."""

import dataclasses
import pathlib
import re

DOCUMENT = pathlib.Path(__file__).resolve().parents[3] / "docs/gateway-compatibility.md"
# The heads of the tables, by the release that is compared.
HEADINGS = {
    "1.4": "| requests | field | reason |",
    "3": "| requests to 3.2.8 | field | reason |",
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """A row of the table. In patterns `*` stands for any text; fields are separated by commas.

    A field may have ` = ` and a pattern of the value that the real gateway's answer has.
    """

    number: int
    route: str
    fields: tuple
    reason: str

    def covers(self, difference):
        if not _fits(self.route, difference.request.route):
            return False
        names = (each.partition(" = ") for each in self.fields)
        return any(
            _fits(name, difference.field) and (not value or _fits(value, difference.expected))
            for name, _, value in names
        )


def _fits(pattern, text):
    expression = ".*".join(re.escape(each) for each in pattern.split("*"))
    return re.fullmatch(expression, text, re.DOTALL) is not None


def load(path=DOCUMENT, release="1.4"):
    """The entries; each has patterns of requests and fields, and a reason."""
    rows = path.read_text(encoding="utf-8").partition(HEADINGS[release])[2].splitlines()[2:]
    entries = []
    for row in rows:
        if not row.startswith("|"):
            break
        route, fields, reason = (each.strip() for each in row.strip("|").split("|"))
        names = tuple(each.strip(" `") for each in fields.split(","))
        entries.append(Entry(len(entries) + 1, route.strip("`"), names, reason))
    return entries


def entry_for(entries, difference):
    """The first entry that covers the difference, or None."""
    return next((each for each in entries if each.covers(difference)), None)
