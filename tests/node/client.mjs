// A client of the language server, made of the packages that VS Code's own is made of.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import {
  createProtocolConnection,
  DidOpenTextDocumentNotification,
  ExitNotification,
  InitializedNotification,
  InitializeRequest,
  PublishDiagnosticsNotification,
  ShutdownRequest,
  StreamMessageReader,
  StreamMessageWriter,
} from "vscode-languageserver-protocol/node";

const PYTHON = process.env.LINTRAIN_PYTHON ?? "python3";

/** What VS Code says of itself, as far as it matters here. */
export const PULLS = {
  textDocument: {
    diagnostic: { relatedDocumentSupport: true },
    hover: { contentFormat: ["markdown"] },
    codeAction: {
      codeActionLiteralSupport: { codeActionKind: { valueSet: ["", "quickfix", "source", "source.fixAll"] } },
      dataSupport: true,
      resolveSupport: { properties: ["edit"] },
    },
  },
  notebookDocument: { synchronization: { executionSummarySupport: true } },
  workspace: { workspaceEdit: { documentChanges: true } },
};

/** A client that is told of diagnostics. */
export const IS_TOLD = { ...PULLS, textDocument: { ...PULLS.textDocument, diagnostic: undefined } };

/** A server in a process of its own, a connection to it, and a folder for files; `end` ends all three. */
export async function start(capabilities) {
  const folder = mkdtempSync(join(tmpdir(), "lintrain-client-"));
  const environment = { ...process.env, LINTRAIN_CACHE_DIR: join(folder, "cache") };
  const server = spawn(PYTHON, ["-m", "lintrain", "server"], { cwd: folder, env: environment });
  let complaints = "";
  server.stderr.on("data", (text) => (complaints += text));
  const ended = new Promise((resolve) => server.on("close", resolve));
  const connection = createProtocolConnection(
    new StreamMessageReader(server.stdout),
    new StreamMessageWriter(server.stdin),
  );
  const told = new Told(connection);
  connection.listen();
  const root = pathToFileURL(folder).href;
  const { capabilities: offered } = await connection.sendRequest(InitializeRequest.type, {
    processId: process.pid,
    rootUri: root,
    workspaceFolders: [{ uri: root, name: "project" }],
    capabilities,
  });
  await connection.sendNotification(InitializedNotification.type, {});
  return {
    connection,
    offered,
    told,
    open: (name, text) => open(connection, join(folder, name), text),
    end: async () => {
      await connection.sendRequest(ShutdownRequest.type);
      await connection.sendNotification(ExitNotification.type);
      const code = await ended;
      connection.dispose();
      rmSync(folder, { recursive: true });
      return { code, complaints };
    },
  };
}

/** Write a file and open it; gives its address. */
async function open(connection, file, text) {
  writeFileSync(file, text);
  const uri = pathToFileURL(file).href;
  const textDocument = { uri, languageId: "python", version: 1, text };
  await connection.sendNotification(DidOpenTextDocumentNotification.type, { textDocument });
  return uri;
}

/** The diagnostics that were sent unasked. */
class Told {
  #last = new Map();
  #waiting = [];

  constructor(connection) {
    connection.onNotification(PublishDiagnosticsNotification.type, (given) => {
      this.#last.set(given.uri, given);
      this.#waiting = this.#waiting.filter((each) => !each(given));
    });
  }

  /** Whether anything was sent. */
  get isEmpty() {
    return this.#last.size === 0;
  }

  /** Those of a text, as soon as they are of this version. */
  of(uri, version) {
    const is = (given) => given?.uri === uri && given.version === version;
    if (is(this.#last.get(uri))) return Promise.resolve(this.#last.get(uri).diagnostics);
    return new Promise((resolve) => {
      this.#waiting.push((given) => {
        if (is(given)) resolve(given.diagnostics);
        return is(given);
      });
    });
  }
}

/** A text with edits written into it. */
export function applied(text, edits) {
  const starts = [0, ...[...text.matchAll(/\n/g)].map((match) => match.index + 1)];
  const offset = ({ line, character }) => starts[line] + character;
  const last = [...edits].sort((one, other) => offset(other.range.start) - offset(one.range.start));
  return last.reduce(
    (done, { range, newText }) => done.slice(0, offset(range.start)) + newText + done.slice(offset(range.end)),
    text,
  );
}
