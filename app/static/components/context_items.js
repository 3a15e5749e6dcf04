/** The model's view next to the full history, item by item. */

import { compact, count, percent, plain, plainLine } from "../core/format.js";
import { html, useEffect, useRef, useSignal, useSignalEffect } from "../core/ui.js";
import { makeUp, seenOf } from "../state/seen.js";
import { Failure } from "./basic.js";
import { ContextItem } from "./context_item.js";
import { ContextFold } from "./context_fold.js";
import { LongText } from "./long_text.js";
import { SessionTools } from "./session_tools.js";
import { useThrottle } from "./throttle.js";

/** Items drawn per frame: two thousand at once would block the page for a second. */
const SLICE = 50;
/** Steps may be short, and a long context takes long to build: it is loaded this long after the first change, in ms. */
const SETTLE_MS = 1_500;

/** Reasons of items that stand for more than they hold. */
const SHORTENED = new Set(["placeholder", "clip", "summary"]);

export function ContextItems({ state, history }) {
  const seen = seenOf(state);
  const element = useRef(null);
  const isNear = useSignal(false);
  useNear(element, isNear);
  const loadSoon = useThrottle(() => seen.load());
  useSignalEffect(() => {
    void history.version.value;
    if (!isNear.value || (seen.step.peek() !== null && seen.data.peek())) return;
    loadSoon(seen.data.peek() ? SETTLE_MS : 0);
  });
  const { value: data } = seen.data;
  return html`<div class="cx-seen" ref=${element}>
    <${Chooser} seen=${seen} history=${history} />
    ${seen.problem.value && html`<${Failure} problem=${seen.problem.value} onRetry=${() => seen.load()} />`}
    ${!data && !seen.problem.value && html`<p class="dim" aria-busy="true">Loading…</p>`}
    ${data && html`<${Context} data=${data} state=${state} history=${history} />`}
  </div>`;
}

/** Sets `isNear` when the element is near the visible area, so that nothing is loaded without need. */
function useNear(element, isNear) {
  useEffect(() => {
    const watch = new IntersectionObserver(([entry]) => (isNear.value = entry.isIntersecting), { rootMargin: "300px" });
    watch.observe(element.current);
    return () => watch.disconnect();
  }, []);
}

function Chooser({ seen, history }) {
  const { value: step } = seen.step;
  const last = history.steps.value.at(-1)?.step ?? 0;
  const choose = (number) => seen.choose(Math.max(1, Math.min(last, number)));
  // Typed text is kept while new steps arrive.
  const typed = useSignal(null);
  const onChange = (event) => {
    const number = Math.round(Number(event.target.value));
    typed.value = null;
    if (number >= 1) choose(number);
  };
  return html`<div class="cx-chooser" role="group" aria-label="Request to show">
    <button aria-pressed=${step === null} onClick=${() => seen.choose(null)}>Next step</button>
    <label>
      Step
      <input
        type="number"
        min="1"
        max=${last}
        placeholder=${last ? `1–${last}` : ""}
        disabled=${last === 0}
        value=${typed.value ?? step ?? ""}
        onInput=${(event) => (typed.value = event.target.value)}
        onChange=${onChange}
      />
    </label>
    <button
      aria-label="Earlier step"
      disabled=${last === 0 || step === 1}
      onClick=${() => choose((step ?? last + 1) - 1)}
    >
      ‹
    </button>
    <button
      aria-label="Later step"
      disabled=${step === null}
      onClick=${() => (step >= last ? seen.choose(null) : choose(step + 1))}
    >
      ›
    </button>
    <span class="dim" role="status">${seen.loading.value ? "Loading…" : ""}</span>
  </div>`;
}

