"""`vcubeps pub`: publishes one message, or every line of standard input."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from vcubeps.cli import interrupts
from vcubeps.cli.common import CommandError, Subparsers
from vcubeps.cli.gateways import CHOICE, add_gateway_options, chosen_gateway, explain_waiting
from vcubeps.cli.streams import input_lines
from vcubeps.protocol.limits import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from vcubeps.net.gateway.client import PublishStream

DESCRIPTION = f"""\
Publish a message to a topic, or without one every line of standard input, in order.

{CHOICE}"""

EXAMPLE = """\
examples:
  $ vcubeps cluster up --nodes 4
  $ vcubeps pub room hello
  published 0:2
  $ seq 1000 | vcubeps pub numbers --node 2
  published 1,000 lines, the last as 2:1001

  Return when every subscriber has received it:
    $ vcubeps pub room hello --acknowledged

The answer names the publication by its node and its counter, as vcubeps sub shows it.

Exit code: 0 published, 1 only some lines, or it cannot be known whether all received it,
2 nothing: the gateway cannot be reached or refuses it, 130 after Ctrl-C."""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "pub", help="publish a message, or lines", description=DESCRIPTION, epilog=EXAMPLE
    )
    parser.intermixed = True
    parser.add_argument("topic", metavar="TOPIC", help="topic to publish to")
    parser.add_argument(
        "message", metavar="MESSAGE", nargs="?", help="what to publish (default: each line of standard input)"
    )
    add_gateway_options(parser)
    parser.add_argument(
        "--acknowledged", action="store_true", help="wait until every subscriber has received it"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object: topic, how many were published, and source and counter of the last",
    )


def run(args: argparse.Namespace) -> int:
    return interrupts.run(_publish(args, chosen_gateway(args)))


async def _publish(args: argparse.Namespace, gateway: str) -> int:
    from vcubeps.net.gateway.client import GatewayClient, GatewayError  # noqa: PLC0415 - needs aiohttp

    if args.message is None and sys.stdin.isatty():
        print("one publication per line; Ctrl-D ends", file=sys.stderr)
    stream: PublishStream | None = None
    explaining: asyncio.Task[None] | None = None
    try:
        async with (
            GatewayClient(gateway) as client,
            client.publish_stream(args.topic, args.acknowledged) as stream,
            aclosing(_payloads(args)) as payloads,
        ):
            async for payload in payloads:
                if explaining is None:
                    explaining = asyncio.create_task(explain_waiting(gateway, lambda: not _accepted(stream)))
                await stream.send(payload)
    except GatewayError as error:
        if stream is None or not _accepted(stream):
            raise CommandError(str(error)) from None
        _answer(args, stream)
        print(f"vcubeps pub: {error}", file=sys.stderr)
        return 1
    finally:
        if explaining is not None:
            explaining.cancel()
    _answer(args, stream)
    return 0


def _accepted(stream: PublishStream) -> bool:
    """Whether at least one publication was."""
    return stream.last is not None


async def _payloads(args: argparse.Namespace) -> AsyncGenerator[bytes, None]:
    if args.message is not None:
        yield os.fsencode(args.message)
        return
    async for line in input_lines(MAX_PAYLOAD_BYTES):
        yield line


def _answer(args: argparse.Namespace, stream: PublishStream) -> None:
    """What was published: the one message, or how many lines, and the last of them."""
    last = stream.last
    if args.json:
        named = {"source": last and last.source, "counter": last and last.counter}
        print(json.dumps({"topic": args.topic, "published": stream.done} | named))
    elif args.message is not None and last is not None:
        print(f"published {last.source}:{last.counter}")
    else:
        until = f", the last as {last.source}:{last.counter}" if last else ""
        print(f"published {stream.done:,} {'line' if stream.done == 1 else 'lines'}{until}")
