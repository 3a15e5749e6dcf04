"""End-to-end tests: the real server over HTTP, with a strict fake provider and real sandboxes."""
