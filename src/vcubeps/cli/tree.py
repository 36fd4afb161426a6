"""`vcubeps tree`: the spanning tree along which one publication travels."""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from vcubeps.cli.common import CommandError, Subparsers, abbreviated, integer, whole_number
from vcubeps.cube import MAX_DIMENSION, dimension, spanning_tree, tree_depth

DESCRIPTION = """\
Draw the tree along which a publication travels from its source to the subscribers.

The source sends one copy to the first subscriber of each of its subcubes; each
receiver passes the message on inside the subcube it was reached in. No node
needs to know the tree: it follows from the identifiers."""

EXAMPLE = """\
example (figure 3 of the paper, right side):
  $ vcubeps tree --nodes 8 --source 2 --subscribers 0,2,3,5,7
  2
  ├── 3
  ├── 0
  └── 7
      └── 5

  4 receivers, depth 2

  $ vcubeps tree --nodes 8 --source 2 --subscribers 0,2,3,5,7 --json
  {"source": 2, "edges": [[2,3],[2,0],[2,7],[7,5]], "depth": 2, "receivers": 4}

In the JSON, edges are [parent, child] in the order in which copies are sent,
depth is the number of hops to the farthest receiver."""

BOX = ("├── ", "└── ", "│   ", "    ")
ASCII = ("|-- ", "`-- ", "|   ", "    ")


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "tree", help="draw the tree a publication travels along", description=DESCRIPTION, epilog=EXAMPLE
    )
    parser.add_argument(
        "--nodes",
        type=integer(1, 1 << MAX_DIMENSION),
        required=True,
        metavar="N",
        help=f"how many nodes there are, 1 to {1 << MAX_DIMENSION}; they are 0 to N-1, and N need not be "
        "a power of two",
    )
    parser.add_argument(
        "--source",
        required=True,
        metavar="ID",
        help="the node that publishes; one of the subscribers",
    )
    parser.add_argument(
        "--subscribers",
        default="all",
        metavar="IDS",
        help="who has subscribed: identifiers and ranges such as 0-3,7, or all (default: all)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a drawing")


def run(args: argparse.Namespace) -> int:
    nodes: int = args.nodes
    source = whole_number(args.source)
    subscribers = _subscribers(args.subscribers, nodes)
    if source is None or not 0 <= source < nodes:
        raise CommandError(
            f"--source {abbreviated(args.source)!r} is not a number from 0 to {nodes - 1}: "
            f"choose one of the {nodes} nodes or raise --nodes"
        )
    # Algorithm 1, line 17: only subscribers of a topic publish on it.
    if source not in subscribers:
        raise CommandError(
            f"--source {source} is not a subscriber and only subscribers publish: "
            f"add {source} to --subscribers or choose another source"
        )

    edges = spanning_tree(source, subscribers, dimension(nodes))
    depth = tree_depth(edges)
    if args.json:
        # Written by hand so that a list of many edges stays compact and the rest readable.
        listed = json.dumps(edges, separators=(",", ":"))
        print(f'{{"source": {source}, "edges": {listed}, "depth": {depth}, "receivers": {len(edges)}}}')
        return 0
    sys.stdout.writelines(f"{line}\n" for line in _drawing(source, edges, _guides()))
    print(f"\n{len(edges)} {'receiver' if len(edges) == 1 else 'receivers'}, depth {depth}")
    return 0


def _subscribers(text: str, nodes: int) -> Collection[int]:
    if text.strip() == "all":
        return range(nodes)
    subscribers: set[int] = set()
    for part in text.split(","):
        subscribers.update(_range(part.strip(), nodes))
    return subscribers


def _range(part: str, nodes: int) -> range:
    if not part:
        raise CommandError(
            "--subscribers has an empty identifier: give identifiers and ranges such as 0-3,7, or all"
        )
    first_text, dash, last_text = part.partition("-")
    first = whole_number(first_text)
    last = whole_number(last_text) if dash else first
    if first is None or last is None:
        raise CommandError(
            f"--subscribers: {abbreviated(part)!r} is neither an identifier nor a range: "
            f"give numbers from 0 to {nodes - 1} such as 0-3,7, or all"
        )
    if last < first:
        raise CommandError(
            f"--subscribers: range {abbreviated(part)} runs backwards: write the smaller identifier first"
        )
    if last >= nodes:
        raise CommandError(
            f"--subscribers: {abbreviated(part)} is outside 0 to {nodes - 1}: "
            f"choose among the {nodes} nodes or raise --nodes"
        )
    return range(first, last + 1)


def _drawing(source: int, edges: Iterable[tuple[int, int]], guides: tuple[str, ...]) -> Iterator[str]:
    """The tree, one node per line, children in the order in which they are sent to."""
    fork, corner, trunk, gap = guides
    below: defaultdict[int, list[int]] = defaultdict(list)
    for parent, child in edges:
        below[parent].append(child)
    waiting = [(source, "", "")]
    while waiting:
        node, lead, indent = waiting.pop()
        yield f"{lead}{node}"
        step, inner = corner, gap
        for child in reversed(below[node]):
            waiting.append((child, indent + step, indent + inner))
            step, inner = fork, trunk


def _guides() -> tuple[str, ...]:
    try:
        "".join(BOX).encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return ASCII
    return BOX
