"""Nyströmformer: attention through landmarks."""
