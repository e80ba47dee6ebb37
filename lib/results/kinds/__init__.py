"""Tables and figures, a module per subject; `lib.results.settings` says how a kind is found."""
