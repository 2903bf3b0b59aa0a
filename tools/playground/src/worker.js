// Python, lintrain and ruff in a worker: the page asks with {id, text} and gets {id, answer}, {id, failure} or {ready}.

import { loadPyodide } from "./pyodide/pyodide.mjs";
import loadRuff, { PositionEncoding, Workspace } from "./ruff/ruff_wasm.js";

const NAMES = ["F821", "F823", "F701", "F702", "F704", "F706", "F707"];
const FOLDER = "/lib/lintrain";

const started = start();

async function start() {
  const [python, packages, examples] = await Promise.all([
    loadPyodide({ indexURL: new URL("./pyodide/", import.meta.url).href }),
    Promise.all(["lintrain.zip", "libcst.zip"].map(bytesOf)),
    bytesOf("examples.json"),
    loadRuff({ module_or_path: new URL("./ruff/ruff_wasm_bg.wasm", import.meta.url) }),
  ]);
  for (const archive of packages) python.unpackArchive(archive, "zip", { extractDir: FOLDER });
  python.runPython(`import sys; sys.path.insert(0, "${FOLDER}")`);
  const answer = python.pyimport("lintrain.api.in_page").answer;
  const ruff = new Workspace({ lint: { select: NAMES } }, PositionEncoding.Utf32);
  const check = (text) => answer(text, JSON.stringify(namesIn(ruff, text)));
  check(JSON.parse(new TextDecoder().decode(examples))[0].text); // loads the rules, and what they read
  return check;
}

async function bytesOf(name) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

/** Ruff's messages on a text, in the form in which its command line writes them. */
function namesIn(ruff, text) {
  if (text.trimStart().startsWith("{")) return []; // a notebook, or a part of one
  return ruff
    .check(text)
    .filter((one) => NAMES.includes(one.code))
    .map((one) => ({
      code: one.code,
      message: one.message,
      filename: "train.py",
      cell: null,
      location: one.start_location,
      end_location: one.end_location,
    }));
}

/** The last line of an error: Python's have a traceback before it. */
function reason(error) {
  return String(error?.message ?? error).trim().split("\n").at(-1);
}

self.onmessage = async ({ data: { id, text } }) => {
  try {
    const check = await started;
    self.postMessage({ id, answer: check(text) });
  } catch (error) {
    self.postMessage({ id, failure: reason(error) });
  }
};

started.then(
  () => self.postMessage({ ready: true }),
  (error) => self.postMessage({ failure: reason(error) }),
);
