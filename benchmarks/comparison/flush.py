"""Flushing: runs the micro program that writes the same documents as blocks and as rows."""

import json
import os
import statistics
import subprocess
import tempfile

from .servers import BUILD, Failure


def measure_flush(plan):
    documents = 20_000 if plan.quick else 200_000
    passes = 2 if plan.quick else 5
    with tempfile.TemporaryDirectory(prefix="divan-flush-") as directory:
        command = [
            os.path.join(BUILD, "divan-micro"), "flush", directory, str(documents), str(passes),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"divan-micro flush: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    blocks, rows = found["blocks"], found["rows"]

    def note(what):
        ours, theirs = blocks[what], rows[what]
        rates = [statistics.median(p["perSecond"] for p in side) for side in (ours, theirs)]
        costs = [statistics.median(p["cpuMicroseconds"] for p in side) for side in (ours, theirs)]
        return (
            f"{rates[0]:,.0f} against {rates[1]:,.0f} documents/s, "
            f"{costs[0]:.1f} against {costs[1]:.1f} us CPU each"
        ).replace(",", " ", 2)

    def ratio(what):
        return statistics.median(
            ours["perSecond"] / theirs["perSecond"]
            for ours, theirs in zip(blocks[what], rows[what])
        )

    return {
        "insert": ratio("insert"), "insertNote": note("insert"),
        "overwrite": ratio("overwrite"),
        "overwriteNote": note("overwrite")
        + f"; {passes} overwrites of each of {documents} documents, "
        f"at most {100 * blocks['deadShareMax']:.0f} % dead",
        "disk": blocks["compactedBytes"] / found["rawBytes"],
        "diskNote": f"rows {rows['compactedBytes'] / found['rawBytes']:.2f}, "
        f"LZ4 document by document {found['lz4PerDocument']:.2f}",
    }
