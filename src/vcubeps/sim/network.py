"""The delay model of the paper's section 4: what one message costs on its way from node to node.

Time is an integer number of units (u.t.). Each node has one transmitter that serves its copies one
after the other; a copy then crosses the link and is processed at the other end. Nothing here knows
what is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vcubeps.mixing import mix64

Preset = Literal["literal", "calibrated"]
Acks = Literal["free", "queued"]


@dataclass(frozen=True, slots=True)
class Delays:
    """What a copy costs; all times in u.t."""

    preset: Preset = "literal"
    """literal: the paper's text, so the k-th copy of a burst costs k·t_t + t_pp + t_pc. calibrated: what
    the published numbers imply: no t_pc, the first copy leaves in the tick in which it is queued, and
    t_pp is one less with probability ½."""
    transmission_ut: int = 1
    """t_t: time to put one copy on the link; the transmitter is busy so long."""
    propagation_ut: int = 100
    """t_pp: time to cross the link."""
    processing_ut: int = 1
    """t_pc: time to process a copy that has arrived; a pure delay, nodes process any number at once."""
    acks: Acks = "free"
    """Whether acknowledgements pass through the transmitter like copies (queued) or not (free)."""

    @property
    def wait_ut(self) -> int:
        """From the moment the transmitter turns to a copy until the copy is on the link."""
        return self.transmission_ut if self.preset == "literal" else 0

    @property
    def flight_ut(self) -> int:
        """From the moment a copy is on the link until it is processed, at the longest."""
        return self.propagation_ut + (self.processing_ut if self.preset == "literal" else 0)

    @property
    def jitters(self) -> bool:
        """Whether half of the copies, by `coin`, arrive one unit earlier."""
        return self.preset == "calibrated"


def coin(seed: int, source: int, sequence: int, destination: int, is_ack: bool) -> int:
    """0 or 1, a fair hash of which copy it is: the same copy has the same luck in every implementation.

    `source` and `sequence` name the broadcast that the copy (or the acknowledgement) belongs to.
    """
    x = seed * 0x9E3779B97F4A7C15 + source * 0xD1B54A32D192ED03 + sequence * 0x8CB92BA72F3D8DD7
    x += destination * 0xA24BAED4963EE407 + is_ack * 0x9FB21C651E98DF25
    return (mix64(x) >> 40) & 1


class Transmitters:
    """The transmitters of all nodes: when each copy arrives, and how long the queues are."""

    __slots__ = ("_busy_until", "_delays", "_seed")

    def __init__(self, delays: Delays, seed: int, nodes: int) -> None:
        self._delays = delays
        self._seed = seed
        self._busy_until = [0] * nodes

    def send(
        self, now: int, node: int, destination: int, source: int, sequence: int, *, is_ack: bool, queued: bool
    ) -> int:
        """When a message that `node` sends now arrives; ⟨source, sequence⟩ is the broadcast it belongs to."""
        delays = self._delays
        turn = now
        if queued:
            turn = max(now, self._busy_until[node])
            self._busy_until[node] = turn + delays.transmission_ut
        early = coin(self._seed, source, sequence, destination, is_ack) if delays.jitters else 0
        return turn + delays.wait_ut + delays.flight_ut - early

    def queue_length(self, now: int, node: int) -> int:
        """Copies of `node` that are not on their links yet, the one being transmitted included."""
        return -(-(self._busy_until[node] - now) // self._delays.transmission_ut)
