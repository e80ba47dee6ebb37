"""What mechanisms, layers, training and preparation cost, and how near FAVOR+ and LSH come to exact attention.

`attention_cost`, `sequence_cost`, `memory_cost`, `training_cost`, `adaptation_cost`, `approximation`,
`preparation_cost` and `tokenizer_cost` measure; `cost_figures`, `length_figures` and `approximation_figures` draw,
`summaries` and `page` sum up, from tables alone.
"""
