/** The calls that wait for their result from a client, from a session's events. */

import { get, sessionPath } from "../core/http.js";

/** Adds a call that has started to wait. Its event lacks the time limit, which is loaded. */
export function clientCallWaits(state, { call_id, message_id, name, arguments: args, at }) {
  const call = { call_id, message_id, name, arguments: args, requested_at: at, expires_at: null };
  state.clientCalls.value = [...without(state, call_id), call];
  state.update({ status: "awaiting_client" });
  // Without it, only the countdown is missing.
  loadLimits(state).catch(() => {});
}

/** Removes a call that has its result. */
export function clientCallEnded(state, callId) {
  const isWaiting = state.clientCalls.value.some(({ call_id: id }) => id === callId);
  if (isWaiting) state.clientCalls.value = without(state, callId);
}

/** Removes all calls once the session no longer waits. */
export function clientCallsFor(state, { status }) {
  if (status !== "awaiting_client" && state.clientCalls.value.length) state.clientCalls.value = [];
}

async function loadLimits(state) {
  const { items } = await get(pendingCalls(state.id));
  const limits = new Map(items.map(({ call_id: id, expires_at: at }) => [id, at]));
  const limited = (call) => ({ ...call, expires_at: limits.get(call.call_id) ?? call.expires_at });
  state.clientCalls.value = state.clientCalls.value.map(limited);
}

/** The path of the calls that wait. */
export const pendingCalls = (sessionId) => `${sessionPath(sessionId, "tool-calls")}?status=pending`;

const without = (state, callId) => state.clientCalls.value.filter(({ call_id: id }) => id !== callId);
