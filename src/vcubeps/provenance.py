"""Where results come from: version, revision, and what they were made with."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path


@cache
def package_version() -> str:
    return metadata.version("vcubeps")


@cache
def git_revision() -> str:
    """Of the checkout that this package lies in, with a + if it was changed; "unknown" for an installed package.

    >>> git_revision() == "unknown" or len(git_revision()) >= 12
    True
    """
    here = Path(__file__).parent
    if not any((folder / ".git").exists() for folder in here.parents[:2]):
        return "unknown"
    try:
        revision, changes = (
            subprocess.run(
                ["git", "-C", here, *arguments], capture_output=True, text=True, check=True, timeout=20
            ).stdout.strip()
            for arguments in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--", "."))
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{revision}+" if changes else revision


def versions(*packages: str) -> dict[str, str]:
    """Of Python and of installed packages."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}}
