"""Random schedules against the protocol's promises: seeded, replayable, shrinkable."""

from vcubeps.sim.explore.campaigns import CampaignResult, schedule_seed
from vcubeps.sim.explore.checkers import CHECKER_NAMES, Violation
from vcubeps.sim.explore.explore import Outcome, campaign, run_operations, run_schedule
from vcubeps.sim.explore.operations import Operation
from vcubeps.sim.explore.options import Allowed, Options, draw_options
from vcubeps.sim.explore.schedule import draw_operations

__all__ = [
    "CHECKER_NAMES",
    "Allowed",
    "CampaignResult",
    "Operation",
    "Options",
    "Outcome",
    "Violation",
    "campaign",
    "draw_operations",
    "draw_options",
    "run_operations",
    "run_schedule",
    "schedule_seed",
]
