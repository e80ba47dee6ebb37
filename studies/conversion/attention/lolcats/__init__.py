"""LoLCATs: softmax attention to the blocks nearby, and linear attention to the rest."""
