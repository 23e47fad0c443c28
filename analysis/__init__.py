"""What run directories say: read, judged and laid out, without touching them."""
