/** Defines `process.env.NODE_ENV`, which some libraries read and bundlers usually replace. */

globalThis.process ??= { env: { NODE_ENV: "production" } };
