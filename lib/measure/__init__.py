"""What mechanisms cost and how near they come to exact attention, measured."""