function Context({ data, state, history }) {
  const { system, tools, messages } = data;
  const shortened = messages.filter(({ reason }) => SHORTENED.has(reason)).length;
  return html`<p class="numbers">
      ${data.step === null ? "The next step would send" : `Step ${count(data.step)} sent`} ${count(messages.length)}
      ${" "}${messages.length === 1 ? "message" : "messages"}
      ${shortened ? `, ${count(shortened)} shortened` : ""}, to ${plainLine(data.model)}.
      ${" "}${count(data.tokens)} of ${count(data.usable)} usable tokens (${data.source}${data.step === null
        ? ""
        : " at the end of the step"}), generation ${count(data.generation)}.
    </p>
    <${MakeUp} data=${data} />
    <${ContextFold} name="System prompt, ${count(system.tokens)} tokens" foldKey="system" history=${history}>
      <${Sections} sections=${system.sections ?? []} />
      <${LongText} label="System prompt" text=${plain(system.text)} />
    <//>
    <${ContextFold} name="${count(tools.length)} tools, ${count(sum(tools))} tokens" foldKey="tools" history=${history}>
      <${SessionTools} tools=${tools} state=${state} history=${history} />
    <//>
    ${messages.length > 0 &&
    html`<div class="cx-item-heads dim" aria-hidden="true">
        <span>Model's view</span><span>Full history</span>
      </div>
      <${Items} messages=${messages} state=${state} history=${history} />`}`;
}

const sum = (items) => items.reduce((total, { tokens }) => total + tokens, 0);

/** The share of each kind of content, as a bar and as text. */
function MakeUp({ data }) {
  const groups = makeUp(data).filter(({ tokens }) => tokens > 0);
  const total = Math.max(1, sum(groups));
  return html`<div class="cx-make-up">
    <div class="cx-make-up-bar" aria-hidden="true">
      ${groups.map(
        ({ name, tokens }) => html`<span
          key=${name}
          class="cx-of-${name.toLowerCase()}"
          style=${{ flexGrow: tokens }}
          title="${name}: ${count(tokens)}"
        ></span>`,
      )}
    </div>
    <ul class="cx-legend numbers" aria-label="Estimated tokens by kind">
      ${groups.map(
        ({ name, tokens, count: number }) => html`<li key=${name}>
          <span class="cx-key cx-of-${name.toLowerCase()}"></span>${name}${number > 1 ? ` (${count(number)})` : ""}:
          ${" "}${compact(tokens)}, ${percent(tokens / total)}
        </li>`,
      )}
    </ul>
  </div>`;
}

/** The parts of the system text, each with its tokens. */
function Sections({ sections }) {
  if (sections.length === 0) return null;
  return html`<ul class="cx-sections numbers" aria-label="Parts of the system prompt">
    ${sections.map(
      ({ source, tokens }, place) => html`<li key=${place}>
        <bdi>${plainLine(source)}</bdi> <span class="dim">${count(tokens)} tokens</span>
      </li>`,
    )}
  </ul>`;
}

/** The items, drawn one slice per frame. Rows of unchanged items are not redrawn, and slices out of sight cost no
 * layout. */
function Items({ messages, state, history }) {
  const drawn = useSignal(1);
  const rows = useRef(new WeakMap());
  const slices = Math.ceil(messages.length / SLICE);
  useEffect(() => {
    if (drawn.value >= slices) return undefined;
    const frame = requestAnimationFrame(() => (drawn.value += 1));
    return () => cancelAnimationFrame(frame);
  }, [drawn.value, slices]);
  const rowOf = (item) => {
    const made = rows.current;
    if (!made.has(item)) {
      made.set(item, html`<${ContextItem} key=${item.message.id} item=${item} state=${state} history=${history} />`);
    }
    return made.get(item);
  };
  return html`<div class="cx-items" role="list" aria-busy=${drawn.value < slices}>
    ${Array.from({ length: Math.min(drawn.value, slices) }, (_, slice) => {
      const items = messages.slice(slice * SLICE, (slice + 1) * SLICE);
      return html`<div key=${slice} class="cx-slice" role="presentation">${items.map(rowOf)}</div>`;
    })}
  </div>`;
}
