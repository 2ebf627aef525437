"""The tutorial docs/gateway.md: its commands, in their order, give the answers that it shows."""

import re
import subprocess
import textwrap

import pytest

from rig.divan_gateway import DivanGateway
from rig.node import ROOT

TEXT = (ROOT / "docs/gateway.md").read_text()
MARK = "=== answered ==="
# Commands that run on: the test starts the gateway itself, and needs no server of pages.
LASTING = ("divan-gateway ", "python3 -m http.server ")


def blocks():
    """The indented blocks of the tutorial, without their indentation."""
    found = re.findall(r"(?:(?<=\n)    .*\n(?:\n(?=    ))*)+", TEXT)
    return [textwrap.dedent(each) for each in found]


def steps():
    """Pairs of commands and the answer that the tutorial shows for them."""
    found = []
    for block in blocks():
        if block.startswith(("{", "<", *LASTING)):
            continue
        for commands, answer in re.findall(r"((?:(?!# ).*\n)+)((?:# .*\n)*)", block):
            found.append((commands, re.sub("(?m)^# ", "", answer).strip()))
    return found


def pattern(answer):
    """`...` of an answer stands for any text."""
    return ".*".join(map(re.escape, answer.split("...")))


@pytest.fixture
def gateway(tmp_path):
    (configuration,) = [each for each in blocks() if each.startswith("{")]
    path = tmp_path / "gateway.json"
    path.write_text(configuration)
    with DivanGateway(path) as gateway:
        yield gateway


def test_commands_of_the_tutorial_give_its_answers(gateway, tmp_path):
    script = "\n".join(f"{commands}echo '{MARK}'" for commands, _ in steps())
    script = script.replace(":4984", f":{gateway.public_port}")
    script = script.replace(":4985", f":{gateway.admin_port}")
    ran = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    *outputs, rest = [each.strip() for each in ran.stdout.split(f"{MARK}\n")]
    assert (ran.returncode, ran.stderr, rest) == (0, "", ""), outputs
    assert len(outputs) >= 15
    for (commands, answer), output in zip(steps(), outputs, strict=True):
        assert re.fullmatch(pattern(answer), output, re.DOTALL), (commands, output)
