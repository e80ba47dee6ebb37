"""Word vectors, as they came before transformers: trained or read, stored, and asked for analogies and neighbours."""
