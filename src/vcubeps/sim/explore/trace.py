"""A schedule as text: one line per event, with what it caused."""

from __future__ import annotations

from collections.abc import Iterable

from vcubeps.protocol.outputs import (
    Accepted,
    Acknowledged,
    Deliver,
    MemberJoined,
    MemberLeft,
    Output,
    Received,
    Restarted,
    Send,
    Started,
    Subscribed,
    Unsubscribed,
    Up,
)

MESSAGE_CHARACTERS_MAX = 120


class Trace:
    """Collects the lines of one schedule."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def received(self, time: int, node: int, sender: int, message: object, outputs: Iterable[Output]) -> None:
        self._add(time, node, f"⇐ {sender} {show_message(message)}", outputs)

    def lost(self, time: int, node: int, sender: int, message: object) -> None:
        self._add(time, node, f"⇍ {sender} {show_message(message)} (lost)", ())

    def noted(self, time: int, node: int, what: str, outputs: Iterable[Output] = ()) -> None:
        self._add(time, node, what, outputs)

    def _add(self, time: int, node: int, what: str, outputs: Iterable[Output]) -> None:
        caused = show_outputs(outputs)
        self.lines.append(f"{time:>7} {node:>3}  {what}" + (f"  ⇒ {caused}" if caused else ""))


def show_message(message: object) -> str:
    text = repr(message)
    return text if len(text) <= MESSAGE_CHARACTERS_MAX else text[: MESSAGE_CHARACTERS_MAX - 1] + "…"


def show_outputs(outputs: Iterable[Output]) -> str:
    destinations = []
    shown = []
    for output in outputs:
        if isinstance(output, Send):
            destinations.append(str(output.destination))
        else:
            shown.append(show_output(output))
    if destinations:
        shown.append("send to " + " ".join(destinations))
    return "; ".join(shown)


def show_output(output: Output) -> str:
    match output:
        case Accepted(topic=topic, counter=counter):
            return f"accepted {topic} {counter}"
        case Started(topic=topic, items=items, barrier=barrier):
            return f"STARTED {topic} {_counters(items)} after {_barrier(barrier)}"
        case Acknowledged(topic=topic, counter=counter):
            return f"acknowledged {topic} {counter}"
        case Received(topic=topic, source=source, counters=counters):
            return f"received {topic} {source}:{','.join(map(str, counters))}"
        case Deliver(topic=topic, source=source, items=items, after=after):
            return f"DELIVER {topic} {source}:{_counters(items)} after {_barrier(after)}"
        case Subscribed(topic=topic, counter=counter):
            return f"SUBSCRIBED {topic} @{counter}"
        case Unsubscribed(topic=topic):
            return f"UNSUBSCRIBED {topic}"
        case MemberJoined(topic=topic, node=node):
            return f"{topic} +{node}"
        case MemberLeft(topic=topic, node=node):
            return f"{topic} -{node}"
        case Up(incarnation=incarnation):
            return f"UP as {incarnation}"
        case Restarted(incarnation=incarnation):
            return f"RESTARTED as {incarnation}"
    return repr(output)


def _counters(items: Iterable[tuple[int, bytes]]) -> str:
    return ",".join(str(counter) for counter, _ in items)


def _barrier(barrier: dict[int, int]) -> str:
    return "{" + " ".join(f"{source}:{barrier[source]}" for source in sorted(barrier)) + "}"
