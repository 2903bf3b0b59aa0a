// The page: an editor, the findings of its text, and a link that holds the text.

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";

import { textOf, withText } from "./link.js";

const PAUSE = 250; // milliseconds without a key after which a text is checked
const PATIENCE = 20000; // milliseconds after which a check is given up, and its worker with it
const SEVERITIES = { error: "error", warning: "warning", note: "info" };

const $ = (id) => document.getElementById(id);

/** An element with its attributes and its contents; texts are never read as HTML. */
function element(name, attributes = {}, ...contents) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...contents);
  return made;
}

/** A text in which `code` between backticks is code. */
function prose(text) {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

// ---------------------------------------------------------------------------------------------------- the worker

class Checker {
  constructor(onReady, onFailure) {
    this.onReady = onReady;
    this.onFailure = onFailure;
    this.last = 0;
    this.start();
  }

  start() {
    this.isReady = false;
    this.waiting = null;
    this.worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    this.worker.onmessage = ({ data }) => this.receive(data);
    this.worker.onerror = (event) => this.onFailure(event.message || "the worker could not be started");
  }

  receive(data) {
    if (data.ready) {
      this.isReady = true;
      this.onReady();
    } else if (data.id === undefined) {
      this.onFailure(data.failure);
    } else if (this.waiting?.id === data.id) {
      clearTimeout(this.waiting.timer);
      const { resolve, reject } = this.waiting;
      this.waiting = null;
      if (data.failure) reject(new Error(data.failure));
      else resolve(JSON.parse(data.answer));
    }
  }

  /** What lintrain says of a text; only the latest text is answered. */
  check(text) {
    clearTimeout(this.waiting?.timer);
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.worker.terminate();
        this.start();
        reject(new Error(`the check took more than ${PATIENCE / 1000} seconds and was ended`));
      }, PATIENCE);
      this.waiting = { id, timer, resolve, reject };
      this.worker.postMessage({ id, text });
    });
  }
}

// ---------------------------------------------------------------------------------------------------- the editor

let timer = 0;
const view = new EditorView({
  parent: $("editor"),
  state: EditorState.create({
    extensions: [
      lineNumbers(),
      history(),
      drawSelection(),
      indentOnInput(),
      indentUnit.of("    "),
      bracketMatching(),
      highlightActiveLine(),
      python(),
      syntaxHighlighting(classHighlighter),
      lintGutter(),
      keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap]),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-labelledby": "code-title", tabindex: "0" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) {
          clearTimeout(timer);
          timer = setTimeout(show, PAUSE);
        }
      }),
    ],
  }),
});

const code = () => view.state.doc.toString();

function setCode(text) {
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
}

/** The offset of a line and a column, which count from 1 and in characters. */
function offset(line, column) {
  const { from, text } = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines));
  return from + [...text].slice(0, column - 1).join("").length;
}

function rangeOf(location) {
  const line = location.file_line ?? location.line;
  const from = offset(line, location.file_column ?? location.column ?? 1);
  const to = offset(location.file_end_line ?? location.end_line ?? line, location.file_end_column ?? location.end_column ?? 1);
  return { from, to: Math.max(from, to) };
}

