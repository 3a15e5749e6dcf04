/** A session's messages from the API, which returns pages forward from a seq. */

import { get, sessionPath } from "../core/http.js";

/** Messages per page when scrolling. */
const PAGE = 200;
/** The API's maximum page size. */
const LARGEST_PAGE = 500;
/** How many seqs to look back at first for earlier messages; a message has about five events. */
const LOOK_BACK = 250;
/** How many messages are enough for a page backwards: more than a screen shows. */
const ENOUGH = 40;

/** Reads pages: `{items, lastSeq, more}`, with the `last_seq` of the first response, and whether there are more
 * messages in the direction of reading. */
export class History {
  #id;

  constructor(sessionId) {
    this.#id = sessionId;
  }

  /** The messages after a seq. */
  async after(seq, limit = PAGE) {
    const page = await this.#page(seq, limit);
    return { items: page.items, lastSeq: page.last_seq, more: page.next_cursor !== null };
  }

  /** The messages around a seq, and whether there may be earlier ones. */
  async around(seq) {
    const start = Math.max(0, seq - LOOK_BACK);
    return { ...(await this.after(start)), hasEarlier: start > 0 };
  }

  /** The session's newest messages, given a recent `last_seq`. */
  async newest(lastSeq) {
    return this.#backwards(lastSeq + 1, Infinity);
  }

  /** The last messages before a seq. */
  async before(seq) {
    return this.#backwards(seq, seq);
  }

  /** The message with this seq, or null. */
  async message(seq) {
    return (await this.#page(seq - 1, 1)).items.find((message) => message.seq === seq) ?? null;
  }

  /** All messages from one seq to another, page by page. */
  async *all(first, last) {
    for (let cursor = first - 1; cursor !== null && cursor < last; ) {
      const page = await this.#page(cursor, LARGEST_PAGE);
      yield page.items;
      cursor = page.next_cursor === null ? null : Number(page.next_cursor);
    }
  }

  /** Looks back from `end` over more and more seqs until it finds enough messages. Only messages with a seq below
   * `before` count; with Infinity, messages added after `end` was read are included. */
  async #backwards(end, before) {
    let items = [];
    let lastSeq = null;
    let span = LOOK_BACK;
    for (;;) {
      const after = Math.max(0, end - 1 - span);
      const stretch = await this.#between(after, before);
      items = [...stretch.items, ...items];
      lastSeq ??= stretch.lastSeq;
      if (items.length >= ENOUGH || after === 0) return { items, lastSeq, more: after > 0 };
      end = before = after + 1;
      span *= 4;
    }
  }

  async #between(after, before) {
    const items = [];
    let lastSeq = null;
    for (let cursor = after; cursor !== null; ) {
      const page = await this.#page(cursor, LARGEST_PAGE);
      lastSeq ??= page.last_seq;
      const wanted = page.items.filter(({ seq }) => seq < before);
      items.push(...wanted);
      cursor = wanted.length < page.items.length ? null : page.next_cursor;
    }
    return { items, lastSeq };
  }

  #page(after, limit) {
    return get(`${sessionPath(this.#id, "messages")}?after=${after}&limit=${limit}`);
  }
}
