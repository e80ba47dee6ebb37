"""Use of what runs left: predictions for new documents, by any model of any study."""
