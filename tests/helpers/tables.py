"""Tables in the formats that a study may read."""


def write_table(frame, path):
    """Write a table as pandas does, in the format that the suffix names, and return the path."""
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path
