"""What mechanisms, layers and training cost, and how near FAVOR+ and LSH come to exact attention.

Most modules measure the table that they are named after: `attention_cost`, `training_cost` and `adaptation_cost` by the
harness in `comparison`; `encoder_cost`, `busy_cost`, `linear_cost`, `scan_cost` and `windowed_cost`; `grid_hours` from
`training_steps` and `estimates`. `length_cost` measures `sequence_cost` and `memory_cost`, `approximation` measures
`favor_error` and `lsh_recall`, and `kernels` measures `kernel_resources`, `kernel_times` and `kernel_sweep`. `cost` has
time, memory and operations, `compared` lists compared rows, `implementations` prepares mechanisms, and `tables` has the
columns. `figures` draws and `summaries` sums up, from tables alone.
"""
