// What the server answers to a client of the same make as VS Code's.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import {
  CancellationTokenSource,
  CodeActionRequest,
  CodeActionResolveRequest,
  CodeLensRequest,
  DidChangeNotebookDocumentNotification,
  DidChangeTextDocumentNotification,
  DidOpenNotebookDocumentNotification,
  DocumentDiagnosticRequest,
  ExecuteCommandRequest,
  HoverRequest,
  LSPErrorCodes,
} from "vscode-languageserver-protocol/node";

import { applied, IS_TOLD, PULLS, start } from "./client.mjs";

const LOOP = `import torch

net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 3, (8,)))
    loss.backward()
    optimizer.step()
`;
const CLEARED = LOOP.replace("    loss.backward()", "    optimizer.zero_grad()\n    loss.backward()");
const SAID = { line: 6, character: 8 };
const HERE = { start: SAID, end: SAID };

let client;
before(async () => (client = await start(PULLS)));
after(() => client.end());

const ask = (type, params, token) => client.connection.sendRequest(type, params, token);
const rules = (diagnostics) => diagnostics.map((each) => each.code).sort();
const diagnose = async (uri) => (await ask(DocumentDiagnosticRequest.type, { textDocument: { uri } })).items;

async function change(uri, version, text) {
  const params = { textDocument: { uri, version }, contentChanges: [{ text }] };
  await client.connection.sendNotification(DidChangeTextDocumentNotification.type, params);
}

/** The edits of a text in the action whose title begins so. */
async function edits(uri, beginning, context) {
  const params = { textDocument: { uri }, range: HERE, context };
  const offered = await ask(CodeActionRequest.type, params);
  const chosen = offered.find((each) => each.title.startsWith(beginning));
  assert.ok(chosen, `${beginning} is not among ${offered.map((each) => each.title).join(", ")}`);
  const { edit } = await ask(CodeActionResolveRequest.type, chosen);
  assert.deepEqual(edit.documentChanges.map((each) => each.textDocument.uri), [uri]);
  return edit.documentChanges[0].edits;
}

test("diagnostics are of the text as it is typed", async () => {
  const uri = await client.open("typed.py", LOOP);
  const [found] = await diagnose(uri);
  assert.deepEqual([found.code, found.source, found.range.start], ["missing-zero-grad", "lintrain", { line: 6, character: 4 }]);
  await change(uri, 2, CLEARED);
  assert.deepEqual(await diagnose(uri), []);
});

test("the quick fix mends the finding", async () => {
  const uri = await client.open("quick.py", LOOP);
  const diagnostics = await diagnose(uri);
  const offered = await ask(CodeActionRequest.type, {
    textDocument: { uri },
    range: HERE,
    context: { diagnostics, only: ["quickfix"] },
  });
  const fix = offered.find((each) => each.isPreferred);
  assert.deepEqual(rules(fix.diagnostics), ["missing-zero-grad"]);
  const { edit } = await ask(CodeActionResolveRequest.type, fix);
  await change(uri, 2, applied(LOOP, edit.documentChanges[0].edits));
  assert.deepEqual(await diagnose(uri), []);
});

