"""Use of finished runs: predictions for new documents, by any model of any study."""
