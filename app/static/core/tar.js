/** Writes tar archives in the ustar format, with pax records for values that do not fit. */

const BLOCK = 512;
/** The sizes of ustar's fields for a path, in bytes. */
const NAME = 100;
const PREFIX = 155;
/** The smallest size, in bytes, that does not fit its size field. */
const LARGE = 8 ** 11;
const ASCII = /^[\u0020-\u007e]*$/;
const encoder = new TextEncoder();

/** An archive of files: `{path, file, mode}`, with `file` a File, of which only the header is read now: the browser
 * reads the contents when it sends the archive. */
export function tarOf(files) {
  const parts = files.flatMap(({ path, file, mode }) => [
    ...headersOf(path, file, mode),
    file,
    new Uint8Array(paddingOf(file.size)),
  ]);
  return new Blob([...parts, new Uint8Array(2 * BLOCK)], { type: "application/x-tar" });
}

const paddingOf = (size) => (BLOCK - (size % BLOCK)) % BLOCK;

function headersOf(path, { size, lastModified }, mode) {
  const place = placeOf(path);
  const records = { ...(!place && { path }), ...(size >= LARGE && { size }) };
  const time = Math.max(0, Math.floor(lastModified / 1000));
  const own = header({ ...(place ?? { name: "file", prefix: "" }), size: size % LARGE, mode, time, type: "0" });
  if (Object.keys(records).length === 0) return [own];
  const data = encoder.encode(Object.entries(records).map(([key, value]) => record(key, value)).join(""));
  const more = header({ name: "pax", prefix: "", size: data.length, mode: 0o644, time, type: "x" });
  return [more, data, new Uint8Array(paddingOf(data.length)), own];
}

/** How ustar divides a path; null if it cannot. */
function placeOf(path) {
  if (!ASCII.test(path)) return null;
  if (path.length <= NAME) return { name: path, prefix: "" };
  const at = path.indexOf("/", path.length - NAME - 1);
  if (at < 1 || at > PREFIX || at === path.length - 1) return null;
  return { name: path.slice(at + 1), prefix: path.slice(0, at) };
}

/** A pax record, which begins with its own length in bytes, digits included. */
function record(key, value) {
  const rest = ` ${key}=${value}\n`;
  const size = encoder.encode(rest).length;
  let length = size + 1;
  while (String(length).length + size !== length) length = String(length).length + size;
  return `${length}${rest}`;
}

function header({ name, prefix, size, mode, time, type }) {
  const block = new Uint8Array(BLOCK);
  const put = (text, at) => block.set(encoder.encode(text), at);
  const octal = (number, digits) => `${number.toString(8).padStart(digits, "0")}\0`;
  put(name, 0);
  put(octal(mode, 7), 100);
  put(octal(0, 7), 108);
  put(octal(0, 7), 116);
  put(octal(size, 11), 124);
  put(octal(time, 11), 136);
  // The checksum counts itself as spaces.
  put("        ", 148);
  put(type, 156);
  put("ustar\x0000", 257);
  put(prefix, 345);
  put(`${octal(block.reduce((sum, byte) => sum + byte), 6)} `, 148);
  return block;
}
