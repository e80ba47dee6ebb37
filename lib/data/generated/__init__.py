"""Corpora made from nothing, for the demo and for tests, in the raw formats of the real ones: a module for each.

Every module of this folder is a generator, and its name is that of the corpus. It defines

- `FILES` and `GROUND_TRUTH`: names of the raw files and of their ground truth, by part, in dataset order;
- `make(documents, rng)`: the content of every such file by its name, the columns of a Parquet table or bytes.

`lib.core.generated` finds the generators and lists their files, so a generator imports no library. It is imported by
its name at run time, so that adding one leaves the code of the others as it is. `lib.data.sources` fetches real
corpora.
"""
