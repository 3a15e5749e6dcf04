/** The page before the first session: what Palimpsest is, and how to start. */

import { go, sessionLink } from "../core/router.js";
import { html, useEffect } from "../core/ui.js";
import { createSession } from "../state/draft.js";
import { defaultModel, isDemo, loadModels, models } from "../state/models.js";
import { Button, sayProblem } from "./basic.js";
import { CreateForm } from "./create_form.js";

const DEMO_TASK = "Write a small shell program and a test for it, run the test, and fix what fails.";

export function FirstVisit() {
  useEffect(() => {
    if (models.value === null) loadModels().catch(sayProblem);
  }, []);
  return html`<section class="first-visit">
    <p>
      Palimpsest runs coding agents: give one a task, and it works on it step by step in a sandbox, with a shell and
      files. Here you can watch what it does and sees, steer it while it works, and see how its context is kept small.
    </p>
    ${models.value && html`<${WhatToDo} />`}
  </section>`;
}

function WhatToDo() {
  const demo = models.value.find(isDemo);
  const hasKey = models.value.some((model) => model.key_present && !isDemo(model));
  const first = defaultModel();
  // A model that is not in the list belongs to a custom provider.
  if (hasKey || !first || !isDemo(first)) {
    return html`<h2>Your first session</h2>
      <${CreateForm} />
      ${demo && html`<p class="dim"><${WatchDemo} demo=${demo} kind="" /> A scripted demo; no real model</p>`}`;
  }
  return html`<div class="choices">
      <div>
        <h2>See it in action</h2>
        <p>
          No model is set up yet, so a script stands in for one: its text is written in advance, but the tools, the
          sandbox and the events are real.
        </p>
        <${WatchDemo} demo=${demo} kind="primary" />
      </div>
      <div>
        <h2>Set up a model</h2>
        <p>
          Start the server with an API key in <code>OPENAI_API_KEY</code> or <code>ANTHROPIC_API_KEY</code>, or with
          your own provider in <code>PALIMPSEST_PROVIDERS</code>, which needs no key. You can set these in a
          ${" "}<code>.env</code> file in the server's directory. Then reload this page.
        </p>
      </div>
    </div>`;
}

function WatchDemo({ demo, kind }) {
  const watch = async () => {
    const { id } = await createSession({ task: DEMO_TASK, model: demo.name });
    go(sessionLink(id));
  };
  return html`<${Button} kind=${kind} onClick=${watch}>Watch the demo<//>`;
}
