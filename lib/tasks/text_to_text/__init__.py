"""Classification of whole documents by writing the name of a class."""
