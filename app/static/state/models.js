/** The models that the server offers, shared by all forms. */

import { get } from "../core/http.js";
import { signal } from "../core/ui.js";

/** The items of `GET /v1/models`; null until loaded. */
export const models = signal(null);

/** Loads the models. Throws a Problem. Called whenever a form is opened, since the models may change with a server
 * restart. */
export async function loadModels() {
  models.value = (await get("/v1/models")).items;
}

/** Whether this is the scripted demo. */
export const isDemo = ({ provider }) => provider === "scripted";

/** The default model of new sessions; null if it is not in the list. */
export const defaultModel = () => models.value?.find((model) => model.default) ?? null;
