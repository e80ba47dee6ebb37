"""What each attention head does, over many documents."""
