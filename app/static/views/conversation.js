/** The conversation: the agent's plan, the clone of its repository, the transcript, and the controls to steer it. */

import { Plan } from "../components/plan.js";
import { SourceLine } from "../components/source_line.js";
import { Steering } from "../components/steering.js";
import { Transcript } from "../components/transcript.js";
import { html } from "../core/ui.js";

export function ConversationView({ state }) {
  return html`<${Plan} state=${state} />
    <${SourceLine} state=${state} />
    <${Transcript} state=${state} />
    <${Steering} state=${state} />`;
}
