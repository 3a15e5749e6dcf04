/** The models that the server offers, loaded once for the page. */

import { get } from "../core/http.js";
import { signal } from "../core/ui.js";

/** Models as `GET /v1/models` has them; null until they are loaded. */
export const models = signal(null);

/** Loads the models, and throws the Problem where that fails. What an operator changes comes with a restart of the
 * server, so this is done each time that a form is opened. */
export async function loadModels() {
  models.value = (await get("/v1/models")).items;
}

/** Whether this is the scripted demo, which only plays a part. */
export const isDemo = ({ provider }) => provider === "scripted";

/** The model that a session gets which names none; null where the list does not hold it. */
export const defaultModel = () => models.value?.find((model) => model.default) ?? null;
