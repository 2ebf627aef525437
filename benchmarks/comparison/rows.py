"""Rows of a table of targets: each is measured within a time, or has the reason why not."""

import signal
import subprocess

from .figures import figure
from .servers import ROOT, Failure


def limited(name, measure, seconds, plan):
    """The row's figures, or the reason for their absence; in `seconds` at most."""

    def give_up(*_):
        raise Failure(f"timed out after {seconds} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        return measure(plan)
    except (Failure, OSError, KeyError, ValueError, subprocess.SubprocessError) as failure:
        plan.say(f"{name}: {failure}")
        reason = " ".join(str(failure).split())[:300]
        return [figure(name, None, "", note=f"{type(failure).__name__}: {reason}")]
    finally:
        signal.alarm(0)


def commit():
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"],
                          capture_output=True, text=True)
    return done.stdout.strip() or "unknown"
