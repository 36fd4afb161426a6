"""Chaos on real processes: a seeded plan of faults, carried out on a cluster under load, and judged.

    faults.py      the names of what may happen
    plan.py        a seed → when what happens to whom. Pure.
    proxies.py     every connection between two nodes passes here, or does not
    reports.py     what a node's process and the conductor say to each other
    application.py what runs in a node's process: a node, and an application that publishes, reads, comes and goes
    fleet.py       the processes: started, killed, stopped, continued, ended
    conductor.py   carries the plan out, and writes down what happens
    record.py      what was written down
    recovery.py    how long it took until all went on. Pure.
    judge.py       what should not have happened. Pure.

The audit of the traces is not made here: it needs Spark, and `vcubeps.cli.chaos` asks for it.
"""
