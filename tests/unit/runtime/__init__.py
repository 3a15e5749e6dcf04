"""What the runtime keeps in order by itself, without a server around it."""
