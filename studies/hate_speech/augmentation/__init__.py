"""Copies of documents with some words replaced: one module per way to choose replacements.

A way is a module with `class Rewriter`, made from the settings of the augmentation, the files of its source, and a
device. It is imported by its name at run time, so that the code of one way is not part of the digest of a dataset that
takes another depends on.
"""
