"""Memory of an idle node, and of one more subscribed topic with 1,000 members.

    python benchmarks/memory.py

An idle node is a process with `vcubeps node`: bare, with its gateway, and with its gateway and a trace. A topic's
memory is taken at a node of a cluster of 1,000 that subscribes to many topics which all others are in: the
acknowledgements that build its view go through the wire's decoder, as they would from the network.
"""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from vcubeps.node.wire import Wire
from vcubeps.protocol import Peer
from vcubeps.protocol.messages import Ack, Report

NODES, TOPICS = 1000, 200
IDLE_MB, TOPIC_KB = 60, 300


def resident_bytes(process: int | str = "self") -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * 4096


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def idle_node_bytes(gateway: bool, trace: bool) -> int:
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "cluster.toml")
        lines = ['cluster = "idle"', 'state_dir = "state"', *(['trace_dir = "trace"'] if trace else [])]
        lines += ["[[nodes]]", "id = 0", f'address = "127.0.0.1:{free_port()}"']
        lines += [f'gateway = "127.0.0.1:{free_port()}"'] if gateway else []
        file.write_text("\n".join(lines))
        command = [sys.executable, "-m", "vcubeps", "node", "--config", str(file), "--id", "0"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if "is up" in line:
                    break
            else:
                sys.exit("the node did not come up")
            used = resident_bytes(process.pid)
            process.terminate()
        return used


def topic_bytes() -> float:
    peer, wire = Peer(0, range(NODES)), Wire()
    peer.start()

    def join(name: str) -> None:
        for send in peer.subscribe(name):
            copy = send.message
            reports = {
                member: Report(peer.node + member + 1, 0, is_member=True) for member in copy.recipients
            }
            ack = wire.decode(wire.encode(Ack(0, 0, copy.hop, reports, repaired=False, dead={}, clock=0)))
            peer.receive(send.destination, ack)
        assert len(peer.members(name)) == NODES

    join("the first, which costs what comes once")
    gc.collect()
    before = resident_bytes()
    for number in range(TOPICS):
        join(f"topic-{number}")
    gc.collect()
    return (resident_bytes() - before) / TOPICS


if __name__ == "__main__":
    bare, gateway = idle_node_bytes(False, False) / 1e6, idle_node_bytes(True, False) / 1e6
    traced = idle_node_bytes(True, True) / 1e6
    topic = topic_bytes() / 1e3
    print(
        f"idle node: {bare:.1f} MB; with its gateway {gateway:.1f} MB (limit {IDLE_MB}); with a trace {traced:.1f} MB"
    )
    print(f"a topic with {NODES:,} members: {topic:.0f} KB (limit {TOPIC_KB})")
    sys.exit(0 if gateway <= IDLE_MB and topic <= TOPIC_KB else 1)
