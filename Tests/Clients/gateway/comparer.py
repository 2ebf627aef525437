"""Compares two normalised answers to one request: what differs, by the name of the field."""

import dataclasses
import json

from . import tree

SHOWN = 160


@dataclasses.dataclass
class Difference:
    """One field that differs, of the answer to `request`."""

    request: object
    field: str
    expected: str
    actual: str

    @property
    def text(self):
        return (
            f"{self.request.route}: {self.field}: {self.expected[:SHOWN]} / {self.actual[:SHOWN]}"
        )


def compare(request, expected, actual):
    """The differences of `actual` from `expected`; both are answers of `normal.normalise`."""
    found = []

    def note(field, one, other):
        if field.endswith("._revisions") and other == "none" and "revs=true" not in request.target:
            # The real gateway prints what it was sent, as long as it caches the revision.
            return
        if one != other:
            found.append(Difference(request, field, str(one), str(other)))

    if not expected["status"] or not actual["status"]:
        # A connection that was closed without an answer.
        note("answer", *(each["status"] or "none" for each in (expected, actual)))
        return found
    note("status", expected["status"], actual["status"])
    note("reason", expected["reason"], actual["reason"])
    headers, others = (_by_name(each["headers"]) for each in (expected, actual))
    for name in sorted(headers.keys() | others.keys()):
        note(f"header {name}", headers.get(name, "none"), others.get(name, "none"))
    _compare_bodies(request, expected["body"], actual["body"], "body", note)
    if "wake" in expected or "wake" in actual:
        if "wake" in expected and "wake" in actual:
            found += compare(request.wake, expected["wake"], actual["wake"])
        else:
            note("wake", "wake" in expected, "wake" in actual)
    return found


def _by_name(headers):
    return {name.lower(): values for name, values in headers.items()}


def _compare_bodies(request, expected, actual, field, note):
    if expected == actual:
        return
    if expected.keys() != actual.keys():
        note(f"{field} form", _shown(expected), _shown(actual))
    elif "text" in expected:
        _compare_texts(request, expected["text"], actual["text"], field, note)
    elif "multipart" in expected:
        note(
            f"{field} framing", *([each["opening"], each["closing"]] for each in (expected, actual))
        )
        _compare_parts(request, expected["multipart"], actual["multipart"], field, note)
    elif "lines" in expected or "messages" in expected:
        name = "lines" if "lines" in expected else "messages"
        note(f"{field} {name} count", len(expected[name]), len(actual[name]))
        for one, other in zip(expected[name], actual[name]):
            _compare_texts(request, one, other, field, note)
        for key in expected.keys() - {name}:
            note(f"{field} {key}", expected[key], actual[key])
    else:
        note(f"{field} bytes", _shown(expected), _shown(actual))


def _compare_parts(request, expected, actual, field, note):
    note(f"{field} parts count", len(expected), len(actual))
    for one, other in zip(*(_ordered(request, each, field) for each in (expected, actual))):
        if one.keys() != other.keys():
            note(f"{field} part form", _shown(one), _shown(other))
        elif "broken" in one:
            note(f"{field} part bytes", _shown(one), _shown(other))
        else:
            note(f"{field} part headers", one["headers"], other["headers"])
            _compare_bodies(request, one["body"], other["body"], f"{field} part", note)


def _shown(value):
    return json.dumps(value, ensure_ascii=False)


def _compare_texts(request, expected, actual, field, note):
    if expected == actual:
        return
    try:
        sides = [tree.parse(each) for each in (expected, actual)]
    except tree.NotJSON:
        note(field, expected, actual)
        return
    for _, node, _ in sides:
        arrange(request, node)
    (before, one, after), (other_before, other, other_after) = sides
    note(f"{field} framing", [before, after], [other_before, other_after])
    _compare_nodes(one, other, field, note)


def _compare_nodes(one, other, path, note):
    if isinstance(one, tree.Literal) or isinstance(other, tree.Literal):
        if one.text != other.text:
            same = isinstance(one, tree.Literal) and isinstance(other, tree.Literal)
            same = same and one.value == other.value and type(one.value) is type(other.value)
            note(f"{path} writing" if same else path, one.text, other.text)
    elif (one.keys is None) != (other.keys is None):
        note(path, one.text, other.text)
    elif one.keys is None and len(one.items) != len(other.items) and _is_part(one, other):
        there, here = (_lacking(*pair) for pair in ((one, other), (other, one)))
        note(f"{path}[] only {'there' if there else 'here'}", there or "none", here or "none")
    elif one.keys is None:
        note(f"{path}[] count", len(one.items), len(other.items))
        note(f"{path} framing", *_spaces(one, other))
        for mine, theirs in zip(one.items, other.items):
            _compare_nodes(mine, theirs, f"{path}[]", note)
    else:
        _compare_objects(one, other, path, note)


def _is_part(one, other):
    """Whether the items of one array are among those of the other, in the same order."""
    short, long = sorted(([each.text for each in node.items] for node in (one, other)), key=len)
    rest = iter(long)
    return all(each in rest for each in short)


