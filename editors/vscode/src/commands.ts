// The commands of the palette and of the status item.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import * as vscode from "vscode";

import type { Connection } from "./connection.ts";
import { commandOf, type Server } from "./finding.ts";

const PATH = "Set Its Path";
const LOG = "Show Log";
const run = promisify(execFile);
const FIX_ALL = vscode.CodeActionKind.SourceFixAll.append("lintrain");

interface Rule {
  name: string;
  stage: string;
  title: string;
}

/** Probe the script or notebook that is in front. */
export async function probeThisRun(connection: Connection): Promise<void> {
  const uri = inFront();
  if (!uri) return tell("open the script or notebook that trains");
  const { server } = connection;
  if (!server) return noServer();
  if (server.missing.includes("pydantic")) return lacks(server, "pydantic", "probes no script");
  // The server's own command, as its code lens gives it.
  await vscode.commands.executeCommand("lintrain.probe", uri.toString());
}

/** Show the report of the last probe of the script or notebook that is in front. */
export async function showReport(connection: Connection): Promise<void> {
  const uri = inFront();
  if (!uri) return tell("open the script or notebook that was probed");
  if (!connection.server) return noServer();
  await vscode.commands.executeCommand("lintrain.report", uri.toString());
}

/** Write all safe fixes into the script or notebook that is in front. */
export async function fixAll(connection: Connection): Promise<void> {
  const text = textInFront();
  if (!text) return tell("open a script or notebook");
  const { server } = connection;
  if (!server) return noServer();
  if (server.missing.includes("libcst")) return lacks(server, "libcst", "writes no fixes");
  const all = new vscode.Range(0, 0, text.lineCount, 0);
  const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>(
    "vscode.executeCodeActionProvider",
    text.uri,
    all,
    FIX_ALL.value,
    1, // with its edit
  );
  const edit = actions.find((action) => action.edit && action.kind && FIX_ALL.contains(action.kind))?.edit;
  if (!edit) return tell("there are no safe fixes");
  await vscode.workspace.applyEdit(edit);
}

/** Show the page of a rule; those found in the text in front come first. */
export async function explainRule(connection: Connection): Promise<void> {
  const server = connection.server;
  if (!server) return noServer();
  const { command, args } = commandOf(server, "rules", "--json");
  const listed = run(command, args, { maxBuffer: 1 << 24 }).then(({ stdout }) => choices(JSON.parse(stdout) as Rule[]));
  const chosen = await vscode.window.showQuickPick(listed, { placeHolder: "Which rule?", matchOnDescription: true });
  if (chosen) await vscode.commands.executeCommand("lintrain.explain", chosen.label);
}

/** What a click on the status item offers. */
export async function menu(connection: Connection): Promise<void> {
  const { server } = connection;
  const items: (vscode.QuickPickItem & { command?: string })[] = [
    { label: "$(output) Show Log", command: "lintrain.showLog" },
    { label: "$(debug-restart) Restart Server", command: "lintrain.restart" },
  ];
  if (server) items.push({ label: "$(book) Explain Rule…", command: "lintrain.explainRule" });
  const placeHolder = server ? `lintrain ${server.version}, ${server.program}` : "lintrain: no server is running";
  const chosen = await vscode.window.showQuickPick(items, { placeHolder });
  if (chosen?.command) await vscode.commands.executeCommand(chosen.command);
}

function choices(rules: Rule[]): vscode.QuickPickItem[] {
  const text = textInFront();
  const found = text ? vscode.languages.getDiagnostics(text.uri).filter(({ source }) => source === "lintrain") : [];
  const here = new Set(found.map(({ code }) => String(typeof code === "object" ? code.value : code)));
  const item = (rule: Rule) => ({ label: rule.name, description: rule.stage, detail: rule.title });
  const [first, rest] = [rules.filter(({ name }) => here.has(name)), rules.filter(({ name }) => !here.has(name))];
  const heading = (label: string) => ({ label, kind: vscode.QuickPickItemKind.Separator });
  if (first.length === 0) return rest.map(item);
  return [heading("in this file"), ...first.map(item), heading("all rules"), ...rest.map(item)];
}

/** The address of the notebook in front, else that of the text. */
function inFront(): vscode.Uri | undefined {
  return vscode.window.activeNotebookEditor?.notebook.uri ?? vscode.window.activeTextEditor?.document.uri;
}

/** The text in front: of a notebook the cell at work, else its first cell of Python. */
function textInFront(): vscode.TextDocument | undefined {
  const notebook = vscode.window.activeNotebookEditor;
  if (!notebook) return vscode.window.activeTextEditor?.document;
  const cells = notebook.notebook.getCells();
  const selected = cells[notebook.selection.start];
  return [...(selected ? [selected] : []), ...cells].find((cell) => cell.document.languageId === "python")?.document;
}

/** Say that no server runs, and offer the setting that names one. */
function noServer(): Promise<void> {
  return offerPath("the server is not running; the log says why, and `lintrain.path` names another one");
}

/** Say which package the server lacks for a command, and offer the setting that names another one. */
function lacks(server: Server, name: string, effect: string): Promise<void> {
  const where = server.isInterpreter ? `\`${server.program}\`` : "its Python";
  return offerPath(
    `the server from ${server.origin} ${effect}, since ${where} has no ${name}; install it there, ` +
      "or let `lintrain.path` name a Python with lintrain",
  );
}

async function offerPath(text: string): Promise<void> {
  const chosen = await vscode.window.showWarningMessage(`lintrain: ${text}`, PATH, LOG);
  if (chosen === PATH) await vscode.commands.executeCommand("workbench.action.openSettings", "lintrain.path");
  if (chosen === LOG) await vscode.commands.executeCommand("lintrain.showLog");
}

function tell(text: string): void {
  void vscode.window.showInformationMessage(`lintrain: ${text}`);
}