function goTo(location) {
  const { from, to } = rangeOf(location);
  view.dispatch({ selection: { anchor: from, head: to }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
  view.focus();
}

function apply(fix) {
  const edits = fix.edits.map((edit) => ({
    from: offset(edit.line, edit.column),
    to: offset(edit.end_line ?? edit.line, edit.end_column ?? edit.column),
    insert: edit.text,
  }));
  view.dispatch({ changes: edits, userEvent: "input.fix" });
  view.focus();
}

// ---------------------------------------------------------------------------------------------------- the answer

const line = (location) => location.file_line ?? location.line;

function lineButton(location) {
  return element("button", { class: "linked", type: "button", onclick: () => goTo(location) }, `line ${line(location)}`);
}

function findingCard(finding) {
  const related = (finding.related ?? []).filter((one) => one.location);
  const card = element(
    "article",
    { class: finding.level, "aria-label": `${finding.level}: ${finding.message}` },
    element("h3", {}, element("span", { class: "level" }, finding.level), " ", ...prose(finding.message)),
    element("p", { class: "why" }, ...prose(finding.why ?? "")),
  );
  if (finding.help) card.append(element("p", {}, element("b", {}, "Help: "), ...prose(finding.help)));
  if (related.length) {
    card.append(element("ul", {}, ...related.map((one) => element("li", {}, lineButton(one.location), ": ", ...prose(one.note)))));
  }
  const where = element("p", { class: "where" }, lineButton(finding.location));
  where.append(element("a", { href: `../rules/${finding.rule}.html` }, finding.rule));
  if (finding.fix?.edits?.length) {
    const label = finding.fix.safe ? "Fix" : "Unsafe fix";
    where.append(element("button", { type: "button", onclick: () => apply(finding.fix), title: finding.fix.title }, label));
  }
  card.append(where);
  return card;
}

function causeCard(cause, isOnly) {
  const card = element("article", { class: "note" });
  card.append(element("h3", {}, element("span", { class: "level" }, isOnly ? "cause" : "likely"), " ", ...prose(cause.cause || cause.name)));
  if (cause.fix) card.append(element("p", {}, element("b", {}, "Help: "), ...prose(cause.fix)));
  if (cause.page) card.append(element("p", { class: "where" }, element("a", { href: `../rules/${cause.page}.html` }, cause.page)));
  return card;
}

function say(text, isGood = false) {
  $("state").textContent = text;
  $("state").className = isGood ? "good" : "";
}

const counted = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

function showFindings(answer) {
  view.dispatch(
    setDiagnostics(
      view.state,
      answer.findings.map((one) => ({
        ...rangeOf(one.location),
        severity: SEVERITIES[one.level],
        source: one.rule,
        message: one.message,
        actions: one.fix?.edits?.length ? [{ name: "Fix", apply: () => apply(one.fix) }] : [],
      })),
    ),
  );
  $("answers").replaceChildren(...answer.findings.map(findingCard));
  const unjudged = (answer.unjudged ?? []).map((one) => one.reason ?? "").filter(Boolean);
  if (answer.findings.length) say(counted(answer.findings.length, "finding"));
  else if (unjudged.length) say(`Not judged: ${unjudged[0]}.`);
  else say(code().trim() ? "No findings." : "Nothing to check yet.", Boolean(code().trim()));
}

function showError(answer) {
  view.dispatch(setDiagnostics(view.state, []));
  const { causes } = answer;
  $("answers").replaceChildren(...causes.map((cause) => causeCard(cause, causes.length === 1)));
  say(causes.length ? `${answer.error} (${counted(causes.length, "possible cause")})` : `${answer.error}: no known cause.`);
}

let asked = "";

async function show() {
  const text = code();
  asked = text;
  if (!checker.isReady) return;
  const began = performance.now();
  try {
    const answer = await checker.check(text);
    if (asked !== text) return;
    if (answer.kind === "error") showError(answer);
    else showFindings(answer);
    document.body.dataset.text = String([...text].length); // of what is shown now
    performance.measure("lintrain-check", { start: began });
  } catch (error) {
    say(`lintrain failed: ${error.message}`);
  }
}

const checker = new Checker(
  () => {
    document.body.dataset.ready = "yes";
    show();
  },
  (reason) => say(`Python could not be loaded: ${reason}`),
);

// ---------------------------------------------------------------------------------------------------- around it

async function loadExamples() {
  const examples = await (await fetch(new URL("examples.json", import.meta.url))).json();
  for (const [index, example] of examples.entries()) $("example").append(element("option", { value: index }, example.title));
  $("example").addEventListener("change", () => setCode(examples[Number($("example").value)].text));
  return examples[0].text;
}

function setTheme(isDark) {
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  $("theme").setAttribute("aria-pressed", String(isDark));
}

$("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme !== "dark"));
setTheme(matchMedia("(prefers-color-scheme: dark)").matches);

$("share").addEventListener("click", async () => {
  window.history.replaceState(null, "", await withText(location.href, code()));
  try {
    await navigator.clipboard.writeText(location.href);
    $("share").textContent = "Copied";
  } catch {
    $("share").textContent = "It is in the address";
  }
  setTimeout(() => ($("share").textContent = "Copy link"), 2000);
});


const [first, shared] = await Promise.all([loadExamples(), textOf(location.href)]);
setCode(shared ?? first);
show();
