"""What mechanisms, layers and training cost, and how near FAVOR+ and LSH come to exact attention.

A module measures the tables that it is named after: `attention_cost`, `training_cost` and `adaptation_cost` by the
harness in `comparison`; `encoder_cost`, `length_cost`, `approximation`, `kernels`, `busy_cost`, `linear_cost`,
`scan_cost` and `windowed_cost`; `grid_hours` from `training_steps` and `estimates`. `cost` has time, memory and
operations, `compared` lists compared rows, `implementations` prepares mechanisms, and `tables` has the columns.
`figures` draws and `summaries` sums up, from tables alone.
"""