test("a finding can be silenced where it is", async () => {
  const uri = await client.open("silenced.py", LOOP);
  const text = applied(LOOP, await edits(uri, "lintrain: ignore", { diagnostics: [] }));
  assert.match(text.split("\n")[SAID.line], /# lintrain: ignore\[missing-zero-grad\]/);
  await change(uri, 2, text);
  assert.deepEqual(await diagnose(uri), []);
});

test("all safe fixes come with the kind that is asked for when a file is saved", async () => {
  const uri = await client.open("all.py", LOOP);
  const mended = applied(LOOP, await edits(uri, "lintrain: apply all safe fixes", { diagnostics: [], only: ["source.fixAll"] }));
  await change(uri, 2, mended);
  assert.deepEqual(await diagnose(uri), []);
});

test("a hover tells what the finding means", async () => {
  const uri = await client.open("hover.py", LOOP);
  const { contents, range } = await ask(HoverRequest.type, { textDocument: { uri }, position: SAID });
  assert.equal(contents.kind, "markdown");
  assert.match(contents.value, /^\*\*missing-zero-grad\*\*: /);
  assert.equal(range.start.line, SAID.line);
  assert.equal(await ask(HoverRequest.type, { textDocument: { uri }, position: { line: 1, character: 0 } }), null);
});

test("a lens over the training offers the probe", async () => {
  const uri = await client.open("lens.py", LOOP);
  const [lens, ...others] = await ask(CodeLensRequest.type, { textDocument: { uri } });
  assert.deepEqual(others, []);
  assert.deepEqual([lens.command.command, lens.command.arguments], ["lintrain.probe", [uri]]);
  assert.ok(client.offered.executeCommandProvider.commands.includes("lintrain.probe"));
});

test("the page of a rule can be asked for", async () => {
  const page = await ask(ExecuteCommandRequest.type, { command: "lintrain.explain", arguments: ["missing-zero-grad"] });
  assert.match(page, /^# missing-zero-grad: .*## Bad/s);
});

test("a cell shows its own findings, and its fix stays in it", async () => {
  const [notebook, first, second] = ["nb.ipynb", "nb.ipynb#1", "nb.ipynb#2"].map((name) => `file:///nowhere/${name}`);
  const at = LOOP.indexOf("for step");
  const texts = { [first]: LOOP.slice(0, at), [second]: LOOP.slice(at) };
  await client.connection.sendNotification(DidOpenNotebookDocumentNotification.type, {
    notebookDocument: {
      uri: notebook,
      notebookType: "jupyter-notebook",
      version: 1,
      cells: [first, second].map((document) => ({ kind: 2, document })),
    },
    cellTextDocuments: Object.entries(texts).map(([uri, text]) => ({ uri, languageId: "python", version: 1, text })),
  });
  assert.deepEqual(rules(await diagnose(first)), []);
  const [found] = await diagnose(second);
  assert.deepEqual([found.code, found.range.start.line], ["missing-zero-grad", 2]);

  const params = { textDocument: { uri: second }, range: found.range, context: { diagnostics: [found] } };
  const fix = (await ask(CodeActionRequest.type, params)).find((each) => each.isPreferred);
  const { edit } = await ask(CodeActionResolveRequest.type, fix);
  assert.deepEqual(edit.documentChanges.map((each) => each.textDocument.uri), [second]);
  const mended = applied(texts[second], edit.documentChanges[0].edits);
  await client.connection.sendNotification(DidChangeNotebookDocumentNotification.type, {
    notebookDocument: { uri: notebook, version: 2 },
    change: { cells: { textContent: [{ document: { uri: second, version: 2 }, changes: [{ text: mended }] }] } },
  });
  assert.deepEqual(await diagnose(second), []);
});

test("a question that is taken back is answered so, and the next one is answered", async () => {
  const uri = await client.open("long.py", LOOP + "value = 1\n".repeat(20_000));
  const source = new CancellationTokenSource();
  const asked = ask(DocumentDiagnosticRequest.type, { textDocument: { uri } }, source.token);
  source.cancel();
  await assert.rejects(asked, { code: LSPErrorCodes.RequestCancelled });
  assert.deepEqual(rules(await diagnose(uri)), ["missing-zero-grad"]);
});

test("a client that pulls is told nothing unasked", () => assert.ok(client.told.isEmpty));

test("a client that does not pull is told, and the server ends in peace", async () => {
  const other = await start(IS_TOLD);
  assert.equal(other.offered.diagnosticProvider, undefined);
  const uri = await other.open("told.py", LOOP);
  assert.deepEqual(rules(await other.told.of(uri, 1)), ["missing-zero-grad"]);
  const params = { textDocument: { uri, version: 2 }, contentChanges: [{ text: CLEARED }] };
  await other.connection.sendNotification(DidChangeTextDocumentNotification.type, params);
  assert.deepEqual(await other.told.of(uri, 2), []);
  assert.deepEqual(await other.end(), { code: 0, complaints: "" });
});
