/** The width of a character of code. */

let width = null;

/** In px. */
export function characterWidth() {
  if (width !== null) return width;
  const ruler = document.createElement("code");
  ruler.className = "file-ruler";
  ruler.textContent = "0".repeat(100);
  document.body.append(ruler);
  width = ruler.getBoundingClientRect().width / 100 || 8;
  ruler.remove();
  return width;
}
