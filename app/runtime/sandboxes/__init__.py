"""The sandboxes of all sessions: started on use, bounded in number, stopped when idle."""
