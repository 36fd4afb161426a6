"""`python -m vcubeps` is the command `vcubeps`."""

from __future__ import annotations

import sys

from vcubeps.cli import main

if __name__ == "__main__":
    sys.exit(main())
