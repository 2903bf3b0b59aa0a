// The interpreters that are selected in the Python extension, where that is installed.

import * as vscode from "vscode";

interface PythonEnvironment {
  executable: { uri: vscode.Uri | undefined };
  /** None for an interpreter that is installed for the whole machine. */
  environment: unknown;
}

/** The part of ms-python's interface that is used here. */
interface PythonExtension {
  environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(given: { path: string }): Promise<PythonEnvironment | undefined>;
    onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

/** The selected interpreters by folder, as far as they are environments' own. */
export class Interpreters {
  private readonly byFolder = new Map<string, string>();
  private readonly log: (line: string) => void;

  constructor(log: (line: string) => void) {
    this.log = log;
  }

  of(folder: string | undefined): string | undefined {
    return folder === undefined ? undefined : this.byFolder.get(folder);
  }

  all(): string[] {
    return [...new Set(this.byFolder.values())];
  }

  /** Call back when another interpreter is selected. */
  async follow(changed: () => void): Promise<vscode.Disposable | undefined> {
    const python = await this.extension();
    return python?.environments.onDidChangeActiveEnvironmentPath(changed);
  }

  /** Ask what is selected now; gives whether it is another than before. */
  async refresh(folders: readonly vscode.WorkspaceFolder[]): Promise<boolean> {
    const before = JSON.stringify([...this.byFolder]);
    const python = await this.extension();
    this.byFolder.clear();
    for (const folder of python ? folders : []) {
      const selected = await python?.environments.resolveEnvironment(
        python.environments.getActiveEnvironmentPath(folder.uri),
      );
      if (selected?.environment && selected.executable.uri) {
        this.byFolder.set(folder.uri.fsPath, selected.executable.uri.fsPath);
      }
    }
    return JSON.stringify([...this.byFolder]) !== before;
  }

  private async extension(): Promise<PythonExtension | undefined> {
    const extension = vscode.extensions.getExtension<PythonExtension>("ms-python.python");
    if (!extension || !vscode.workspace.isTrusted) return undefined;
    try {
      return extension.isActive ? extension.exports : await extension.activate();
    } catch (error) {
      this.log(`the Python extension does not start (${String(error)}); its interpreters are left out`);
      return undefined;
    }
  }
}
