"""The model of time: works add up, and the slower of host and device decides."""

import pytest

from gpukfl.selftest import Card, Work

CARD = Card("card", bandwidth=1e12, flops32=10e12, flops64=1e12, link=1e9, call=1e-5, wait=1e-4)


def test_works_add_up_and_repeat():
    work = Work(1, 2, 3, 4, 5, 6) + Work(10, 20, 30, 40, 50, 60).repeat(2)
    assert work == Work(21, 42, 63, 84, 105, 126)


@pytest.mark.parametrize(
    ("work", "seconds"),
    [
        (Work(moved=8e11), 1.0),  # four fifths of the bandwidth
        (Work(flops32=1e13), 1.0),
        (Work(flops64=1e12, flops32=1e13), 2.0),
        (Work(moved=8e11, flops64=5e11), 1.0),  # at the same time
        (Work(calls=1000), 0.01),
        (Work(calls=1000, moved=8e11), 1.0),  # the host is done before
        (Work(calls=2e5, moved=8e11), 2.0),
        (Work(waits=10, uploaded=1e9), 1.001),
        (Work(), 0.0),
    ],
)
def test_what_takes_how_long(work, seconds):
    assert CARD.seconds(work) == pytest.approx(seconds)


def test_arithmetic_is_compared_with_memory():
    assert CARD.arithmetic_share(Work(moved=8e11, flops64=2e12)) == pytest.approx(2.0)
