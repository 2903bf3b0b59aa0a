// What happens between the server and the editor: settings are filled in, scripts saved before a probe, pages shown.

import * as vscode from "vscode";
import type { Middleware } from "vscode-languageclient/node";

import type { Interpreters } from "./interpreters.ts";
import type { ProbeProgress } from "./progress.ts";
import { openReport } from "./report.ts";
import { forServer, type Settings } from "./settings.ts";

const PROBE = "lintrain.probe";

export function middleware(interpreters: Interpreters, progress: ProbeProgress): Middleware {
  return {
    handleWorkDoneProgress: (token, step) => progress.take(token, step),
    workspace: {
      configuration: async (params, token, next) => {
        const answers = await next(params, token);
        if (!Array.isArray(answers)) return answers;
        return params.items.map((item, at) => settingsFor(item.scopeUri, answers[at] as Settings | null, interpreters));
      },
    },
    window: {
      showDocument: async (params, token, next) => {
        const file = vscode.Uri.parse(params.uri);
        if (file.path.endsWith(".md")) await vscode.commands.executeCommand("markdown.showPreview", file);
        else if (file.path.endsWith(".html")) await openReport(file);
        else return next(params, token);
        return { success: true };
      },
    },
    executeCommand: async (command, given, next) => {
      if (command === PROBE && !(await mayProbe(given[0] as string))) return undefined;
      return (await next(command, given)) as unknown;
    },
  };
}

function settingsFor(scope: string | undefined, given: Settings | null, interpreters: Interpreters) {
  const uri = scope === undefined ? undefined : vscode.Uri.parse(scope);
  const folder = (uri && vscode.workspace.getWorkspaceFolder(uri)) ?? vscode.workspace.workspaceFolders?.[0];
  const path = folder?.uri.fsPath;
  const interpreter = interpreters.of(path);
  const known = { isTrusted: vscode.workspace.isTrusted, ...(path && { folder: path }), ...(interpreter && { interpreter }) };
  return forServer(given ?? {}, known);
}

/** Whether a script may be probed, saved as a debugger would save it. */
async function mayProbe(address: string): Promise<boolean> {
  if (!vscode.workspace.isTrusted) {
    void vscode.window.showWarningMessage("lintrain: a probe runs the script, and this workspace is not trusted");
    return false;
  }
  const uri = vscode.Uri.parse(address).toString();
  const same = (document: { uri: vscode.Uri }) => document.uri.toString() === uri;
  const document = vscode.workspace.notebookDocuments.find(same) ?? vscode.workspace.textDocuments.find(same);
  return document?.isDirty ? await document.save() : true;
}
