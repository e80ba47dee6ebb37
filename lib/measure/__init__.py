"""What mechanisms, training and preparation cost, and how near FAVOR+ and LSH come to exact attention.

`attention_cost`, `training_cost`, `approximation`, `preparation_cost` and `tokenizer_cost` measure; `cost_figures` and
`approximation_figures` draw, `summaries` and `page` sum up, from tables alone.
"""
