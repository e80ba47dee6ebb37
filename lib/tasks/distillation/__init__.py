"""Classification of whole documents, learnt from labels and from another model."""
