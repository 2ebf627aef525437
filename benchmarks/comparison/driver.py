"""Runs divan-bench and reads its report."""

import json
import os
import subprocess
import tempfile

from .servers import BUILD, ROOT, Failure

WORKLOADS = os.path.join(ROOT, "benchmarks", "workloads")


class Overrun(Failure):
    """The request rate was higher than the server can serve."""


class Driver:
    """The load, pinned to its own core."""

    def __init__(self, core):
        self.core = core

    def run(self, server, workload, **options):
        """One test of `workload`; `options` are divan-bench's, with underscores."""
        with tempfile.NamedTemporaryFile(suffix=".json") as result:
            command = [
                "taskset", "-c", str(self.core), os.path.join(BUILD, "divan-bench"),
                os.path.join(WORKLOADS, workload + ".json"), "--quiet", "--json", result.name,
            ] + server.driver_arguments()
            for name, value in options.items():
                flag = name.replace("_", "-")
                if value is True:
                    command.append(f"--{flag}")
                elif value is False:
                    command.append(f"--no-{flag}")
                else:
                    command += [f"--{flag}", str(value)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                kind = Overrun if "cannot keep up" in done.stderr else Failure
                raise kind(f"{workload} against {server.name}: {done.stderr.strip()}")
            found = json.load(open(result.name))
        if "ops" in found:
            if found["errors"] or found["wrongSizes"]:
                raise Failure(
                    f"{workload} against {server.name}: errors {found['errors']}, "
                    f"{found['wrongSizes']} values of the wrong size"
                )
        return found

    def load(self, server, workload, **options):
        """Stores all documents of `workload`, and nothing else."""
        return self.run(server, workload, seconds=0, preload=True, **options)["loading"]


def busy(result):
    """The share of its core that the server itself used."""
    return result["server"]["utilisation"]


def cpu(result):
    """Nanoseconds of the server's processor time an operation."""
    return result["server"]["cpuNanosecondsPerOp"]


def p99(result):
    """Microseconds."""
    return result["latencyMicroseconds"]["all"]["p99"]
