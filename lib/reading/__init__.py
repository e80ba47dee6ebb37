"""Files of strangers to records: formats, tables, labels, and what is fetched from elsewhere."""
