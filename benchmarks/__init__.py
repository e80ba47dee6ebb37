"""What mechanisms, layers and training cost, and how near FAVOR+ and LSH come to exact attention.

A program measures the table that it is named after: `attention_cost`, `training_cost` and `adaptation_cost` by the
harness in `comparison`. `figures` draws and `summaries` sums up, from tables alone, and `cost_page` puts summaries
into a page. The other modules are shared: `options` and `tables` by all programs, `cost` has repetitions, memory and
operations, `compared` lists compared rows, `implementations` prepares mechanisms.
"""
