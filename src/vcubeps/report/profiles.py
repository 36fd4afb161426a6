"""How much is run: a first look within minutes, or the paper's sizes and numbers of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from vcubeps.sim.scenarios import Point


@dataclass(frozen=True, slots=True)
class Profile:
    """What a report covers; `dataclasses.replace(profile, runs=…)` for another number of runs."""

    name: str
    runs: int
    """Per point."""
    nodes_max: int
    """Of the paper's own experiments."""
    churn_nodes_max: int
    discussion_nodes_max: int
    """Beyond the paper."""
    storm_nodes_max: int
    """Beyond the paper: many publishers; 0 leaves the figure out."""
    brokers_nodes_max: int
    """Beyond the paper: brokers; 0 leaves the figure out."""
    single_nodes_max: int = 1 << 16
    """Beyond the paper: one publisher, which is cheap."""

    def runs_of(self, point: Point) -> int:
        """Fewer where a run takes seconds, which is only beyond the paper; more there would hardly change the mean."""
        nodes = int(point.parameters["nodes"])
        if point.scenario == "many-publishers" and nodes > 4096:
            return min(self.runs, 2 if nodes > 16384 else 3)
        if point.scenario == "discussion" and nodes > 1024:
            return min(self.runs, 3)
        return self.runs

    def covers(self, point: Point) -> bool:
        """Whether the paper's experiment at this point is run."""
        limit = self.churn_nodes_max if point.scenario == "churn" else self.nodes_max
        return int(point.parameters["nodes"]) <= limit


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            Profile(
                "quick", runs=5, nodes_max=1024, churn_nodes_max=1024, discussion_nodes_max=1024,
                storm_nodes_max=0, brokers_nodes_max=0,
            ),
            Profile(
                "paper", runs=40, nodes_max=4096, churn_nodes_max=2048, discussion_nodes_max=4096,
                storm_nodes_max=1 << 16, brokers_nodes_max=1 << 16,
            ),
        )
    }
)  # fmt: skip
