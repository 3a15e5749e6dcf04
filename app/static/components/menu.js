/** A menu button as defined by WAI-ARIA: arrow keys move, Escape and clicks outside close it. The menu is a popover in
 * the top layer, so no scrolling box clips it. */

import { html, useId, useRef, useState } from "../core/ui.js";

const GAP_PX = 4;

/** `items` are `{label, onClick, kind?}`. `label` is the button's text; `name` is a longer one for screen readers. */
export function Menu({ label, name, items, kind = "" }) {
  const id = useId();
  const button = useRef(null);
  const menu = useRef(null);
  const [isOpen, setOpen] = useState(false);
  // Only an open menu has items: a list has a menu in each of its rows.
  const onBeforeToggle = ({ newState }) => {
    if (newState !== "open") return;
    setOpen(true);
    placeBelow(menu.current, button.current, items.length);
  };
  const onToggle = ({ newState }) => {
    if (newState === "open") focusItem(menu.current, 0);
    else setOpen(false);
  };
  return html`<button
      ref=${button}
      type="button"
      class="menu-button ${kind}"
      aria-label=${name}
      aria-haspopup="menu"
      aria-expanded=${isOpen}
      popovertarget=${id}
    >
      ${label}
    </button>
    <div
      ref=${menu}
      id=${id}
      popover="auto"
      role="menu"
      class="menu"
      aria-label=${name ?? label}
      onBeforeToggle=${onBeforeToggle}
      onToggle=${onToggle}
      onKeyDown=${(event) => onKey(event, menu.current)}
    >
      ${isOpen && items.map((item) => html`<${Item} key=${item.label} item=${item} menu=${menu} />`)}
    </div>`;
}

function Item({ item: { label, onClick, kind = "" }, menu }) {
  const choose = () => {
    menu.current.hidePopover();
    onClick();
  };
  return html`<button type="button" role="menuitem" tabindex="-1" class="plain ${kind}" onClick=${choose}>
    ${label}
  </button>`;
}

/** Places the menu below the button, or above it if there is no space, with their right edges aligned. */
function placeBelow(menu, button, size) {
  const { top, bottom, right } = button.getBoundingClientRect();
  const hasRoom = innerHeight - bottom > size * 40 || bottom < innerHeight / 2;
  menu.style.right = `${Math.max(GAP_PX, document.documentElement.clientWidth - right)}px`;
  menu.style.top = hasRoom ? `${bottom + GAP_PX}px` : "auto";
  menu.style.bottom = hasRoom ? "auto" : `${innerHeight - top + GAP_PX}px`;
}

const itemsOf = (menu) => [...menu.querySelectorAll('[role="menuitem"]')];

function focusItem(menu, index) {
  const items = itemsOf(menu);
  items.at(index % items.length)?.focus();
}

function onKey(event, menu) {
  const at = itemsOf(menu).indexOf(document.activeElement);
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
  if (event.key === "Tab") menu.hidePopover();
  if (next === undefined) return;
  event.preventDefault();
  focusItem(menu, next);
}
