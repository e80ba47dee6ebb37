"""Advice on a user's own texts: which mechanism, with which length limit, at what cost on this machine."""
