"""The demo with a small program in place of GPT-2: all its steps and claims, in seconds."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

from tapestry.service.cli import main
from tapestry.service.cli.commands import demo

if __name__ == "__main__":
    program = Path(sys.argv[1])
    with patch.object(demo, "example_model", lambda name: program):
        sys.exit(main(["demo", *sys.argv[2:]]))
