"""Settings of the whole suite: generated examples are the same in every run; golden transcripts can be re-written."""

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="re-write the golden transcripts (tests/golden) as the protocol behaves now; read the difference",
    )
