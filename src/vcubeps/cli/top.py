"""`vcubeps top`: what the nodes do, live."""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from typing import TYPE_CHECKING

from vcubeps.cli import interrupts
from vcubeps.cli.common import Subparsers
from vcubeps.cli.gateways import CHOICE, add_gateway_options, chosen_gateways, status_at

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from vcubeps.cli.rates import NodeRow, Snapshot, Statuses, TopicRow

_INTERVAL_MAX_S = 3600.0
_WIDTH = 200
"""Of a table that goes to no terminal."""

DESCRIPTION = f"""\
Show all nodes and topics of a cluster: rates, latency, queues and problems, live until Ctrl-C.

{CHOICE}"""

EXAMPLE = """\
examples:
  $ vcubeps top
  $ vcubeps top --once --interval 5                  # rates over five seconds, as one table
  $ vcubeps top --gateway 10.0.0.1:8000 10.0.0.2:8000 --json

nodes    pub/s, del/s   publications and deliveries per second since the last look
         p50, p99       milliseconds from publication to delivery here, since the node started,
                        as upper ends of buckets of powers of two
         waiting        received, and not delivered before what they come after
         unread         in the fullest subscription
         held           acknowledgements held back because a subscriber read too slowly
         resent         messages sent again after a connection was lost
topics   pub/s, del/s   over all nodes shown

Exit code: 0, also after Ctrl-C; 1 no gateway answers; 2 there is no cluster."""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "top", help="watch nodes and topics", description=DESCRIPTION, epilog=EXAMPLE
    )
    add_gateway_options(parser, several=True)
    parser.add_argument(
        "--interval", type=_seconds, default=1.0, metavar="S", help="seconds between two looks (default: 1)"
    )
    parser.add_argument("--once", action="store_true", help="print one table after one interval, and end")
    parser.add_argument("--json", action="store_true", help="print one JSON object per interval")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.1 <= value <= _INTERVAL_MAX_S:
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is no number of seconds from 0.1 to {_INTERVAL_MAX_S:g}: give one in that range"
        )
    return value


def run(args: argparse.Namespace) -> int:
    gateways = chosen_gateways(args)
    try:
        interrupts.run(_watch(args, gateways))
    except KeyboardInterrupt:
        return 0
    except _NobodyAnswers:
        tried = ", ".join(gateways)
        print(
            f"vcubeps top: no gateway answers at {tried}: start the nodes, or name others with --gateway or --dir",
            file=sys.stderr,
        )
        return 1
    return 0


class _NobodyAnswers(Exception):
    pass


async def _watch(args: argparse.Namespace, gateways: dict[str, int | None]) -> None:
    from vcubeps.cli.rates import snapshot  # noqa: PLC0415 - for the commands that need it

    before = await _ask(gateways)
    if not any(before.values()):
        raise _NobodyAnswers
    screen = _Screen(as_json=args.json, is_live=not args.once)
    with screen:
        if screen.is_terminal:
            screen.show(snapshot(gateways, {}, before))
        while True:
            await asyncio.sleep(args.interval)
            now = await _ask(gateways)
            screen.show(snapshot(gateways, before, now))
            before = now
            if args.once:
                return


async def _ask(gateways: dict[str, int | None]) -> Statuses:
    answers = await asyncio.gather(*map(status_at, gateways))
    return dict(zip(gateways, answers, strict=True))


# -- showing ---------------------------------------------------------------------------------------


class _Screen:
    """Redraws a terminal; elsewhere, one table after the other, or JSON."""

    def __init__(self, *, as_json: bool, is_live: bool) -> None:
        self._as_json = as_json
        self.is_terminal = is_live and not as_json and sys.stdout.isatty()
        if as_json:
            return
        from rich.console import Console  # noqa: PLC0415 - takes its time
        from rich.live import Live  # noqa: PLC0415

        self._console: Console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)

    def __enter__(self) -> None:
        if self.is_terminal:
            self._live.start()

    def __exit__(self, *_: object) -> None:
        if self.is_terminal:
            self._live.stop()

    def show(self, seen: Snapshot) -> None:
        if self._as_json:
            import msgspec  # noqa: PLC0415 - for the commands that need it

            print(msgspec.json.encode(seen).decode(), flush=True)
        elif self.is_terminal:
            self._live.update(_tables(seen), refresh=True)
        else:
            self._console.print(_tables(seen))
            sys.stdout.flush()


def _tables(seen: Snapshot) -> RenderableType:
    from rich.console import Group  # noqa: PLC0415 - takes its time

    nodes = _table(
        "node", "up", "topics", "pub/s", "del/s", "p50 ms", "p99 ms", "waiting", "unread", "held", "resent", "problems"
    )  # fmt: skip
    for node in seen.nodes:
        nodes.add_row(*_node_cells(node), style=None if node.up else "red")
    topics = _table("topic", "members", "pub/s", "del/s", "waiting", "unread")
    for topic in seen.topics:
        topics.add_row(*_topic_cells(topic))
    return Group(nodes, topics)


def _table(*titles: str) -> Table:
    from rich import box  # noqa: PLC0415 - takes its time
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        is_word = title in ("problems", "topic", "up")
        table.add_column(title, justify="left" if is_word else "right", no_wrap=title != "problems")
    return table


def _node_cells(row: NodeRow) -> tuple[str, ...]:
    from rich.markup import escape  # noqa: PLC0415 - takes its time

    return (
        str(row.gateway if row.node is None else row.node), "yes" if row.up else "no", _count(row.topics),
        _rate(row.publications_per_s), _rate(row.deliveries_per_s),
        _milliseconds(row.latency_us_p50), _milliseconds(row.latency_us_p99),
        _count(row.waiting), _count(row.unread), _count(row.held), _count(row.resent),
        escape("; ".join(row.problems)),
    )  # fmt: skip


def _topic_cells(row: TopicRow) -> tuple[str, ...]:
    from rich.markup import escape  # noqa: PLC0415 - takes its time

    from vcubeps.cli.sub import printable  # noqa: PLC0415

    return (
        escape(printable(row.topic)), _count(row.members), _rate(row.publications_per_s),
        _rate(row.deliveries_per_s), _count(row.waiting), _count(row.unread),
    )  # fmt: skip


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _rate(value: float | None) -> str:
    """
    >>> _rate(None), _rate(0.0), _rate(2.5), _rate(12345.6)
    ('–', '0', '2.5', '12,346')
    """
    if value is None:
        return "–"
    return f"{value:.1f}" if 0 < value < 10 else f"{value:,.0f}"


def _milliseconds(us: int | None) -> str:
    """
    >>> _milliseconds(None), _milliseconds(511), _milliseconds(65535)
    ('–', '0.51', '66')
    """
    if us is None:
        return "–"
    return f"{us / 1000:.2f}" if us < 10_000 else f"{us / 1000:.0f}"
