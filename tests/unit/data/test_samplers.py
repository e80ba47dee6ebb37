import math

import numpy as np
import pytest

from lib.data.samplers import KeyedSampler, LengthGroupedSampler, Share

LENGTHS = np.random.default_rng(0).integers(5, 500, 1003)


def grouped(seed=0, batch_size=8, epoch=0):
    sampler = LengthGroupedSampler(LENGTHS, batch_size, seed)
    sampler.set_epoch(epoch)
    return sampler


@pytest.mark.parametrize("sampler", [KeyedSampler(1003, 0), grouped(), grouped(batch_size=2000), grouped(batch_size=1)])
def test_every_document_comes_once_with_its_epoch(sampler):
    sampler.set_epoch(3)
    keys = list(sampler)
    assert {epoch for epoch, _ in keys} == {3}
    assert sorted(index for _, index in keys) == list(range(1003))
    assert len(sampler) == 1003


@pytest.mark.parametrize("make", [lambda seed: KeyedSampler(1003, seed), grouped])
def test_the_order_is_a_function_of_seed_and_epoch(make):
    sampler, orders = make(0), []
    for epoch in (0, 1, 0):
        sampler.set_epoch(epoch)
        orders.append([index for _, index in sampler])
    assert orders[0] == orders[2]
    assert orders[0] != orders[1]
    assert [index for _, index in make(1)] != orders[0]


def test_a_running_epoch_does_not_change_when_the_next_is_set():
    sampler = KeyedSampler(50, 0)
    running = iter(sampler)
    sampler.set_epoch(1)
    assert {epoch for epoch, _ in running} == {0}


def batches_of_keys(sampler, size):
    keys = list(sampler)
    return [keys[i : i + size] for i in range(0, len(keys), size)]


def batches(sampler, size):
    return [[index for _, index in keys] for keys in batches_of_keys(sampler, size)]


def test_batches_hold_similar_lengths():
    spread = np.mean([np.ptp(LENGTHS[batch]) for batch in batches(grouped(), 8)])
    chance = np.mean([np.ptp(LENGTHS[batch]) for batch in batches(KeyedSampler(1003, 0), 8)])
    assert spread < chance / 5


def test_the_longest_comes_first_and_the_part_batch_last():
    for epoch in range(3):
        made = batches(grouped(epoch=epoch), 8)
        assert max(LENGTHS[made[0]]) == max(LENGTHS[index] for batch in made[:-1] for index in batch)
        assert [len(batch) for batch in made] == [8] * 125 + [3]


def test_batches_are_not_in_the_order_of_length():
    means = [LENGTHS[batch].mean() for batch in batches(grouped(), 8)]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.3


def test_membership_differs_between_epochs():
    first = {frozenset(batch) for batch in batches(grouped(epoch=0), 8)}
    second = {frozenset(batch) for batch in batches(grouped(epoch=1), 8)}
    assert len(first & second) < 5


def test_nothing_to_sample_is_fine():
    assert list(LengthGroupedSampler([], 4, 0)) == []


@pytest.mark.parametrize("documents", [1, 2, 6, 7, 100, 1003])
@pytest.mark.parametrize(
    ("batch_size", "micro_batch", "count"),
    [(8, 8, 1), (8, 2, 1), (8, 2, 2), (7, 1, 2), (7, 2, 2), (7, 4, 2), (9, 3, 4)],
)
def test_processes_share_every_batch(documents, batch_size, micro_batch, count):
    """Together they see each batch; all have as many micro-batches of it, and as many documents but for one."""
    order = KeyedSampler(documents, 0)
    shares = [Share(order, batch_size, micro_batch, index, count) for index in range(count)]
    for share in shares:
        share.set_epoch(2)
    parts = [list(share) for share in shares]
    assert {len(part) for part in parts} == {len(share) for share in shares} == {len(parts[0])}
    steps = math.ceil(math.ceil(batch_size / count) / micro_batch)  # micro-batches of a whole batch
    for number, batch in enumerate(batches_of_keys(order, batch_size)):
        start = number * steps * micro_batch
        own = [[key for key in part[start : start + steps * micro_batch] if key] for part in parts]
        assert sorted(key for part in own for key in part) == sorted(batch)
        assert max(map(len, own)) - min(map(len, own)) <= 1
