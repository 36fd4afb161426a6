"""`vcubeps node`: how it ends."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from vcubeps.cli.node import _close
from vcubeps.net.errors import Unacknowledged
from vcubeps.node.settings import ClusterSettings, NodeSettings


class Node:
    """A node that ends before all is acknowledged."""

    id = 0

    async def close(self) -> None:
        raise Unacknowledged("5 on 'room' were accepted and not acknowledged")


def test_a_node_that_is_asked_to_end_ends_well_and_says_what_was_not_acknowledged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = ClusterSettings(cluster="c", nodes=(NodeSettings(id=0, address="127.0.0.1:1"),))
    node: Any = Node()

    with caplog.at_level(logging.WARNING):
        asyncio.run(_close(node, settings))

    assert "5 on 'room' were accepted and not acknowledged" in caplog.text
