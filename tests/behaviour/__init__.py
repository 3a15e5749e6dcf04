"""Behaviour through the front door: the real server over HTTP, against a strict provider, with real sandboxes."""
