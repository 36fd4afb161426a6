"""A question-and-answer group in which an answer never shows before its question.

    python examples/questions.py [--nodes 5] [--questions 20]

Every node asks, every node answers what it reads, and every node checks what it sees. Without causal order a node that
is far from the one who asked would now and then see the answer first.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

import vcubeps


async def take_part(node: vcubeps.Node, questions: int) -> tuple[int, int]:
    """Ask and answer; returns how many answers this node saw, and how many of them before their question."""
    async with node.subscribe("help", codec="json") as group:
        while len(group.members) < len(node.nodes):  # everybody shall see everything
            await asyncio.sleep(0.01)
        seen: set[tuple[int, int]] = set()
        answers = early = 0
        expected = questions * len(node.nodes) * (len(node.nodes) - 1)
        for number in range(questions):
            await group.publish({"ask": f"question {number} of node {node.id}?"})
        async for message in group:
            post = message.value
            if "ask" in post:
                seen.add((message.source, message.counter))
                if message.source != node.id:
                    await group.publish({"answer": "yes", "to": [message.source, message.counter]})
            else:
                answers += 1
                early += tuple(post["to"]) not in seen
                if node.id == 0 and answers % 50 == 1:
                    print(f"node {message.source} answered {post['to']}, after {message.after}")
            if answers == expected:
                return answers, early
    raise AssertionError("the group ended before all answers had come")


async def main(nodes: int, questions: int) -> int:
    async with vcubeps.LocalCluster(nodes) as cluster:
        results = await cluster.run(take_part, questions)
    answers, early = map(sum, zip(*results, strict=True))
    print(f"{nodes} nodes saw {answers} answers, {early} of them before the question")
    return 1 if early else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An answer never shows before its question.")
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--questions", type=int, default=20, help="that each node asks")
    arguments = parser.parse_args()
    sys.exit(asyncio.run(main(arguments.nodes, arguments.questions)))
