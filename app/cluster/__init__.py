"""Many servers on one database: an engine gives each session with work an owner on one of them, which also runs its
sub-agents, and a new one if that owner disappears; a broker carries live text between them (`relay` passes it on,
`outlet` and `wire` say what is sent and how), and a store their workspaces. The database decides who owns a session;
the engine only rings and watches."""
