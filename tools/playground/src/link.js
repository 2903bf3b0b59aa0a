// A text in the fragment of an address, compressed: a fragment is never sent to a server.

const KEY = "#code=";
const LONGEST = 200000; // characters of a text that a link may bring: more is a mistake, or an attack on the page

async function through(stream, bytes) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

/** The address with the text in its fragment. */
export async function withText(address, text) {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(text));
  const letters = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return new URL(KEY + letters, address).href;
}

/** The text in the fragment of an address; null if there is none, or none that can be read. */
export async function textOf(address) {
  const { hash } = new URL(address);
  if (!hash.startsWith(KEY)) return null;
  try {
    const letters = hash.slice(KEY.length).replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
    return await bounded(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")));
  } catch {
    return null;
  }
}

/** The text of a stream, as far as a text may be long: a few bytes can unpack to gigabytes. */
async function bounded(stream) {
  let text = "";
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  while (text.length < LONGEST) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
  }
  await reader.cancel();
  return text.slice(0, LONGEST);
}
