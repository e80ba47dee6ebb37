"""The recurrent encoder: layers that read a document in one direction or in both, and their models with a head."""
