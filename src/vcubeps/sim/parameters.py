"""The parameters of scenarios: names, units, ranges, and how a user writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import TypeAlias

from vcubeps.cube import MAX_DIMENSION

Value: TypeAlias = int | float | str
Parameters: TypeAlias = Mapping[str, Value]


class ParameterError(ValueError):
    """A parameter that cannot be used; the text is one sentence that names the value, the limit and the fix."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """What one parameter means and which values it takes."""

    meaning: str
    default: Value
    unit: str = ""
    low: float = 0
    high: float = 0
    """Both ends of its range; unused where there are `choices`."""
    choices: tuple[str, ...] = ()
    is_share: bool = False
    """Up to 1 it is a share of the nodes, from 2 on a number of nodes."""

    def parse(self, name: str, text: str) -> Value:
        """The value that `text` says.

        >>> PARAMETERS["nodes"].parse("nodes", "64"), PARAMETERS["subscribers"].parse("subscribers", "25%")
        (64, 0.25)
        """
        if self.choices:
            if text not in self.choices:
                raise ParameterError(
                    f"{name} is one of {', '.join(self.choices)}, got {text[:40]!r}: choose one"
                )
            return text
        written = _NUMBER.fullmatch(text)
        if written is None or (written["percent"] and not self.is_share):
            raise ParameterError(f"{name} is {self.range()}, got {text[:40]!r}: give one")
        number = float(written["number"])
        if written["percent"]:
            if number > 100:
                raise ParameterError(f"{name}={text} is more than everyone: give at most 100%")
            number /= 100
        return self.check(name, number)

    def range(self) -> str:
        """The values it takes, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.is_share:
            return f"a share up to 1 or 100% (1 is everyone), or a number of nodes from 2 to {self.high:.0f}"
        return f"a number from {self.low:.10g} to {self.high:.10g}"

    def check(self, name: str, number: float) -> Value:
        if not self.low <= number <= self.high or (self.is_share and number == 0):
            raise ParameterError(f"{name} is {self.range()}, got {number:.10g}: give a value in that range")
        if self.is_share and number <= 1:
            return float(number)
        if isinstance(self.default, float) and not self.is_share:
            return float(number)
        if number != int(number):
            whole = "a share of at most 1 or a whole number" if self.is_share else "a whole number"
            raise ParameterError(f"{name} is {whole}, got {number:g}: round it")
        return int(number)


_NODES_MAX = 1 << MAX_DIMENSION
_NUMBER = re.compile(r"(?P<number>[0-9]{1,12}(\.[0-9]{1,12})?|\.[0-9]{1,12})(?P<percent>%?)")

PARAMETERS: Mapping[str, Parameter] = MappingProxyType(
    {
        "nodes": Parameter("nodes of the cube; a power of two", 64, "nodes", 2, _NODES_MAX),
        "subscribers": Parameter(
            "who subscribes to a topic, chosen at random", 1.0, "of the nodes", 0, _NODES_MAX,
            is_share=True,
        ),
        "publishers": Parameter(
            "who publishes, chosen at random among the subscribers", 1.0, "of the nodes", 0,
            _NODES_MAX, is_share=True,
        ),
        "messages": Parameter("publications in all", 64, "publications", 1, 1 << 20),
        "window_ut": Parameter("first publications are spread over so much time", 1000, "u.t.", 1, 10**7),
        "interval_ut": Parameter("from a publication of a node to its next", 500, "u.t.", 1, 10**7),
        "topics": Parameter("topics", 1, "topics", 1, 4096),
        "distribution": Parameter("how publications spread over topics", "uniform", choices=("uniform", "zipf")),
        "zipf_exponent": Parameter("exponent of the Zipf distribution", 0.825, "", 0, 10),
        "questions": Parameter(
            "initial publications; the others answer once they have delivered as many, 0: nobody answers", 0,
            "publications", 0, 1 << 16,
        ),
        "answer_wait_ut": Parameter("answers come up to so much later, at random", 100, "u.t.", 1, 10**7),
        "churn": Parameter("share of the subscribers that leaves, and is replaced, each time", 0.0, "share", 0, 0.9),
        "churn_interval_ut": Parameter("from one wave of leaves to the next", 3000, "u.t.", 1, 10**7),
        "churn_gap_ut": Parameter("from a wave of leaves to the joins that replace them", 500, "u.t.", 0, 10**7),
        "brokers": Parameter("brokers of SRPT-B; a power of two; 0: leave SRPT-B out", 0, "brokers", 0, _NODES_MAX),
        "protocol": Parameter(
            "of VCube-PS: this project's, the paper's, or the paper's with barriers that are never pruned",
            "amended", choices=("amended", "published", "unpruned"),
        ),
        "order": Parameter(
            "of VCube-PS: keep causal barriers, or none (faster; a reception is a delivery)", "causal",
            choices=("causal", "none"),
        ),
        "preset": Parameter(
            "delays by the paper's text, or as its numbers imply", "literal", choices=("literal", "calibrated")
        ),
        "acks": Parameter("acknowledgements pass by the send queues, or through them", "free",
                          choices=("free", "queued")),
        "transmission_ut": Parameter("t_t: to put a copy on the link", 1, "u.t.", 1, 10**5),
        "propagation_ut": Parameter("t_pp: to cross the link", 100, "u.t.", 1, 10**5),
        "processing_ut": Parameter("t_pc: to process a copy that has arrived", 1, "u.t.", 0, 10**5),
    }
)  # fmt: skip


def lookup(name: str, known: Mapping[str, object]) -> str:
    """`name`, if it is known; otherwise an error that suggests the one that may be meant."""
    if name in known:
        return name
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"choose among {', '.join(known)}"
    raise ParameterError(f"{name[:40]!r} is unknown: {hint}")


def count_of(name: str, value: Value, among: int) -> int:
    """How many nodes a share or a number of nodes means.

    >>> count_of("subscribers", 0.25, 64), count_of("subscribers", 10, 64), count_of("publishers", 0.001, 64)
    (16, 10, 1)
    """
    assert not isinstance(value, str)
    if value <= 1:
        return max(1, round(value * among))
    if value > among:
        raise ParameterError(f"{name}={value} is more than the {among} there are: give at most {among}")
    return int(value)
