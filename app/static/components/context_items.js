/** What the model sees, item by item, beside what happened. */

import { compact, count, percent, plain, plainLine } from "../core/format.js";
import { html, useEffect, useRef, useSignal, useSignalEffect } from "../core/ui.js";
import { makeUp, seenOf } from "../state/seen.js";
import { Failure } from "./basic.js";
import { ContextItem } from "./context_item.js";
import { ContextFold } from "./context_fold.js";
import { LongText } from "./long_text.js";
import { useThrottle } from "./throttle.js";

/** Items that are drawn in one frame: two thousand at once would hold the page up for a second. */
const SLICE = 50;
/** Steps may follow fast, and a long context is long to build: it is loaded this long after the first news, in ms. */
const SETTLE_MS = 1_500;

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
    ${!data && !seen.problem.value && html`<p class="dim" aria-busy="true">Loading …</p>`}
    ${data && html`<${Context} data=${data} state=${state} history=${history} />`}
  </div>`;
}

/** True once the element has come near to what is visible, so that nothing is loaded that nobody looks at. */
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
  // What is being typed stays while steps come in.
  const typed = useSignal(null);
  const onChange = (event) => {
    const number = Math.round(Number(event.target.value));
    typed.value = null;
    if (number >= 1) choose(number);
  };
  return html`<div class="cx-chooser" role="group" aria-label="Which request">
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
      aria-label="Step before"
      disabled=${last === 0 || step === 1}
      onClick=${() => choose((step ?? last + 1) - 1)}
    >
      ‹
    </button>
    <button
      aria-label="Step after"
      disabled=${step === null}
      onClick=${() => (step >= last ? seen.choose(null) : choose(step + 1))}
    >
      ›
    </button>
    <span class="dim" role="status">${seen.loading.value ? "Loading …" : ""}</span>
  </div>`;
}

function Context({ data, state, history }) {
  const { system, tools, messages } = data;
  const changed = messages.filter(({ reason }) => reason !== null).length;
  const ofThem = messages.length === 1 ? "" : ` ${count(changed)} of them`;
  return html`<p class="numbers">
      ${data.step === null ? "The next step would send" : `Step ${count(data.step)} sent`} ${count(messages.length)}
      ${" "}${messages.length === 1 ? "message" : "messages"}
      ${changed ? `,${ofThem} not as ${changed === 1 ? "it is" : "they are"} stored` : ""}, to ${plainLine(data.model)}.
      ${" "}${count(data.tokens)} tokens of ${count(data.usable)} usable, ${data.source}${data.step === null
        ? ""
        : " at its end"}; generation ${count(data.generation)}.
    </p>
    <${MakeUp} data=${data} />
    <${ContextFold} name="System text, ${count(system.tokens)} tokens" foldKey="system" history=${history}>
      <${LongText} label="System text" text=${plain(system.text)} />
    <//>
    <${ContextFold} name="${count(tools.length)} tools, ${count(sum(tools))} tokens" foldKey="tools" history=${history}>
      <${Tools} tools=${tools} history=${history} />
    <//>
    ${messages.length > 0 &&
    html`<div class="cx-item-heads dim" aria-hidden="true">
        <span>What the model sees</span><span>What happened</span>
      </div>
      <${Items} messages=${messages} state=${state} history=${history} />`}`;
}

const sum = (items) => items.reduce((total, { tokens }) => total + tokens, 0);

/** How the tokens divide: a bar, and the same in words. */
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
    <ul class="cx-legend numbers" aria-label="Tokens by kind, estimated">
      ${groups.map(
        ({ name, tokens, count: number }) => html`<li key=${name}>
          <span class="cx-key cx-of-${name.toLowerCase()}"></span>${name}${number > 1 ? ` (${count(number)})` : ""}:
          ${" "}${compact(tokens)}, ${percent(tokens / total)}
        </li>`,
      )}
    </ul>
  </div>`;
}

function Tools({ tools, history }) {
  return html`<ul class="cx-tools">
    ${tools.map(
      (tool) => html`<li key=${tool.name}>
        <${ContextFold}
          name="${plainLine(tool.name)}, ${count(tool.tokens)} tokens"
          foldKey="tool-${tool.name}"
          history=${history}
        >
          <p>${plain(tool.description)}</p>
          <${LongText} label="Parameters of ${tool.name}" text=${plain(JSON.stringify(tool.parameters, null, 2))} />
        <//>
      </li>`,
    )}
  </ul>`;
}

/** The items, a slice more with each frame until all are there. A row whose item has not changed is not drawn again;
 * a slice out of sight costs no layout. */
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
