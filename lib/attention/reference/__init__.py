"""The truth of each mechanism, dense, in float64, one sequence and one head at a time: readable, not fast.

`<kind>.py` defines `reference(mechanism, query, key, value, attention_mask)`, which shares no arithmetic with the
mechanism and takes from it only its random draws, and `EXAMPLES`, small parameters that the contract suite runs. Used
by tests.
"""
