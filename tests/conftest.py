"""Settings of the whole suite: generated examples are the same in every run; golden transcripts can be re-written."""

import pytest
from hypothesis import Phase, settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
# Mutants want to know that something fails, not the smallest example of it (tests/mutants.py).
settings.register_profile(
    "unshrunk", parent=settings.get_profile("repeatable"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="re-write the golden transcripts (tests/golden) as the protocol behaves now; read the difference",
    )
