"""How much faster than real time the simulator runs."""

import os
import re
import subprocess
import time

from comparison.figures import figure
from comparison.servers import BUILD, Failure

LINE = re.compile(r"^seed (\d+) .*?(\d+) operations, .*?  ([0-9.]+) s, (\d+)x real time$", re.M)


def parsed(text):
    """Parses `divan-simulator --timing`: seeds, operations, virtual and real seconds."""
    rows = [(int(seed), int(count), float(real), int(speed))
            for seed, count, real, speed in LINE.findall(text)]
    return {
        "seeds": len(rows),
        "operations": sum(count for _, count, _, _ in rows),
        "virtual": sum(real * speed for _, _, real, speed in rows),
        "real": sum(real for _, _, real, _ in rows),
        "violations": text.count("VIOLATION "),
    }


def simulator(plan):
    """Runs seed by seed, as many as fit into the time."""
    most, seconds = (3, 20) if plan.quick else (20, 60)
    texts, used, began = [], 0.0, time.monotonic()
    for seed in range(1, most + 1):
        left = seconds - (time.monotonic() - began)
        if left <= 0:
            break
        plan.say(f"simulator: seed {seed}, {left:.0f} s left")
        text, cost = one_seed(seed)
        texts.append(text)
        used += cost
    found = parsed("".join(texts))
    if found["seeds"] != len(texts):
        raise Failure(f"unexpected output of divan-simulator: {texts[-1][-300:]}")
    red = f"; {found['violations']} VIOLATIONS" if found["violations"] else ""
    return [figure("simulator, standard seeds, virtual time against processor time",
                   found["virtual"] / used, "x", 50, 200, smaller=False, note=(
        f"seeds 1 to {len(texts)}: {found['virtual']:.0f} s with {found['operations']} operations "
        f"in {used:.1f} s of one core ({found['real']:.1f} s real time){red}"))]


def one_seed(seed):
    """Its output, and the processor time it takes."""
    command = [os.path.join(BUILD, "divan-simulator"), "--seed", str(seed),
               "--workload", "standard", "--timing"]
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    after = os.times()
    # 1: a violation, which this measurement ignores.
    if done.returncode not in (0, 1):
        raise Failure(f"divan-simulator ended with {done.returncode}: {done.stderr.strip()[:200]}")
    return done.stdout, (after.children_user - before.children_user
                         + after.children_system - before.children_system)
