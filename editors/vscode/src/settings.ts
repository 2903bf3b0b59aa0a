// The settings as the server gets them: without those that are the extension's own, and with variables filled in.

import * as os from "node:os";
import * as path from "node:path";

export type Settings = Record<string, unknown>;

/** What the settings of one folder depend on. */
export interface Scope {
  folder?: string;
  isTrusted: boolean;
  /** The environment's interpreter that is selected for the folder. */
  interpreter?: string;
}

const OWN = new Set(["path", "trace"]);

/** What the server is given for a folder; what is null is not set. */
export function forServer(given: Settings, scope: Scope): Settings {
  const settings = Object.fromEntries(Object.entries(given).filter(([name, value]) => !OWN.has(name) && value != null));
  const configuration = settings["configuration"];
  if (typeof configuration === "string") {
    if (configuration) settings["configuration"] = absolute(configuration, scope.folder);
    else delete settings["configuration"];
  }
  settings["probe"] = probe(settings["probe"], scope);
  if (!scope.isTrusted) settings["codeLens"] = false;
  return settings;
}

/** How scripts of a folder are probed; in a workspace that is not trusted none is. */
function probe(given: unknown, scope: Scope): unknown {
  if (!scope.isTrusted || given === null || typeof given !== "object") return {};
  const settings = Object.fromEntries(Object.entries(given).filter(([, value]) => value != null && value !== ""));
  const python = typeof settings["python"] === "string" ? settings["python"] : undefined;
  if (python) settings["python"] = python.includes("/") || python.includes("\\") ? absolute(python, scope.folder) : python;
  else if (scope.interpreter) settings["python"] = scope.interpreter;
  return settings;
}

/** A path with `~` and `${workspaceFolder}` filled in, counted from the folder. */
export function absolute(given: string, folder: string | undefined): string {
  let filled = given.replace(/^~(?=$|[/\\])/, os.homedir());
  filled = filled.replace(/\$\{userHome\}/g, os.homedir());
  filled = filled.replace(/\$\{env:([^}]+)\}/g, (_, name: string) => process.env[name] ?? "");
  if (folder === undefined) return filled;
  return path.resolve(folder, filled.replace(/\$\{workspaceFolder\}/g, folder));
}
