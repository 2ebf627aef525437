"""Runs `divan-bench steady` during changes of a cluster, and reads its report."""

import json
import os
import signal
import subprocess
import tempfile

from comparison.driver import WORKLOADS
from comparison.servers import BUCKET, BUILD, Divan, Failure


class Load:
    """A load that runs until its time is over, or `end` is called.

    `options` are those of `divan-bench steady`, with underscores.
    """

    def __init__(self, cluster, workload, seconds, **options):
        self.limit = seconds
        self.result = tempfile.NamedTemporaryFile(suffix=".json")
        command = [
            os.path.join(BUILD, "divan-bench"), "steady",
            os.path.join(WORKLOADS, workload + ".json"), "--bootstrap", cluster.bootstrap,
            "--bucket", BUCKET, "--user", Divan.user, "--password", Divan.password,
            "--seconds", str(seconds), "--quiet", "--json", self.result.name,
        ]
        for name, value in options.items():
            flag = name.replace("_", "-")
            if value is True or value is False:
                command.append(f"--{flag}" if value else f"--no-{flag}")
            else:
                command += [f"--{flag}", str(value)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.result.close()

    def end(self):
        """Ends the load now, and returns its report."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait(30)

    def wait(self, seconds=None):
        """Waits for the end of the load, and returns its report."""
        try:
            output, errors = self.process.communicate(timeout=seconds or self.limit + 120)
        except subprocess.TimeoutExpired:
            raise Failure("the load does not end") from None
        if self.process.returncode != 0:
            raise Failure(f"divan-bench steady: {errors.strip() or self.process.returncode}")
        self.text = output
        with open(self.result.name) as found:
            return json.load(found)


def run(cluster, workload, seconds, **options):
    """A load from beginning to end."""
    with Load(cluster, workload, seconds, **options) as load:
        return load.wait()


def fill(cluster, workload, documents):
    """Stores all documents, without measuring."""
    run(cluster, workload, 0.1, keys=documents, rate=1, preload=True)


def peak(cluster, workload, seconds, **options):
    """Operations a second with so many in flight that the machine is saturated."""
    found = run(cluster, workload, seconds, rate=0, under_way=64, preload=False, **options)
    if found["failed"]:
        raise Failure(f"errors at the peak: {told(found)}")
    return found["succeeded"] / found["seconds"]


def told(found):
    """The errors of a load, in words."""
    return ", ".join(f"{count} x {code}" for code, count in found["errors"].items()) or "no errors"
