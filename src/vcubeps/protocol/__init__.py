"""The causal broadcast: one deterministic state machine per node, without clock, socket, thread or randomness.

A `Peer` takes inputs, one at a time, and returns the outputs that each of them caused. A *driver* (a node, the
explorer, the reference simulation, a test) makes the inputs happen and carries the outputs out. This is what a driver
owes a peer, and what it may do.

Inputs. Each is a method of `Peer`; it returns a list of outputs, or raises and has changed nothing.

- `start()` comes first, once. A peer is made with the nodes that the cluster starts with, or with seeds. First
  incarnations of such nodes are up at once and know each other, without `Up` and `Arrived`.
- `subscribe(topic)`, `unsubscribe(topic)`, `publish(topic, payload, time_ns)` come from the application; the time is
  passed on, and nothing depends on it. A `UsageError` is its
  fault, or the driver's; `can_subscribe`, `can_unsubscribe` and `can_publish` say beforehand what makes sense.
- `accept(topic, payload)` is `publish` in two steps. It causes no outputs: it returns the counter, and promises a later
  `release(topic)`, as soon as possible; any inputs may come between, further publications too. What waits may leave
  before the release. A release that finds nothing waiting does nothing.
- `receive(sender, message, size_max)`: a message of another node has arrived, of so many bytes at most: a driver that
  says less than it has switches the check of sizes off. The driver has checked its types, which a typed decoder does;
  values are checked here. A `ProtocolViolation` is the sender's fault.
- `suspect(node, incarnation)`: that incarnation, and those before it, have crashed, for all this node is concerned.
  There is no way back. It is the one that `present` or `Arrived` named, or a newer one that the driver has heard of. A
  node that leaves for good just stops: its goodbye, to whoever hears it, is such a report.
- `greet(node)`: say Hello to one more. So do newcomers whose seeds do not answer. Where newcomers come, nodes that came
  up with nobody who was up (`Up.founded`) and nodes that hold others for crashed do so too, say every minute, to some
  node that they were configured with or have met and that is not `present`: others may have come to those whom they
  have lost, and nobody who is left has heard of both sides.
- `restart()`: end this incarnation and go on as the next one.
- `isolate(isolated)`: where voters decide, whether this node is out of contact with every quorum of them. The driver
  says so before any other input that it concerns, and makes no `suspect` while it holds, but for what is certain: a
  goodbye, or the greeting of a newer incarnation. An isolated node starts nothing, and what it has accepted waits.

Links. A driver carries every message between two living incarnations exactly once. It may reorder: nothing depends on
the order on a link, nor on the order of the sends of one input. It may also deliver messages to a later incarnation of
the receiver than they were meant for, and messages of one that is no more, or lose them. What is meant for any
incarnation of a node that has said goodbye to this one may be lost until something of that node arrives, or `Arrived`
names a newer incarnation of it.

Reports. A driver reports each crash, sooner or later, to every node that lives and deals with the one that crashed,
expects it while it boots, or waits for its acknowledgement of a copy that it has passed on for others (`believes_dead`
says whether, `known_incarnation` which one; seeds are asked and not expected). A node that starts again deals with all
that it knew once more, those whose crash it had been told of included. A false report costs a restart; it breaks no
promise.

Outputs, in `outputs.py`, are carried out in their order before the next input, with this freedom:

- `Send`s of one input may leave in any order, later than the other outputs of that input, and together with those of
  later inputs in one frame. Copies come largest subtree first: written in this order they arrive earliest. A driver
  may hold an `Ack` back for as long as it likes: that is back-pressure.
- `Received` with `at_once` is followed by the `Deliver` of the same batch; the two may be handled as one.
- `Arrived` and `Departed` say who is there, and where; what is sent to a node before its address is known waits. A
  `Send` with an address goes there, and not to the node that has this id: it tells a newcomer that the id is taken.
- `IdTaken` ends a newcomer's peer: it draws another id and starts anew.
- `Deliver`s of one topic keep their order. The application may be called after the last output of the input; an
  input that it makes from inside is made after the outputs at hand have been carried out.
- `Restarted` has a new incarnation, which must be on stable storage before any output after it is carried out: a
  node that forgets it would use its counters twice. A process that starts anew passes a greater incarnation than
  any before it; no other state outlives a process.
- All other outputs tell something and ask for nothing.

Same inputs in the same order give the same outputs, byte for byte. A peer never blocks: the paper's "wait until" is
state. It keeps what is sent and received by reference, so neither side may change a message or a payload.
"""

from vcubeps.protocol.errors import ProtocolViolation, UsageError
from vcubeps.protocol.peer import Peer

__all__ = ["Peer", "ProtocolViolation", "UsageError"]
