"""What lets several nodes share one database: live text between them, through a broker."""
