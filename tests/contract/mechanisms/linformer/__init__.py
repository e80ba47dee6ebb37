"""Linformer, for the contract tests alone: a mechanism that declares the opposite of most others."""
