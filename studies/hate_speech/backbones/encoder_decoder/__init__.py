"""An encoder-decoder of transformers, which reads a text and writes another one."""
