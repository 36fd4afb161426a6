"""Publish/subscribe systems that `benchmarks/pubsub.py` measures, one module each, and what drives them.

A system is a line in `registry.py` and a module with a class `Member`, one object per process, constructed with a
`Place`. It is written in the style in which its library is fastest, by extending one of

- `SyncMember` (`sync_member.py`): one thread; `open`, `publish`, `flush`, `receive`, `close`;
- `AsyncioMember` (`asyncio_member.py`): an event loop; `open`, `publish`, `receive_batch`, `close`, all awaited.

All of them carry bytes; a member never looks into a payload. What is published when, what is counted and what is
checked is the same for every system (`session.py`, `plan.py`, `tally.py`). A system with a server also has a function
`server_command(port, folder, variant)`; the benchmark starts it, counts its CPU time and stops it (`server.py`).
"""
