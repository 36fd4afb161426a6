"""The commands in processes of their own, as a session's Java lives as long as its process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = [sys.executable, "-c", "import sys; from vcubeps.cli import main; sys.exit(main())"]
"""`vcubeps`, of this environment."""


def vcubeps(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
