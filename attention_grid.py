"""The package by the name that it has where it is installed; in a clone, `lib` takes the place of this module."""

import sys

import lib

if sys.modules.get("attention_grid") is not lib:
    raise ImportError(f"attention_grid: its code is called lib, but that is {lib!r}. Put the clone first on the path.")

if __name__ == "__main__":
    from lib.__main__ import main

    main()
