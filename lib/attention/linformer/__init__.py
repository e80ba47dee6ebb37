"""Linformer: attention to learned mixtures of keys and values."""
