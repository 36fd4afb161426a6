"""`vcubeps sub`: the messages of topics, as they come, in causal order."""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import sys
from typing import TYPE_CHECKING

from vcubeps.cli import interrupts
from vcubeps.cli.common import CommandError, Subparsers, integer
from vcubeps.cli.gateways import CHOICE, add_gateway_options, chosen_gateway, explain_waiting
from vcubeps.cli.streams import Output

if TYPE_CHECKING:
    from vcubeps.net.gateway.dialogue import MessageEvent

_COUNT_MAX = 1_000_000_000

DESCRIPTION = f"""\
Subscribe to topics and print every message, in causal order, until Ctrl-C.

{CHOICE}"""

EXAMPLE = """\
examples:
  $ vcubeps cluster up --nodes 4
  $ vcubeps sub room
  subscribed to room: members 0
  room 0:2  hello
  room 3:2  hello yourself

  For a program to read, ten messages of two topics at node 3:
    $ vcubeps sub room hall --node 3 --json --count 10

A line has the topic, the node that published, its counter, and the text; what is not printable
is escaped. The first line, on stderr, says that the subscription is in effect everywhere.

Exit code: 0 after --count messages, 130 after Ctrl-C, 1 the subscription was ended (the command
read too slowly, or the node ended), 2 the gateway cannot be reached or refuses the topic."""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "sub", help="print the messages of topics", description=DESCRIPTION, epilog=EXAMPLE
    )
    parser.intermixed = True
    parser.add_argument("topics", metavar="TOPIC", nargs="+", help="topic to subscribe to")
    add_gateway_options(parser)
    parser.add_argument(
        "--count", type=integer(1, _COUNT_MAX), metavar="N", help="end after N messages (default: at Ctrl-C)"
    )
    parser.add_argument(
        "--slow",
        choices=("wait", "disconnect"),
        default="disconnect",
        help="if this command is not read fast enough, let the publishers wait, or end (default: disconnect)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object per message: topic, source, counter, after, published_at, and text or base64",
    )


def run(args: argparse.Namespace) -> int:
    return interrupts.run(_print_messages(args, chosen_gateway(args)))


async def _print_messages(args: argparse.Namespace, gateway: str) -> int:
    from vcubeps.net.gateway import dialogue  # noqa: PLC0415 - needs aiohttp
    from vcubeps.net.gateway.client import GatewayClient, GatewayError  # noqa: PLC0415

    output = Output()
    shown = json_of if args.json else line_of
    left: int = args.count or -1
    is_subscribed = False
    explaining = asyncio.create_task(explain_waiting(gateway, lambda: not is_subscribed))
    try:
        async with GatewayClient(gateway) as client:
            async for event in client.subscribe(list(dict.fromkeys(args.topics)), slow=args.slow):
                match event:
                    case dialogue.MessageEvent():
                        await output.write(shown(event))
                        left -= 1
                        if left == 0:
                            break
                    case dialogue.SubscribedEvent(topic=topic, members=members):
                        is_subscribed = True
                        _say(f"subscribed to {printable(topic)}: members {', '.join(map(str, members))}")
                    case dialogue.GapEvent(topic=topic, reason=reason):
                        _say(f"{printable(topic)}: messages may be missing here, because {reason}")
                    case dialogue.DisconnectedEvent(topic=topic):
                        raise GatewayError(
                            f"the subscription to {printable(topic)} was ended because this command was not read fast "
                            "enough: read faster, or subscribe with --slow wait"
                        )
                    case dialogue.EndedEvent(topic=topic, reason=reason):
                        raise GatewayError(f"the subscription to {printable(topic)} has ended: {reason}")
    except GatewayError as error:
        if not is_subscribed:
            raise CommandError(str(error)) from None
        await output.flush()
        _say(f"vcubeps sub: {error}")
        return 1
    finally:
        explaining.cancel()
    await output.flush()
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def json_of(message: MessageEvent) -> str:
    """
    >>> from vcubeps.net.gateway.dialogue import MessageEvent
    >>> json_of(MessageEvent(topic="room", source=3, counter=17, after={3: 16}, published_at=0.5, base64=b"hello"))
    '{"topic": "room", "source": 3, "counter": 17, "after": {"3": 16}, "published_at": 0.5, "text": "hello"}'
    """
    payload = message.payload
    try:
        content = {"text": payload.decode()}
    except UnicodeDecodeError:
        content = {"base64": base64.b64encode(payload).decode()}
    told = {
        "topic": message.topic,
        "source": message.source,
        "counter": message.counter,
        "after": message.after,
        "published_at": message.published_at,
    }
    return json.dumps(told | content)


def line_of(message: MessageEvent) -> str:
    """
    >>> from vcubeps.net.gateway.dialogue import MessageEvent
    >>> line_of(MessageEvent(topic="room", source=3, counter=17, after={}, published_at=0.0, text="good\\nday"))
    'room 3:17  good\\\\nday'
    """
    text = message.payload.decode(errors="backslashreplace")
    return f"{printable(message.topic)} {message.source}:{message.counter}  {printable(text)}"


def printable(text: str) -> str:
    """`text` in one line that cannot command a terminal; nothing else is changed.

    >>> printable("tab\\tand \\x1b[31mred")
    'tab\\tand \\\\x1b[31mred'
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each == "\t" else each.encode("unicode_escape").decode()
        for each in text
    )
