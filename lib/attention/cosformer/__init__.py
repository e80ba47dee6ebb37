"""cosFormer: linear attention that decays with distance."""
