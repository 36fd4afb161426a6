"""The budget of a gateway's work in each turn of the loop: how much is done in one, in which order, and who waits."""

import asyncio
from collections import deque

from vcubeps.net.gateway.turns import GRANT_BYTES, TURN_BYTES, Turns


class Loop:
    """Turns of a loop, one at a time."""

    def __init__(self) -> None:
        self._soon = deque()

    def call_soon(self, function) -> None:
        self._soon.append(function)

    def turn(self) -> bool:
        """Whether there was anything to do."""
        due, self._soon = self._soon, deque()
        for function in due:
            function()
        return bool(due)


class Writer:
    def __init__(self, name, cost, wrote, turns=None, more=0) -> None:
        self.name, self.cost, self._wrote, self._turns, self._more = name, cost, wrote, turns, more

    def go(self) -> None:
        self._wrote.append(self.name)
        if self._more:
            self._more -= 1
            self._turns.enter((self,))


def test_small_writes_are_granted_until_the_budget_of_the_turn_is_spent_and_the_rest_in_the_next():
    loop, wrote = Loop(), []
    turns = Turns(loop.call_soon)
    per_turn = TURN_BYTES // GRANT_BYTES

    turns.enter(Writer(number, 0, wrote) for number in range(3 * per_turn - 1))

    counts = [len(wrote)]
    while loop.turn():
        counts.append(len(wrote))
    assert counts == [per_turn, 2 * per_turn, 3 * per_turn - 1, 3 * per_turn - 1]
    assert wrote == list(range(3 * per_turn - 1))


def test_a_write_larger_than_the_budget_has_a_turn_to_itself():
    loop, wrote = Loop(), []
    turns = Turns(loop.call_soon)

    turns.enter(Writer(number, 2 * TURN_BYTES, wrote) for number in range(3))

    counts = [len(wrote)]
    while loop.turn():
        counts.append(len(wrote))
    assert counts == [1, 2, 3, 3]


def test_who_has_more_waits_behind_all_others():
    loop, wrote = Loop(), []
    turns = Turns(loop.call_soon)
    eager = Writer("eager", TURN_BYTES, wrote, turns, more=2)

    turns.enter((eager, Writer("a", TURN_BYTES, wrote), Writer("b", TURN_BYTES, wrote)))
    while loop.turn():
        pass

    assert wrote == ["eager", "a", "b", "eager", "eager"]


def test_nothing_is_scheduled_while_nobody_has_anything_to_do():
    loop, wrote = Loop(), []
    turns = Turns(loop.call_soon)

    turns.enter((Writer("only", 1, wrote),))

    assert loop.turn()
    assert not loop.turn()


def test_a_task_goes_on_at_once_while_there_is_budget_and_waits_its_turn_when_there_is_none():
    async def main():
        loop, wrote = Loop(), []
        turns = Turns(loop.call_soon)

        async def write(name, cost):
            await turns.wait(cost)
            wrote.append(name)

        at_once = write("first", TURN_BYTES).__await__()
        finished = next(at_once, None) is None and wrote == ["first"]
        late = [asyncio.create_task(write(name, TURN_BYTES)) for name in ("second", "third")]
        await asyncio.sleep(0)
        seen = [list(wrote)]
        for _ in range(2):
            loop.turn()
            await asyncio.sleep(0)
            seen.append(list(wrote))
        await asyncio.gather(*late)
        return finished, seen

    finished, seen = asyncio.run(main())

    assert finished
    assert seen == [["first"], ["first", "second"], ["first", "second", "third"]]


def test_a_task_that_was_cancelled_while_it_waited_takes_nobodys_turn():
    async def main():
        loop = Loop()
        turns = Turns(loop.call_soon)
        await turns.wait(TURN_BYTES)
        gone, stays = (asyncio.create_task(turns.wait()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        loop.turn()
        await stays
        return gone.cancelled()

    assert asyncio.run(main())
