// Where VS Code starts the extension.

import * as vscode from "vscode";

import { explainRule, fixAll, menu, probeThisRun, showReport } from "./commands.ts";
import { Connection } from "./connection.ts";
import { Interpreters } from "./interpreters.ts";
import { Status } from "./status.ts";

const LOG = "Show Log";
const SETTING = "Set Its Path";

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("lintrain", { log: true });
  const status = new Status("lintrain.menu");
  const interpreters = new Interpreters((line) => log.warn(line));
  const bundle = vscode.Uri.joinPath(context.extensionUri, "server", "run.py").fsPath;
  const connection = new Connection(log, status, interpreters, bundle);
  context.subscriptions.push(log, status, connection);

  const restart = async () => {
    if (!(await connection.restart())) await offer(connection, log);
  };
  const commands: Record<string, () => unknown> = {
    "lintrain.restart": restart,
    "lintrain.showLog": () => log.show(),
    "lintrain.menu": () => menu(connection),
    "lintrain.probeThisRun": () => probeThisRun(connection),
    "lintrain.showReport": () => showReport(connection),
    "lintrain.explainRule": () => explainRule(connection),
    "lintrain.fixAll": () => fixAll(connection),
  };
  for (const [name, command] of Object.entries(commands)) {
    context.subscriptions.push(vscode.commands.registerCommand(name, command));
  }
  const follow = async () => {
    const selected = await interpreters.follow(() => void connection.restart());
    if (selected) context.subscriptions.push(selected);
  };
  const retry = () => (connection.server ? undefined : void connection.restart());
  context.subscriptions.push(
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("lintrain.path")) void restart();
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(async () => {
      await follow();
      await restart();
    }),
    vscode.workspace.onDidChangeWorkspaceFolders(retry),
  );
  await follow();
  // The question is not waited for: the editor counts how long an extension takes to start.
  if (!(await connection.restart())) void offer(connection, log);
}

/** Say why there is no server, and offer what can be done; nothing is ever installed. */
async function offer(connection: Connection, log: vscode.LogOutputChannel): Promise<void> {
  const setting = connection.lookedAt.find((miss) => miss.origin.includes("lintrain.path"));
  const text = setting
    ? `lintrain: \`${setting.program}\`, which \`lintrain.path\` names, cannot serve: ${setting.reason}`
    : "lintrain: the server needs Python 3.11 or newer, and none was found. Install one, or name it in `lintrain.path`";
  const chosen = await vscode.window.showWarningMessage(text, SETTING, LOG);
  if (chosen === SETTING) await vscode.commands.executeCommand("workbench.action.openSettings", "lintrain.path");
  if (chosen === LOG) log.show();
}
