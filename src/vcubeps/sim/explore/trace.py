"""A schedule as text: one line per event, with what it caused."""

from __future__ import annotations

from collections.abc import Iterable

from vcubeps.protocol.batches import Batch
from vcubeps.protocol.limits import COUNTERS_PER_INCARNATION
from vcubeps.protocol.messages import (
    Ack,
    Ask,
    Broadcast,
    Card,
    Copy,
    Fence,
    Final,
    Flush,
    Hello,
    IsFinal,
    Over,
    Publication,
    Report,
    Unsubscription,
    Welcome,
)
from vcubeps.protocol.outputs import (
    Accepted,
    Acknowledged,
    Arrived,
    Deliver,
    Departed,
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
    match message:
        case Copy(hop=hop, broadcast=broadcast, recipients=recipients, fresh=fresh):
            to = " ".join(map(str, recipients)) if recipients is not None else "whom the view has"
            return f"{_show_broadcast(broadcast)} for {to} (hop {_count(hop)}{_dead(fresh)})"
        case Ask(hop=hop):
            return f"ASK hop {_count(hop)}"
        case Ack(hop=hop, reports=reports, repaired=repaired, dead=dead, clock=clock):
            told = "".join(f", {node} {_show_report(report)}" for node, report in reports.items())
            again = ", sent again" if repaired else ""
            return f"ACK hop {_count(hop)}{told}{again}{_dead(dead)}, clock {clock}"
        case Flush(sequence=sequence, dead=dead, held=held, subscriptions=subscriptions):
            holds = "".join(
                f", holds {topic} {source}:{_count(publication.counter)}"
                for topic, of_the_dead in held.items()
                for source, publication in of_the_dead.items()
            )
            topics = "".join(
                f", in {topic} @{_count(counter)} to {_count(last)}"
                for topic, (counter, last) in subscriptions.items()
            )
            return f"FLUSH {sequence}{_dead(dead)}{holds}{topics}"
        case Hello(origin=origin, news=news):
            return f"HELLO as {origin}{_living(', wants to be known', news)}"
        case Welcome(origin=origin, target=target, dead=dead, living=living, admit=admit):
            others = ", the same are known" if living is None else _living(", knows", living)
            return f"WELCOME {target} from {origin}{' ADMIT' if admit else ''}{others}{_dead(dead)}"
        case IsFinal(dead=dead):
            return f"FINAL?{_dead(dead)}"
        case Final(dead=dead):
            return f"FINAL{_dead(dead)}"
        case Over(dead=dead):
            return f"OVER{_dead(dead)}"
        case Fence(incarnation=incarnation):
            return f"FENCE {incarnation}"
    text = repr(message)
    return text if len(text) <= MESSAGE_CHARACTERS_MAX else text[: MESSAGE_CHARACTERS_MAX - 1] + "…"


def _show_broadcast(broadcast: Broadcast) -> str:
    name = f"{broadcast.topic} {broadcast.source}:{_count(broadcast.counter)}"
    match broadcast:
        case Publication(batch=batch, barrier=barrier):
            times = f" ×{len(batch)}" if len(batch) > 1 else ""
            return f"PUB {name}{times} after {_barrier(barrier)}"
        case Unsubscription(barrier=barrier):
            return f"UNS {name} after {_barrier(barrier)}"
    return f"SUB {name}"


def _show_report(report: Report) -> str:
    if not report.is_member:
        return f"left by {_count(report.counter)}"
    return f"@{_count(report.counter)} floor {_count(report.floor)}"


def _living(what: str, cards: dict[int, Card]) -> str:
    return f"{what} {_barrier({node: card.incarnation for node, card in cards.items()})}" if cards else ""


def _dead(dead: dict[int, int]) -> str:
    return f", dead {_barrier(dead)}" if dead else ""


def _count(counter: int) -> str:
    """A counter or hop, after the incarnation that gave it out unless that is the first."""
    incarnation, within = divmod(counter, COUNTERS_PER_INCARNATION)
    return f"{incarnation}/{within}" if incarnation else str(within)


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
            return f"accepted {topic} {_count(counter)}"
        case Started(topic=topic, batch=batch, barrier=barrier):
            return f"STARTED {topic} {_counters(batch)} after {_barrier(barrier)}"
        case Acknowledged(topic=topic, counter=counter):
            return f"acknowledged {topic} {_count(counter)}"
        case Received(topic=topic, source=source, batch=batch):
            return f"received {topic} {source}:{_counters(batch)}"
        case Deliver(topic=topic, source=source, batch=batch, after=after):
            return f"DELIVER {topic} {source}:{_counters(batch)} after {_barrier(after)}"
        case Subscribed(topic=topic, counter=counter):
            return f"SUBSCRIBED {topic} @{_count(counter)}"
        case Unsubscribed(topic=topic):
            return f"UNSUBSCRIBED {topic}"
        case MemberJoined(topic=topic, node=node):
            return f"{topic} +{node}"
        case MemberLeft(topic=topic, node=node):
            return f"{topic} -{node}"
        case Arrived(node=node, incarnation=incarnation):
            return f"{node} is there as {incarnation}"
        case Departed(node=node, incarnation=incarnation):
            return f"{node} is gone as {incarnation}"
        case Up(incarnation=incarnation):
            return f"UP as {incarnation}"
        case Restarted(incarnation=incarnation, reason=reason):
            return f"RESTARTED as {incarnation}: {reason}"
    return repr(output)


def _counters(batch: Batch) -> str:
    return ",".join(map(_count, batch.counters))


def _barrier(barrier: dict[int, int]) -> str:
    return "{" + " ".join(f"{source}:{_count(barrier[source])}" for source in sorted(barrier)) + "}"
