"""Places and the line before them: who runs, who waits, who is told to come back."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.bounds.admission import LEAST_RETRY_S, MOST_RETRY_S, Admission, Full
from tests.support.clock import FakeClock

S = 1_000_000_000


class Crowd:
    """Exchanges that come, hold their place until they are told to end, or leave; and what became of each."""

    def __init__(self, *, max_streams, max_queue=1_000, queue_timeout_s=60.0):
        self.clock = FakeClock()
        self.admission = Admission(
            self.clock, max_streams=max_streams, max_queue=max_queue, queue_timeout_s=queue_timeout_s
        )
        self.tasks = []
        self.running = {}
        self.admitted = []
        self.waited = []
        self.refused = {}
        self.most = 0

    def come(self):
        number = len(self.tasks)
        self.tasks.append(asyncio.ensure_future(self._exchange(number)))
        return number

    def end(self, number):
        self.running[number].set()

    def leave(self, number):
        self.tasks[number].cancel()

    async def _exchange(self, number):
        waiting_count = self.admission.waiting_count
        turns = []
        asyncio.get_running_loop().call_soon(turns.append, None)
        try:
            began_ns = await self.admission.enter()
        except Full as full:
            self.refused[number] = full
            return
        try:
            self.admitted.append(number)
            if turns:
                self.waited.append(number)
            else:
                assert not waiting_count
            self.running[number] = asyncio.Event()
            self.most = max(self.most, len(self.running))
            try:
                await self.running[number].wait()
            finally:
                del self.running[number]
        finally:
            self.admission.leave(began_ns)

    async def turn(self):
        for _ in range(4):
            await asyncio.sleep(0)

    async def go_home(self):
        for _ in self.tasks:
            for number in tuple(self.running):
                self.end(number)
            await self.turn()
        assert not self.running
        async with asyncio.timeout(5):
            ends = await asyncio.gather(*self.tasks, return_exceptions=True)
        assert not [end for end in ends if isinstance(end, Exception)]


async def test_so_many_run_and_the_next_waits_for_a_place():
    crowd = Crowd(max_streams=2)
    for _ in range(3):
        crowd.come()
    await crowd.turn()
    assert (set(crowd.running), crowd.admission.running_count, crowd.admission.waiting_count) == ({0, 1}, 2, 1)
    crowd.clock.advance(3 * S)
    crowd.end(1)
    await crowd.turn()

    assert (set(crowd.running), crowd.admission.running_count, crowd.admission.waiting_count) == ({0, 2}, 2, 0)
    assert (crowd.admission.admitted_count, crowd.admission.waited_ns) == (3, 3 * S)
    await crowd.go_home()


async def test_no_newcomer_overtakes_whoever_waits():
    crowd = Crowd(max_streams=1)
    crowd.come()
    crowd.come()
    await crowd.turn()
    crowd.end(0)
    crowd.come()
    await crowd.turn()

    assert crowd.admitted == [0, 1]
    await crowd.go_home()


async def test_without_a_limit_all_run_and_are_counted():
    crowd = Crowd(max_streams=0, max_queue=0)
    for _ in range(50):
        crowd.come()
    await crowd.turn()

    assert (len(crowd.running), crowd.admission.running_count) == (50, 50)
    await crowd.go_home()
    assert crowd.admission.running_count == 0


async def test_a_full_line_refuses_at_once():
    crowd = Crowd(max_streams=1, max_queue=2)
    for _ in range(4):
        crowd.come()
    await crowd.turn()

    assert {number: full.reason for number, full in crowd.refused.items()} == {3: "queue_full"}
    assert crowd.admission.full_count == 1
    await crowd.go_home()
    assert crowd.admitted == [0, 1, 2]


async def test_whoever_waits_too_long_is_refused_and_leaves_no_gap_in_the_line():
    crowd = Crowd(max_streams=1, queue_timeout_s=0.02)
    for _ in range(3):
        crowd.come()
    async with asyncio.timeout(5):
        while len(crowd.refused) < 2:
            await asyncio.sleep(0.005)

    assert {full.reason for full in crowd.refused.values()} == {"queue_timeout"}
    assert (crowd.admission.timeout_count, crowd.admission.waiting_count, crowd.admission.running_count) == (2, 0, 1)
    await crowd.go_home()


async def test_whoever_leaves_the_line_is_forgotten():
    crowd = Crowd(max_streams=1)
    for _ in range(3):
        crowd.come()
    await crowd.turn()
    crowd.leave(1)
    await crowd.turn()
    assert (crowd.admission.waiting_count, crowd.admission.left_count) == (1, 1)
    crowd.end(0)
    await crowd.turn()

    assert set(crowd.running) == {2}
    await crowd.go_home()


async def test_a_place_given_to_somebody_who_leaves_in_that_very_turn_goes_to_the_next():
    crowd = Crowd(max_streams=1)
    for _ in range(3):
        crowd.come()
    await crowd.turn()
    crowd.end(0)  # the place is handed over in the next turn, and before its owner can take it
    asyncio.get_running_loop().call_soon(crowd.leave, 1)
    await crowd.turn()

    assert crowd.admitted == [0, 2]
    assert crowd.admission.left_count == 1
    await crowd.go_home()
    assert crowd.admission.running_count == 0


async def test_whoever_leaves_in_the_turn_in_which_a_place_becomes_free_does_not_get_it():
    crowd = Crowd(max_streams=1)
    for _ in range(3):
        crowd.come()
    await crowd.turn()
    crowd.end(0)
    crowd.leave(1)
    await crowd.turn()

    assert crowd.admitted == [0, 2]
    assert (crowd.admission.running_count, crowd.admission.waiting_count) == (1, 0)
    await crowd.go_home()


async def test_a_place_that_is_given_back_is_free():
    admission = Admission(FakeClock(), max_streams=1, max_queue=0, queue_timeout_s=1)
    began_ns = await admission.enter()
    with pytest.raises(Full):
        await admission.enter()
    admission.leave(began_ns)

    assert admission.running_count == 0


class TestRetryAfter:
    async def test_until_something_has_ended_it_is_what_those_who_wait_are_granted(self):
        assert Crowd(max_streams=1, queue_timeout_s=9.1).admission.retry_after_s == 10

    async def test_then_it_is_the_pace_of_late_behind_all_who_wait(self):
        crowd = Crowd(max_streams=4)
        for _ in range(4):
            crowd.come()
        await crowd.turn()
        crowd.clock.advance(20 * S)
        for number in range(4):
            crowd.end(number)
        for _ in range(7):
            crowd.come()
        await crowd.turn()

        assert crowd.admission.waiting_count == 3
        assert crowd.admission.retry_after_s == 20  # 4 places of 20 s each free one in 5 s, and it would be the fourth
        await crowd.go_home()

    @pytest.mark.parametrize(("held_s", "retry_after_s"), [(0, LEAST_RETRY_S), (10_000, MOST_RETRY_S)])
    async def test_it_has_a_floor_and_a_ceiling(self, held_s, retry_after_s):
        crowd = Crowd(max_streams=1)
        crowd.come()
        await crowd.turn()
        crowd.clock.advance(held_s * S)
        await crowd.go_home()

        assert crowd.admission.retry_after_s == retry_after_s

    async def test_the_refusal_says_it(self):
        crowd = Crowd(max_streams=1, max_queue=0, queue_timeout_s=3)
        crowd.come()
        crowd.come()
        await crowd.turn()

        assert crowd.refused[1].retry_after_s == 3
        assert str(crowd.refused[1]) == "queue_full: no place for another exchange, try again in 3 s"
        await crowd.go_home()


steps = st.lists(st.tuples(st.sampled_from(["come", "come", "end", "leave", "turn"]), st.integers(0, 9)), max_size=60)


@given(st.integers(1, 4), st.integers(0, 5), steps)
def test_whatever_happens_never_more_run_than_may_and_no_place_is_lost(max_streams, max_queue, happenings):
    async def scenario():
        crowd = Crowd(max_streams=max_streams, max_queue=max_queue)
        loop = asyncio.get_running_loop()

        def happen(what, which):
            """In one turn of the loop with all that is called for until the next `turn`."""
            if what == "come":
                crowd.come()
            elif what == "end" and crowd.running:
                crowd.end(sorted(crowd.running)[which % len(crowd.running)])
            elif what == "leave" and crowd.tasks:
                crowd.leave(which % len(crowd.tasks))

        for what, which in happenings:
            if what == "turn":
                await crowd.turn()
                is_someone_waiting = crowd.admission.waiting_count > 0
                assert not is_someone_waiting or crowd.admission.running_count == max_streams
            else:
                loop.call_soon(happen, what, which)
                if which % 2:
                    await asyncio.sleep(0)
        await crowd.turn()
        await crowd.go_home()

        assert crowd.most <= max_streams
        assert crowd.waited == sorted(crowd.waited)
        assert (crowd.admission.running_count, crowd.admission.waiting_count) == (0, 0)
        assert crowd.admission.admitted_count == len(crowd.admitted)
        assert len(crowd.admitted) + crowd.admission.full_count + crowd.admission.left_count <= len(crowd.tasks)

    asyncio.run(scenario())
