/** Display texts for tool calls: what a call does, its main argument, and its status. */

import { plainLine } from "../core/format.js";

/** The main argument is cut to this many characters. */
const LONGEST = 400;

const lines = ({ start_line: first, end_line: last }) => {
  if (first == null && last == null) return "";
  return ` lines ${first ?? 1}–${last ?? "end"}`;
};

/** By tool, those with side effects first: `[verb, main argument, more]`. */
const TOOLS = {
  execute_command: (args) => ["Run", args.command, args.background ? " in the background" : ""],
  stop_command: (args) => ["Stop command", args.command_id],
  delegate: (args) => ["Delegate", args.task],
  write_file: (args) => ["Write", args.path],
  edit_file: (args) => ["Edit", args.path],
  memory_write: (args) => ["Write memory", args.content],
  command_output: (args) => ["Output of", args.command_id],
  read_file: (args) => ["Read", args.path, lines(args)],
  list_directory: (args) => ["List", args.path],
  search_files: (args) => ["Search", args.pattern, ` in ${args.path ?? "."}${args.glob ? `, ${args.glob}` : ""}`],
  recall: (args) => ["Recall", args.call_id, args.grep ? ` for ${args.grep}` : lines(args)],
  history_search: (args) => ["Search history", args.query],
  memory_read: () => ["Read memory", ""],
  memory_search: (args) => ["Search memory", args.query],
  update_plan: (args) => ["Plan", args.items ? `${args.items.length} items` : ""],
};

/** By tool; all others have the one of a plug. */
const ICONS = {
  ...{ execute_command: "terminal", stop_command: "terminal", command_output: "terminal", read_file: "file" },
  ...{ write_file: "edit", edit_file: "edit", list_directory: "folder", search_files: "search", update_plan: "plan" },
  ...{ recall: "search", history_search: "search" },
  ...{ memory_read: "memory", memory_write: "memory", memory_search: "memory" },
};

/** The icon of a tool. */
export const iconOf = (name) => (Object.hasOwn(ICONS, name) ? ICONS[name] : "tool");

/** All tools of the server. */
export const TOOL_NAMES = Object.keys(TOOLS);

/** A tool's name on one line, that of an MCP server's tool as “server › tool”. */
export function toolName(name) {
  const [, server, tool] = /^mcp__(.+?)__(.+)$/s.exec(name) ?? [];
  return plainLine(tool === undefined ? name : `${server} › ${tool}`);
}

/** What a call does: `{verb, argument, more}`, each on one line with control characters made visible. */
export function callWords({ name, arguments: args }) {
  const words = isObject(args) && Object.hasOwn(TOOLS, name) ? TOOLS[name](args) : [toolName(name), asText(args)];
  const [verb, argument, more = ""] = words.map((text) => plainLine(String(text ?? "").slice(0, LONGEST)));
  return { verb, argument, more };
}

const asText = (args) => (typeof args === "string" ? args : JSON.stringify(args ?? {}));

const isObject = (args) => typeof args === "object" && args !== null;

/** Finds the main argument of a call that is still being written. */
const MAIN = /"(?:command|path|pattern|query|call_id|task)"\s*:\s*("(?:[^"\\]|\\.)*"?)/;

/** What a call that is still being written will do, as far as known. */
export function writtenWords({ name, written }) {
  const verb = Object.hasOwn(TOOLS, name) ? TOOLS[name]({})[0] : toolName(name);
  const found = MAIN.exec(written.slice(0, 4 * LONGEST));
  return { verb, argument: found ? plainLine(unquoted(found[1]).slice(0, LONGEST)) : "", more: "" };
}

function unquoted(text) {
  const whole = text.length > 1 && text.endsWith('"') ? text : `${text}"`;
  try {
    return JSON.parse(whole);
  } catch {
    return text.slice(1);
  }
}

const STATUS = {
  error: { word: "failed", kind: "bad" },
  denied: { word: "denied", kind: "warn" },
  cancelled: { word: "cancelled", kind: "warn" },
  interrupted: { word: "interrupted", kind: "warn" },
};

/** A call's status: `{word, kind}`, with the kind of a badge. `state` is only read while there is no result. */
export function callStatus(part, result, state) {
  if (part.open) return { word: "writing", kind: "running" };
  if (result) {
    if (result.exit_code) return { word: `exit ${result.exit_code}`, kind: "bad" };
    return STATUS[result.status] ?? { word: result.exit_code === 0 ? "exit 0" : "done", kind: "good" };
  }
  const approvals = state.approvals.value;
  if (approvals.some(({ call_id }) => call_id === part.call_id)) return { word: "awaiting approval", kind: "waiting" };
  if (approvals.length) return { word: "waiting for other approvals", kind: "waiting" };
  const { status } = state.session.value ?? {};
  if (status === "idle") return { word: "no result", kind: "warn" };
  if (state.clientCalls.value.some(({ call_id }) => call_id === part.call_id)) {
    return { word: "awaiting client", kind: "waiting" };
  }
  if (status === "awaiting_client") return { word: "waiting for other calls", kind: "waiting" };
  return { word: "running", kind: "running" };
}
