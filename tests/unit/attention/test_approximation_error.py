"""Errors and windows, by matrices made by hand."""

import pytest
import torch

from lib.attention.approximation_error import chunk_numbers, relative_error, window_mass


def test_relative_error_of_each_head():
    exact = torch.tensor([[[3.0, 0.0], [0.0, 4.0]], [[1.0, 0.0], [0.0, 0.0]]])
    assert relative_error(exact, exact).tolist() == [0, 0]
    assert relative_error(torch.zeros(2, 2, 2), exact).tolist() == pytest.approx([1, 1])
    moved = exact + torch.tensor([[0.0, 0.5], [0.0, 0.0]])
    assert relative_error(moved, exact).tolist() == pytest.approx([0.5 / 5, 0.5])


def test_relative_error_of_one_row_for_all():
    exact = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    # Off by half in each of four places, over the square root of two.
    assert relative_error(exact.mean(0), exact).item() == pytest.approx(1 / 2**0.5)


def test_chunks_of_sorted_tokens():
    codes = torch.tensor([[3, 0, 3, 1, 0], [0, 0, 0, 0, 0]])
    # Sorted: tokens 1 4 | 3 0 | 2, and as they are.
    assert chunk_numbers(codes, 2).tolist() == [[1, 0, 2, 1, 0], [0, 0, 1, 1, 2]]


def test_mass_of_a_chunk_and_its_neighbours():
    weights = torch.tensor([[1.0, 2.0, 4.0, 8.0], [16.0, 32.0, 64.0, 128.0]])
    of_queries = torch.tensor([[0, 3], [3, 3]])
    of_keys = torch.tensor([[0, 1, 2, 3], [0, 1, 3, 2]])
    # First round: keys 0 and 1 of query 0, keys 2 and 3 of query 1. Second one: keys 2 and 3 of both.
    found = window_mass(weights, of_queries, of_keys, [1, 2])
    assert found.tolist() == [1 + 2 + 64 + 128, 1 + 2 + 4 + 8 + 64 + 128]
    assert found.dtype == torch.float64


def test_mass_of_each_head():
    weights = torch.stack([torch.full((2, 2), 1.0), torch.full((2, 2), 10.0)])
    chunks = torch.tensor([[[0, 5]], [[0, 1]]])
    assert window_mass(weights, chunks, chunks, [1]).tolist() == [[2], [40]]
