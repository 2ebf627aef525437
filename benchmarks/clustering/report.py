"""The table of targets; rows measured on the same day and machine are gathered in one."""

import json
import os
import time

from comparison.report import RESULTS, machine, slug, verdict

HEAD = """# Targets of a cluster, {date}

{machine}. All nodes, and the driver, share these cores. Commit {commit}. Documents are 1 KiB of
JSON unless the row names another kind; buckets are persistent. `benchmarks/README.md` describes the
measurements; `benchmarks/cluster ROW` repeats one.{quick}

| row | target | value | must / stretch | | |
| --- | --- | ---: | :---: | --- | --- |
"""

QUICK = "\n\nThis was a quick run (`--quick`) of few rounds and documents: do not quote it."


def line(row, figure):
    if figure["value"] is None:
        return f"| {row} | {figure['what']} | - | | **not measured** | {figure['note']} |"
    met = verdict(figure["value"], figure["must"], figure["stretch"], figure["smaller"])
    shown = f"{figure['value']:.2f}" if figure["unit"] else f"{figure['value']:.0f}"
    if figure["value"] == float("inf"):
        shown = "never"
    goal = "at most" if figure["smaller"] else "at least"
    goals = f"{goal} {figure['must']}" + (f" / {figure['stretch']}" if figure["stretch"] else "")
    unit = f" {figure['unit']}" if figure["unit"] else ""
    goals = "" if figure["must"] is None else goals + unit
    return f"| {row} | {figure['what']} | **{shown}**{unit} | {goals} | {met} | {figure['note']} |"


def text(head, rows, order, template=HEAD):
    """`rows`: by name, the figures of each, in the order of `order`."""
    lines = [line(name, each) for name in order if name in rows for each in rows[name]]
    return template.format(**head) + "\n".join(lines) + "\n"


def write(plan, rows, order, commit, kind="cluster", template=HEAD):
    """Writes the table, with the numbers beside it; returns the path and the text."""
    os.makedirs(RESULTS, exist_ok=True)
    where, date = machine(), time.strftime("%Y-%m-%d")
    name = f"{date}-{kind}-{slug(where.split(',')[0])}" + ("-quick" if plan.quick else "")
    path = os.path.join(RESULTS, name)
    old = {}
    if os.path.exists(path + ".json"):
        with open(path + ".json") as file:
            old = json.load(file)
    rows = {**old, **rows}
    with open(path + ".json", "w") as file:
        json.dump(rows, file, indent=1, sort_keys=True)
        file.write("\n")
    head = {"date": date, "machine": where, "commit": commit, "quick": QUICK if plan.quick else ""}
    table = text(head, rows, order, template)
    with open(path + ".md", "w") as file:
        file.write(table)
    return path + ".md", table
