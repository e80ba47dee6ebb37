"""Word vectors: training, import, storage, analogies and neighbours."""
