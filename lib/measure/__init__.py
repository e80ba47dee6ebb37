"""What mechanisms, layers, training and preparation cost, and how near FAVOR+ and LSH come to exact attention.

A module measures the table that it is named after: `attention_cost`, `training_cost`, `adaptation_cost` (by the
harness in `comparison`), `sequence_cost`, `memory_cost`, `favor_error`, `lsh_recall`, `grid_hours` (from `steps`,
`estimates` and `study_steps`), `kernel_times`, `kernel_resources`, `preparation_cost` and `tokenizer_cost`. `cost` has
time, memory and operations, `implementations` what is compared, `tables` the columns. `cost_figures`, `length_figures`
and `approximation_figures` draw, `summaries` sums up, from tables alone. `survival` kills trainings.
"""
