"""Classification of whole documents."""
