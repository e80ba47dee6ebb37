"""Copies of documents in which some words are others: one module for each way to choose these.

A way is a module with `class Rewriter`, made from the settings of the augmentation, the files of its source, and a
device. It is imported by its name at run time, so that what one way does is no part of what a dataset that takes
another depends on.
"""
