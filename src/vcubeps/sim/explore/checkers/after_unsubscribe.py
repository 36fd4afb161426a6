"""Nothing is delivered to a node that is not subscribed, own publications included.

A subscription holds from Subscribed until unsubscribe() is called: what that call itself
returns is handed to the application after it has left.
"""

from __future__ import annotations

from vcubeps.protocol.outputs import Deliver
from vcubeps.sim.explore.checkers.base import Checker, OutputHandlers


class AfterUnsubscribe(Checker):
    name = "after_unsubscribe"
    promise = "nothing is delivered to a node that is not subscribed"

    def outputs(self) -> OutputHandlers:
        return {Deliver: self._on_deliver}

    def _on_deliver(self, time: int, node: int, incarnation: int, output: Deliver) -> None:
        facts = self.ledger.topic(output.topic)
        if not facts.subscribed >> node & 1:
            when = "before it was subscribed" if facts.wanted >> node & 1 else "though it is not subscribed"
            counters = ", ".join(f"⟨{output.source}, {counter}⟩" for counter, _ in output.items)
            self.report(time, node, f"{output.topic}: delivered {counters} {when}")
