"""What many machines need in addition: the second implementations of what one machine has in its process."""
