"""The client of MCP servers: connections that live as long as a session's runs, and the tools that they add. Only
`connection`, `http`, `lists`, `results` and `stdio` import the `mcp` package, which takes a second and 20 MB; sessions
without servers never load them."""
