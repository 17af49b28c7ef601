"""Puts the demo's real output into the README. Run it with a python that has backhaul."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"(<!-- demo:begin.*?-->\n).*?(<!-- demo:end -->)", re.DOTALL)


def main() -> None:
    command = [sys.executable, "-m", "backhaul", "demo"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    output = f"\n```console\n$ ./run demo\n{ended.stdout.strip()}\n```\n\n"
    text = BLOCK.sub(lambda found: found[1] + output + found[2], README.read_text("utf-8"))
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
