// Where VS Code starts the extension.

import * as vscode from "vscode";

import { explainRule, fixAll, menu, probeThisRun } from "./commands.ts";
import { Connection } from "./connection.ts";
import { COMMAND, findPython, install, REQUIREMENT, stepsWith } from "./installing.ts";
import { Interpreters } from "./interpreters.ts";
import { Status } from "./status.ts";

const TRUSTED = "in the workspace's environment or on PATH";
const RESTRICTED = "on PATH, and the workspace's environment is not looked into while the workspace is not trusted";
const INSTALL = "Install It";
const LOG = "Show Log";
const SETTING = "Set Its Path";

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("lintrain", { log: true });
  const status = new Status("lintrain.menu");
  const interpreters = new Interpreters((line) => log.warn(line));
  const environment = vscode.Uri.joinPath(context.globalStorageUri, "environment").fsPath;
  const connection = new Connection(log, status, interpreters, environment);
  context.subscriptions.push(log, status, connection);

  const restart = async () => {
    if (!(await connection.restart())) await offer(connection, log);
  };
  const commands: Record<string, () => unknown> = {
    "lintrain.restart": restart,
    "lintrain.showLog": () => log.show(),
    "lintrain.menu": () => menu(connection),
    "lintrain.probeThisRun": () => probeThisRun(connection),
    "lintrain.explainRule": () => explainRule(connection),
    "lintrain.fixAll": () => fixAll(connection),
    "lintrain.install": () => installServer(environment, interpreters, connection, log, restart),
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

/** Say that there is no server, and offer what can be done; nothing is installed unasked. */
async function offer(connection: Connection, log: vscode.LogOutputChannel): Promise<void> {
  const setting = connection.lookedAt.find((miss) => miss.origin.includes("lintrain.path"));
  const text = setting
    ? `lintrain: \`${setting.program}\`, which \`lintrain.path\` names, cannot serve: ${setting.reason}`
    : `lintrain: no server was found ${vscode.workspace.isTrusted ? TRUSTED : RESTRICTED}. ` +
      `Shall \`${REQUIREMENT}\` be installed into an environment of this extension?`;
  const chosen = await vscode.window.showWarningMessage(text, ...(setting ? [SETTING, LOG] : [INSTALL, SETTING, LOG]));
  if (chosen === INSTALL) await vscode.commands.executeCommand("lintrain.install");
  if (chosen === SETTING) await vscode.commands.executeCommand("workbench.action.openSettings", "lintrain.path");
  if (chosen === LOG) log.show();
}

/** Make the extension's own environment, with progress that can be cancelled. */
async function installServer(
  environment: string,
  interpreters: Interpreters,
  connection: Connection,
  log: vscode.LogOutputChannel,
  restart: () => Promise<void>,
): Promise<void> {
  const python = await findPython(vscode.workspace.isTrusted ? interpreters.all() : [], process.platform);
  if (!python) {
    void vscode.window.showErrorMessage("lintrain: no Python 3.11 or newer was found to install with");
    return;
  }
  await connection.stop(); // it may be the one that is replaced
  const stop = new AbortController();
  const options = {
    location: vscode.ProgressLocation.Notification,
    title: `lintrain: installing ${REQUIREMENT}`,
    cancellable: true,
  };
  try {
    await vscode.window.withProgress(options, async (progress, token) => {
      token.onCancellationRequested(() => stop.abort());
      const step = stepsWith((line) => {
        log.info(line);
        if (!line.startsWith(COMMAND)) progress.report({ message: line.slice(0, 80) });
      }, stop.signal);
      await install(python, environment, process.platform, step);
    });
  } catch (error) {
    await connection.restart();
    if (stop.signal.aborted) return;
    log.error(String(error));
    const chosen = await vscode.window.showErrorMessage(`lintrain: could not be installed: ${String(error)}`, LOG);
    if (chosen) log.show();
    return;
  }
  await restart();
}
