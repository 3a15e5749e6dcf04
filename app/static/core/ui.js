/** The page's view library: Preact with htm templates and signals, all from ../vendor. */

import { createContext, Fragment, h, render } from "../vendor/preact.js";
import {
  useCallback, useContext, useEffect, useId, useLayoutEffect, useMemo, useRef, useState,
} from "../vendor/preact-hooks.js";
import { batch, computed, effect, signal, untracked, useComputed, useSignal, useSignalEffect } from "../vendor/signals.js";
import htm from "../vendor/htm.js";

/** Template tag: html`<p class=${name}>${text}</p>`. Inserted values are text or elements, never markup. */
export const html = htm.bind(h);

export { batch, computed, createContext, effect, Fragment, h, render, signal, untracked };
export { useCallback, useComputed, useContext, useEffect, useId, useLayoutEffect, useMemo, useRef, useSignal };
export { useSignalEffect, useState };
