/** Some libraries ask `process.env.NODE_ENV` whether to check and to log more, which bundlers replace. */

globalThis.process ??= { env: { NODE_ENV: "production" } };
