"""The cost of predictions, of a predictor whose cost is known."""

import time

import pytest

from lib.analysis.computations.prediction_cost import WARM_UP, prediction_cost


@pytest.mark.extended
def test_prediction_cost_of_known_times():
    calls = []

    def predict(texts):
        """Compute for 2 ms per text, 40 ms for the slow one, and 5 ms per call."""
        calls.append(len(texts))
        end = time.process_time() + sum(0.04 if text == "slow" else 0.002 for text in texts) + 0.005
        while time.process_time() < end:
            pass

    cost = prediction_cost(predict, ["slow", *["fast"] * 119])
    assert cost["documents"] == 120
    # 119 * 2 + 40 + 5 ms, and what the loop adds.
    assert cost["documents_per_second"] == pytest.approx(120 / 0.283, rel=0.1)
    assert 7 <= cost["latency_p50_ms"] <= cost["latency_p99_ms"]
    assert calls[: WARM_UP + 1] == [1] * WARM_UP + [WARM_UP]
    assert calls.count(120) >= 3
    assert calls.count(1) == WARM_UP + 120
