"""Corpora made from nothing: a module for each generator.

Some imitate a real corpus, in its raw format, for the demo and for tests; others make toy tasks whose answers are
known, from which `lib.preparing.toys` tells what they share. Every module of this folder is a generator. It defines

- `FILES`: names of the raw files by part, in dataset order, and `GROUND_TRUTH`, those of their labels, if others;
- `Options(GeneratorOptions)`: typed options, if it has any; no torch, since the workflow reads them;
- `group_names(options)`: names of the numbers in `group`, in order from 0, if they are not quantities;
- `make(documents, rng, options)`: the content of every such file by its name, the columns of a Parquet table (`text`,
  `label`, maybe `group`) or bytes.

`lib.preparing.generators` finds the generators and lists their files, so a generator imports no heavy library. It is
imported by its name at run time, so that adding one leaves the code of the others as it is. `lib.reading.downloads`
fetches real corpora.
"""
