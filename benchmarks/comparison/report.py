"""Results as Markdown, and a plot beside each table."""

import os
import platform
import re
import time

from . import plot
from .servers import ROOT

RESULTS = os.path.join(ROOT, "benchmarks", "results")


def machine():
    """A short description of the machine."""
    model, cores = "unknown", os.cpu_count()
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo") as info:
        gibibytes = int(info.readline().split()[1]) / (1 << 20)
    return f"{cores} x {model}, {gibibytes:.0f} GiB, Linux {platform.release()}"


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def verdict(value, must, stretch, smaller=False):
    if must is None:
        return ""
    reached = (lambda goal: value <= goal) if smaller else (lambda goal: value >= goal)
    if stretch is not None and reached(stretch):
        return "stretch"
    return "met" if reached(must) else "**missed**"


def number(value):
    if value is None:
        return "overrun"
    return f"{value:,.0f}".replace(",", " ")


def speed_table(table):
    peer = table["peer"]
    lines = [
        f"### {table['title']}", "",
        f"| depth | ratio | least to most | by | must / stretch | | Divan ops/s | {peer} ops/s "
        f"| CPU/op ns | server's core busy | driver's | p99 us at the same rate |",
        "| ---: | ---: | :---: | --- | :---: | --- | ---: | ---: | :---: | :---: | :---: | --- |",
    ]
    for row in table["rows"]:
        ours, theirs = row["divan"], row["peer"]
        lines.append(
            f"| {row['depth']} | **{row['ratio']:.2f}** | {row['least']:.2f} to {row['most']:.2f} "
            f"| {row['by']} | {row['must']} / {row['stretch']} "
            f"| {verdict(row['ratio'], row['must'], row['stretch'])} "
            f"| {number(ours['opsPerSecond'])} | {number(theirs['opsPerSecond'])} "
            f"| {number(ours['cpu'])} : {number(theirs['cpu'])} "
            f"| {100 * ours['busy']:.0f} % : {100 * theirs['busy']:.0f} % "
            f"| {100 * ours['driverBusy']:.0f} % : {100 * theirs['driverBusy']:.0f} % "
            f"| {number(ours['p99'])} : {number(theirs['p99'])} at {number(row['rate'])} ops/s |"
        )
    if table["samples"]:
        lines.append("")
        for row in table["rows"]:
            seen = row["persistence"]
            lines.append(
                f"- depth {row['depth']}: the oldest unpersisted change was at most "
                f"**{seen['age']:.2f} s** old ({seen['samples']} samples; {seen['late']} were "
                "still unpersisted half a second after their answer)"
            )
    return lines + [""]


def figure_table(figures):
    lines = [
        "### Figures", "",
        "| | value | must / stretch | | |", "| --- | ---: | :---: | --- | --- |",
    ]
    for row in figures:
        goals = "" if row["must"] is None else f"{row['must']} / {row['stretch'] or '-'}"
        met = verdict(row["value"], row["must"], row["stretch"], row["smaller"])
        lines.append(
            f"| {row['what']} | **{row['value']:.2f}** {row['unit']} | {goals} | {met} "
            f"| {row['note']} |"
        )
    return lines + [""]


HEAD = """# Divan against memcached and Redis, {date}

{machine}. Server on core {server}, load on core {driver}, 50 connections; {rounds} round(s) of
{seconds} s, interleaved; the ratio is the median of the rounds' ratios. **by** is the
compared quantity: `ops/s` if both servers used at least 95 % of their core, else `CPU/op`, the
server's processor time an operation. Divan's number is before the colon, the peer's after it. p99
is measured in an open loop at 70 % of the slower server's peak, the same rate for both.
`benchmarks/README.md` has the details.{quick}
"""

QUICK = "\n\nThis was a quick run (`QUICK=1`) of one short round: do not quote it."


def write(plan, tables, figures):
    """Writes the report and its plots; returns the path and the text."""
    os.makedirs(RESULTS, exist_ok=True)
    where = machine()
    date = time.strftime("%Y-%m-%d")
    short = slug(where.split(",")[0])
    name = f"{date}-{short}" + ("-quick" if plan.quick else "")
    lines = [HEAD.format(
        date=date, machine=where, server=plan.server_core, driver=plan.driver.core,
        rounds=plan.rounds, seconds=plan.seconds, quick=QUICK if plan.quick else "",
    )]
    for table in tables:
        lines += speed_table(table)
        picture = f"{name}-{table['name']}.svg"
        plot.speed(os.path.join(RESULTS, picture), table)
        lines += [f"![{table['title']}]({picture})", ""]
    if figures:
        lines += figure_table(figures)
        picture = f"{name}-figures.svg"
        plot.figures(os.path.join(RESULTS, picture), figures)
        lines += [f"![Figures]({picture})", ""]
    path = os.path.join(RESULTS, name + ".md")
    text = "\n".join(lines)
    with open(path, "w") as report:
        report.write(text)
    return path, text
