"""`palimpsest acp`: an agent for editors that speak the Agent Client Protocol.

The editor's folder and the session's workspace are copies of each other: what the user has changed is sent before a
prompt, and what the run has changed is applied to the folder after it.
"""

from app.cli.acp.agent import serve_acp as serve_acp
