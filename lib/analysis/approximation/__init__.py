"""How near FAVOR+ and LSH come to exact attention in trained models."""
