"""Classification of whole documents by generating the name of a class."""
