import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.tokens.batches import LengthGroupedSampler, Share, within_budget

LENGTHS = np.random.default_rng(0).integers(5, 500, 1003)


def grouped(seed=0, batch_size=8, epoch=0):
    sampler = LengthGroupedSampler(LENGTHS, batch_size, seed)
    sampler.set_epoch(epoch)
    return sampler


@pytest.mark.parametrize("sampler", [grouped(), grouped(batch_size=2000), grouped(batch_size=1)])
def test_sampler_with_every_document(sampler):
    sampler.set_epoch(3)
    keys = list(sampler)
    assert {epoch for epoch, _ in keys} == {3}
    assert sorted(index for _, index in keys) == list(range(1003))
    assert len(sampler) == 1003


def test_order_by_seed_and_epoch():
    sampler, orders = grouped(0), []
    for epoch in (0, 1, 0):
        sampler.set_epoch(epoch)
        orders.append([index for _, index in sampler])
    assert orders[0] == orders[2]
    assert orders[0] != orders[1]
    assert [index for _, index in grouped(1)] != orders[0]


def test_running_epoch_with_the_next_set():
    sampler = grouped()
    running = iter(sampler)
    sampler.set_epoch(1)
    assert {epoch for epoch, _ in running} == {0}


def batches_of_keys(sampler, size):
    keys = list(sampler)
    return [keys[i : i + size] for i in range(0, len(keys), size)]


def batches(sampler, size):
    return [[index for _, index in keys] for keys in batches_of_keys(sampler, size)]


def test_batches_of_similar_length():
    spread = np.mean([np.ptp(LENGTHS[batch]) for batch in batches(grouped(), 8)])
    chance = np.mean([np.ptp(LENGTHS[batch]) for batch in np.split(np.random.default_rng(0).permutation(1000), 125)])
    assert spread < chance / 5


def test_longest_batch_first_and_part_batch_last():
    for epoch in range(3):
        made = batches(grouped(epoch=epoch), 8)
        assert max(LENGTHS[made[0]]) == max(LENGTHS[index] for batch in made[:-1] for index in batch)
        assert [len(batch) for batch in made] == [8] * 125 + [3]


def test_batches_of_other_epochs():
    first = {frozenset(batch) for batch in batches(grouped(epoch=0), 8)}
    second = {frozenset(batch) for batch in batches(grouped(epoch=1), 8)}
    assert len(first & second) < 5


@pytest.mark.parametrize(
    ("documents", "batch_size", "budget", "count"),
    [(1003, 8, 8 * 500, 1), (1, 8, 600, 1), (1003, 8, 600, 2), (7, 7, 1, 2), (1003, 9, 900, 4)],
)
def test_shares_of_processes(documents, batch_size, budget, count):
    """Together they see each batch; all have as many micro-batches of it, and as many documents but for one."""
    order, lengths = LengthGroupedSampler(LENGTHS[:documents], 8, 0), LENGTHS.tolist()
    order.set_epoch(2)
    shares = [Share(order, lengths, batch_size, budget, index=index, count=count) for index in range(count)]
    for batch, *parts in zip(batches_of_keys(order, batch_size), *(share.batches() for share in shares), strict=True):
        assert len({len(part) for part in parts}) == 1
        own = [list(itertools.chain.from_iterable(part)) for part in parts]
        assert sorted(key for part in own for key in part) == sorted(batch)
        assert max(map(len, own)) - min(map(len, own)) <= 1
        for keys in itertools.chain.from_iterable(parts):
            tokens = max((lengths[index] for _, index in keys), default=0) * len(keys)
            assert tokens <= budget or len(keys) == 1
    for share in shares:
        assert list(share) == list(itertools.chain.from_iterable(share.batches()))


def test_share_after_a_pause():
    order = grouped(epoch=1)
    whole = list(Share(order, LENGTHS, 8, 1000).batches())
    assert list(Share(order, LENGTHS, 8, 1000, begun=3).batches()) == whole[3:]


@given(lengths=st.lists(st.integers(1, 900), max_size=60), budget=st.integers(1, 2000))
def test_batches_within_budget(lengths, budget):
    batches = list(within_budget(lengths, budget))
    assert [place for batch in batches for place in batch] == list(range(len(lengths)))
    for batch, after in itertools.zip_longest(batches, batches[1:]):
        assert len(batch) == 1 or len(batch) * max(lengths[place] for place in batch) <= budget
        if after is not None:
            assert (len(batch) + 1) * max(lengths[place] for place in [*batch, after[0]]) > budget
