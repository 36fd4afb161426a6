"""The entry point of a member's process."""

from __future__ import annotations

import importlib
import os
import threading
import traceback
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait

from peers.board import Board
from peers.place import Place
from peers.plan import Workload
from peers.session import Session


def run_member(module: str, place: Place, workload: Workload, board: Board, parent: Connection) -> None:
    """Take part in one run and send the parent a `Report`, or the text of the error that ended it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        member = importlib.import_module(module).Member(place)
        member.run(Session(place.me, workload, board), parent.send)
    except Exception:
        parent.send(traceback.format_exc())


def _end_with_parent() -> None:
    """Leave nothing behind when the parent is killed."""
    starter = parent_process()
    assert starter is not None
    wait([starter.sentinel])
    os._exit(1)
