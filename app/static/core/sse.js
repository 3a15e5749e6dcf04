/** Server-sent events per the HTML standard: lines end with CR, LF or CRLF, and an empty line ends an event. */

/** Takes a stream's text in pieces, cut anywhere, and calls `onEvent({id, type, data})` for each complete event. */
export class EventParser {
  #onEvent;
  #rest = "";
  #type = "";
  #data = [];
  #id = null;
  #afterCr = false;

  constructor(onEvent) {
    this.#onEvent = onEvent;
  }

  feed(text) {
    if (text === "") return;
    if (this.#afterCr && text.startsWith("\n")) text = text.slice(1);
    this.#afterCr = text.endsWith("\r");
    const lines = (this.#rest + text).split(/\r\n|\r|\n/);
    this.#rest = lines.pop();
    for (const line of lines) this.#take(line);
  }

  #take(line) {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#type = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
  }

  #dispatch() {
    const event = { id: this.#id, type: this.#type || "message", data: this.#data.join("\n") };
    const isEmpty = this.#data.length === 0;
    this.#type = "";
    this.#data = [];
    this.#id = null;
    if (!isEmpty) this.#onEvent(event);
  }
}
