"""One node: the protocol's peer with links, detection, majority, memberships and a life, without I/O.

A `Machine` takes inputs, one at a time, each with the time at which it is made. It has no clock, socket, thread, disk
or randomness. A *shell* (the network runtime, the world of nodes, a test) makes the inputs happen and carries out
what `take_outputs` returns after each. This is what a shell owes a machine, and what it may do.

Time is in seconds, on any clock that does not go back, and that goes on while the process is stopped or the computer
sleeps: from a jump the machine learns that it was away. It must not be told a time before the last one.

Inputs. Each is a method of `Machine`.

- `start` comes first, once. The shell listens by then.
- `accepted(name)`: somebody has connected; the shell keeps the `Connection` that it returns. `opened(connection)`: a
  `Dial` has succeeded. `lost(connection)`: it has ended, or could not be made; not told of those that the machine has
  ended.
- `received(connection, count)`: so many bytes have been put into `connection.room`. Bytes of one connection come in
  their order, each once; any number at a time. Messages are handled where they lie: the room is used again
  afterwards.
- `writable(connection)`: what waited on a connection has been written. While more waits than the shell wants to hold,
  it sets `connection.is_paused`.
- `tick`: it is `next_tick_s`, or later. `end_turn`: all that has happened at this time has been told. It is due
  whenever `is_dirty`, as soon as possible; the later it comes, the more leaves together.
- `stored`, `store_failed`: after a `Store`.
- `subscribe`, `unsubscribe`, `publish`, `read`, `declare_dead`, `close` come from the application, or an operator.
  Wrong calls raise `UsageError`, calls that an isolated node refuses `Isolated`, calls after the end `NodeEnded`;
  they have changed nothing. `publish` returns 0 where the publication has to wait; `Room` says when it may be tried
  again.
- A `Reader` counts what has been delivered to one subscription and not been read. The shell lowers it when the
  application reads, and says `read` if the topic `is_full`.

A shell may set `context.write_at_once`, between inputs and not while it carries out outputs. Then a `Write` that comes
before all other outputs is carried out by calling it, while the input is being handled; it must not make an input in
turn.

Outputs, in `outputs.py`, are carried out in their order, before the next input where that is possible. `Write`s on
one connection keep their order. What has been written on a connection that is lost may or may not have arrived: links
send it again. `Store` has to be on stable storage before `stored` is said; the machine gives out nothing more until
then. What is delivered is given to the application in the order of the outputs. It may be called at once, and what it
then asks for is an input like any other: its outputs come after those at hand. If the node fails in the course of that,
what is left at hand of `Write`, `WriteAll`, `Dial` and `Store` is not carried out any more.

Fail-stop. After `Failed` or `Closed` nothing is sent, acknowledged or delivered any more, whatever happens. An
exception out of an input other than those named is a fault: tell the machine (`fault`), and it fails.

Same inputs at the same times give the same outputs, byte for byte.
"""
