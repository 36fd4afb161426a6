"""One run: from its row to its measurements, on the kernel that fits it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from vcubeps.sim.kernel import churn_amended, churn_published, srpt, storm, vcube
from vcubeps.sim.measurements import Measurements
from vcubeps.sim.network import Acks, Delays, Preset
from vcubeps.sim.parameters import Parameters
from vcubeps.sim.scenarios import VCUBE, Run
from vcubeps.sim.trace import Trace
from vcubeps.sim.workload import Workload
from vcubeps.sim.workloads import build


def simulate(run: Run, *, trace: bool = False) -> tuple[Measurements, Trace | None]:
    """The answer depends on `run` alone."""
    workload, delays = build(run), delays_of(run.point.parameters)
    if run.point.system != VCUBE:
        return srpt.run(workload, delays, run.seed, trace=trace)
    return _vcube(run, workload, delays, trace)


def _vcube(run: Run, workload: Workload, delays: Delays, trace: bool) -> tuple[Measurements, Trace | None]:
    protocol = str(run.point.parameters.get("protocol", "amended"))
    ordered = run.point.parameters.get("order", "causal") == "causal"
    if len(workload.change_ut):
        if protocol == "amended":
            return churn_amended.run(workload, delays, run.seed, trace=trace)
        return churn_published.run(workload, delays, run.seed, prune=protocol == "published", trace=trace)
    if not ordered and not trace and storm.is_storm(workload):
        return storm.run(workload, delays, run.seed, protocol=protocol), None
    return vcube.run(workload, delays, run.seed, protocol=protocol, ordered=ordered, trace=trace)


def delays_of(parameters: Parameters) -> Delays:
    return Delays(
        preset=cast(Preset, parameters["preset"]),
        transmission_ut=int(parameters["transmission_ut"]),
        propagation_ut=int(parameters["propagation_ut"]),
        processing_ut=int(parameters["processing_ut"]),
        acks=cast(Acks, parameters["acks"]),
    )


def kernel_of(run: Run, *, trace: bool = False) -> str:
    """The module of `kernel` whose compiled loop a run needs."""
    parameters = run.point.parameters
    if run.point.system != VCUBE:
        return "srpt_churn" if parameters.get("churn") else "srpt_static"
    if parameters.get("churn"):
        return "churn_amended" if parameters["protocol"] == "amended" else "churn_published"
    if parameters.get("order") == "none" and not trace and storm.is_storm(build(run)):
        return "storm"
    return "vcube_static"


def is_compiled(kernel: str) -> bool:
    """Whether a kernel's compiled form is kept on disk."""
    kept = Path(storm.simulate._cache.cache_path)  # numba has no public way to ask
    return any(kept.glob(f"{kernel}.*.nbi"))