def _lacking(one, other):
    """The texts of the items that only the first of two arrays has."""
    found = [each.text for each in other.items]
    lacking = []
    for item in one.items:
        if item.text in found:
            found.remove(item.text)
        else:
            lacking.append(item.text)
    return ", ".join(lacking)


def _spaces(one, other):
    """What is written around the members: of as many as both have, and before the end."""
    count = min(len(one.items), len(other.items))
    return [each.spaces[:count] + each.spaces[-1:] for each in (one, other)]


def _compare_objects(one, other, path, note):
    mine, theirs = (dict(zip(each.names, each.items)) for each in (one, other))
    for key in mine | theirs:
        if key in mine and key in theirs:
            _compare_nodes(mine[key], theirs[key], f"{path}.{key}", note)
        else:
            shown = (each[key].text if key in each else "none" for each in (mine, theirs))
            note(f"{path}.{key}", *shown)
    if mine.keys() == theirs.keys():
        note(f"{path} order", list(mine), list(theirs))
        note(f"{path} framing", *_spaces(one, other))


# Places whose order the real gateway takes from a hash table, so that it differs from run to run:
# they are compared as sets.


def arrange(request, node):
    """Gives the parts of an answer that have no fixed order one."""
    if isinstance(node, tree.Literal):
        return
    route = request.route
    if "/_revs_diff" in route and node.keys is not None:
        _arrange_missing(node)
    elif "/_changes" in route:
        _arrange_changes(node)
    elif "/_purge" in route and isinstance(node.member("purged"), tree.Branch):
        node.member("purged").sort()
    elif "/_all_docs" in route:
        _arrange_documents(node)
    elif "/_raw/" in route:
        _arrange_raw(node)
    elif "/_config" in route:
        _arrange_configuration(node)
    elif "open_revs=all" in route or route.startswith("GET /_all_dbs"):
        if node.keys is None:
            node.sort()
    elif "/_user/" in route or "/_role/" in route:
        for name in ("admin_roles", "roles"):
            _sort_member(node, name)


def _sort_member(node, name, start=0):
    found = node.member(name) if isinstance(node, tree.Branch) else None
    if isinstance(found, tree.Branch):
        found.sort(start)


def _items(node, name):
    found = node.member(name) if isinstance(node, tree.Branch) else None
    return found.items if isinstance(found, tree.Branch) else []


def _arrange_missing(node):
    """Documents of `_revs_diff`, and the ancestors of each."""
    for item in node.items:
        _sort_member(item, "possible_ancestors")
    node.sort()


def _arrange_changes(node):
    """Leaves of a document behind the winner (`style=all_docs`); in a feed, `node` is one row."""
    for row in _items(node, "results") or [node]:
        _sort_member(row, "changes", start=1)


def _arrange_documents(node):
    """Channels of a document; and rows of documents whose ids a gateway has made are the last."""
    for row in _items(node, "rows"):
        _sort_member(row.member("value"), "channels")
    rows = node.member("rows")
    if isinstance(rows, tree.Branch):
        made = [row for row in rows.items if '"id":"IDMADE' in row.text]
        rows.items = [row for row in rows.items if row not in made]
        rows.items += sorted(made, key=lambda row: row.text)


def _arrange_configuration(node):
    """The real gateway prints the name of one user, chosen at random, for all of them."""
    users = node.member("users")
    for user in users.items if isinstance(users, tree.Branch) else ():
        if isinstance(user, tree.Branch) and isinstance(user.member("name"), tree.Literal):
            user.put("name", tree.Literal('"NAME"'))


def _arrange_raw(node):
    """The arrays of a revision tree are parallel, in any order."""
    sync = node.member("_sync")
    history = sync.member("history") if isinstance(sync, tree.Branch) else None
    if not isinstance(history, tree.Branch):
        return
    value = json.loads(history.text)
    order = sorted(range(len(value["revs"])), key=value["revs"].__getitem__)
    places = {old: new for new, old in enumerate(order)} | {-1: -1}
    value["revs"] = [value["revs"][at] for at in order]
    value["parents"] = [places[value["parents"][at]] for at in order]
    value["channels"] = [value["channels"][at] for at in order]
    if "deleted" in value:
        value["deleted"] = sorted(places[at] for at in value["deleted"])
    if "bodymap" in value:
        moved = {places[int(at)]: body for at, body in value["bodymap"].items()}
        value["bodymap"] = {str(at): moved[at] for at in sorted(moved)}
    sync.put("history", tree.parse(json.dumps(value))[1])


def _ordered(request, parts, field):
    """Parts of `open_revs=all`, and attachments behind the document of `multipart/related`."""
    if field == "body" and "open_revs=" in request.route:
        return sorted(parts, key=_shown) if "open_revs=all" in request.route else parts
    if field == "body" and "/_bulk_get" in request.route:
        return parts
    return parts[:1] + sorted(parts[1:], key=_shown)
