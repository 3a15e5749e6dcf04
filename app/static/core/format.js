/** Human-readable numbers, sizes and times.
 *
 * What the list and a conversation show at first is formatted without `Intl`: a page's first use of it takes 20 ms.
 */

/** The function that formats a value with what `make` returns, which is called when the first value is formatted. */
export function formatter(make) {
  let made = null;
  return (value) => (made ??= make()).format(value);
}

const inLocalTime = formatter(() => new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" }));

/** 12,345, rounded; a dash if unknown. */
export const count = (number) => (number == null ? "–" : String(Math.round(number)).replace(THOUSANDS, ","));

const THOUSANDS = /\B(?=(?:\d{3})+$)/g;

/** 12.3K: three digits; a dash if unknown. */
export function compact(number) {
  if (number == null) return "–";
  let left = threeDigits(number);
  let unit = 0;
  while (Math.abs(left) >= 1000 && unit < UNITS.length - 1) {
    left = threeDigits(left / 1000);
    unit += 1;
  }
  return `${left}${UNITS[unit]}`;
}

const UNITS = ["", "K", "M", "B", "T"];
const threeDigits = (number) => Number(number.toPrecision(3));

/** Dollars, with more digits for small amounts; a dash if unknown. */
export function dollars(amount) {
  if (amount == null) return "–";
  if (amount === 0) return "$0";
  return amount < 0.01 ? `$${amount.toPrecision(2)}` : `$${amount.toFixed(amount < 1 ? 3 : 2)}`;
}

/** 64 B, 1.2 KiB, 3 MiB. */
export function bytes(size) {
  if (size == null) return "–";
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  let left = size;
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${unit === 0 || left >= 10 ? Math.round(left) : left.toFixed(1)} ${units[unit]}`;
}

/** 85 ms, 1.2 s, 3 min 5 s, 2 h 4 min. */
export function duration(ms) {
  if (ms == null) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** 14:03:22, in the local time zone. */
export function clock(time) {
  if (!time) return "–";
  const at = new Date(time);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

/** Date and time, in the local time zone. */
export const day = (time) => (time ? inLocalTime(new Date(time)) : "–");

const STEPS = [["sec.", 60], ["min.", 60], ["hr.", 24], ["day", 30], ["mo.", 12], ["yr.", Infinity]];

const DAY_MS = 86_400_000;
const HALF_DAY_S = 43_200;
const midnight = (time) => new Date(time).setHours(0, 0, 0, 0);

/** "5 min. ago", relative to `now` (ms); after half a day "yesterday" or "2 days ago", by the local calendar. */
export function ago(time, now) {
  let left = (new Date(time).getTime() - now) / 1000;
  const days = Math.round((midnight(time) - midnight(now)) / DAY_MS);
  if (left < -HALF_DAY_S && days < 0 && days > -30) return relative(days, "day");
  for (const [unit, size] of STEPS) {
    const number = Math.round(left);
    if (Math.abs(number) < size) return relative(number, unit);
    left /= size;
  }
  return "";
}

function relative(number, unit) {
  if (number === 0) return "now";
  if (unit === "day" && Math.abs(number) === 1) return number < 0 ? "yesterday" : "tomorrow";
  const amount = `${Math.abs(number)} ${unit}${unit === "day" ? "s" : ""}`;
  return number < 0 ? `${amount} ago` : `in ${amount}`;
}

/** 42%. */
export const percent = (share) => (share == null || Number.isNaN(share) ? "–" : `${Math.round(share * 100)}%`);

// Bidirectional controls and invisible characters: text with these could be read as something else.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;
/** Terminal escape codes. */
export const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[ -/]+[0-~]|[@-Z\\-_])/g;

/** Removes terminal escape codes, and makes other control and bidirectional characters visible as ␛ or ‹U+202E›. */
export function plain(text) {
  return text.replace(ANSI, "").replace(/\r\n/g, "\n").replace(HIDDEN, shown);
}

/** Makes control and bidirectional characters visible but removes nothing, for a text in which a reader looks for what
 * was changed. */
export const visible = (text) => text.replace(HIDDEN, shown);

/** The same as `plain`, on one line. */
export const plainLine = (text) => plain(text).replace(/[\n\t]/g, " ");

/** The text of Markdown on one line, without its marks: a preview. */
export const markdownLine = (text) =>
  plainLine(
    text
      .replace(/^[ \t]*(?:#{1,6}|>|[-*+]|\d{1,3}\.)[ \t]+/gm, "")
      .replace(/^[ \t]*(?:```|~~~).*$/gm, "")
      .replace(/!?\[([^\][\n]*)\]\([^()\s]*\)/g, "$1")
      .replace(/\*\*|__|`/g, ""),
  ).trim();

/** A session's name on one line: its title, else its task. */
export const nameOf = ({ title, task, id }) => plainLine(title || task || id);

function shown(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return `‹U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
}
