// Finding the server: the candidates in order, and the result of trying each of them.

import { execFile } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";

/** The input of the search. */
export interface Surroundings {
  /** The setting `lintrain.path`, with its variables filled in; empty if it is not set. */
  path: string;
  /** The interpreters that the Python extension has selected for the folders. */
  interpreters: string[];
  /** The workspace's folders. */
  folders: string[];
  /** The environment that this extension creates on request. */
  ownEnvironment: string;
  /** In an untrusted workspace, no program of the workspace is run. */
  isTrusted: boolean;
  /** The variable PATH. */
  searchPath: string;
  platform: NodeJS.Platform;
}

/** A possible server; `isInterpreter` tells a Python from the program itself. */
export interface Candidate {
  origin: string;
  program: string;
  isInterpreter: boolean;
}

/** A server that can be started. */
export interface Server extends Candidate {
  version: string;
}

/** A candidate that cannot serve, and why. */
export interface Miss {
  origin: string;
  program: string;
  reason: string;
}

export interface Search {
  server?: Server;
  misses: Miss[];
}

/** The result of running a program. */
export interface Answer {
  code: number;
  stdout: string;
  stderr: string;
}

export type Run = (program: string, given: string[]) => Promise<Answer>;

/** The command line of a candidate's server, or of another lintrain command. */
export function commandOf(candidate: Candidate, ...given: string[]): { command: string; args: string[] } {
  // With -P, no module of the workspace is imported instead of lintrain's.
  const args = candidate.isInterpreter ? ["-P", "-m", "lintrain", ...given] : given;
  return { command: candidate.program, args };
}

/** The candidates in order; the setting `lintrain.path` excludes all others. */
export function candidates(around: Surroundings, exists: (file: string) => boolean = isFile): Candidate[] {
  if (around.path) {
    const isInterpreter = /^python[\d.]*(\.exe)?$/i.test(path.basename(around.path));
    return [{ origin: "the setting `lintrain.path`", program: around.path, isInterpreter }];
  }
  const found: Candidate[] = [];
  if (around.isTrusted) {
    found.push(...around.interpreters.map((program) => interpreter("the selected interpreter", program)));
    for (const folder of around.folders) {
      const python = interpreterIn(path.join(folder, ".venv"), around.platform);
      if (exists(python)) found.push(interpreter("the workspace's `.venv`", python));
    }
  }
  found.push(...onSearchPath(around, exists));
  const own = interpreterIn(around.ownEnvironment, around.platform);
  if (exists(own)) found.push(interpreter("the extension's own environment", own));
  return found.filter((each, at) => found.findIndex((other) => other.program === each.program) === at);
}

/** Try the candidates in turn; the first that can serve is the server. */
export async function findServer(tried: Candidate[], run: Run = runProgram): Promise<Search> {
  const misses: Miss[] = [];
  for (const candidate of tried) {
    const { version, reason } = await (candidate.isInterpreter ? askInterpreter : askProgram)(candidate.program, run);
    if (version) return { server: { ...candidate, version }, misses };
    misses.push({ origin: candidate.origin, program: candidate.program, reason: reason ?? "" });
  }
  return { misses };
}

/** The Python of an environment. */
export function interpreterIn(environment: string, platform: NodeJS.Platform): string {
  return platform === "win32"
    ? path.join(environment, "Scripts", "python.exe")
    : path.join(environment, "bin", "python");
}

/** Run a program and wait for its end; the code is -1 if it cannot be started. Nothing is written to it. */
export function runProgram(program: string, given: string[]): Promise<Answer> {
  return new Promise((resolve) => {
    const options = { cwd: os.tmpdir(), timeout: 30_000, windowsHide: true, encoding: "utf8" as const };
    const child = execFile(program, given, options, (error, stdout, stderr) => {
      const code = error ? (typeof error.code === "number" ? error.code : -1) : 0;
      resolve({ code, stdout, stderr: stderr || (error?.message ?? "") });
    });
    child.stdin?.on("error", () => undefined); // the program ends without reading
    child.stdin?.end();
  });
}

const QUESTION = `
import sys
sys.path = [entry for entry in sys.path if entry]
import importlib.metadata as metadata, json
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
print(json.dumps({"python": sys.version_info[:2], "lintrain": version("lintrain"), "pygls": version("pygls")}))
`;

interface Installed {
  python: [number, number];
  lintrain: string | null;
  pygls: string | null;
}

type Verdict = { version?: string; reason?: string };

async function askInterpreter(program: string, run: Run): Promise<Verdict> {
  const answer = await run(program, ["-c", QUESTION]);
  if (answer.code !== 0) return { reason: `it cannot be run (${lastLine(answer)})` };
  let installed: Installed;
  try {
    installed = JSON.parse(answer.stdout) as Installed;
  } catch {
    return { reason: "it is no Python" };
  }
  if (!installed.lintrain) return { reason: "it has no lintrain" };
  if (!installed.pygls) return { reason: 'it has lintrain but not its server; `pip install "lintrain[lsp]"` brings that' };
  return { version: installed.lintrain };
}

/** A server ends at once if its input is closed: a program whose server does so can serve. */
async function askProgram(program: string, run: Run): Promise<Verdict> {
  const [about, served] = await Promise.all([run(program, ["--version"]), run(program, ["server"])]);
  const version = /^lintrain (\S+)\s*$/.exec(about.stdout)?.[1];
  if (!version) return { reason: about.code === 0 ? "it is no lintrain" : `it cannot be run (${lastLine(about)})` };
  if (served.code !== 0) return { reason: `its server does not start (${lastLine(served)})` };
  return { version };
}

function lastLine(answer: Answer): string {
  const line = answer.stderr.trim().split(/\r?\n/).at(-1) ?? "";
  return line || `exit code ${answer.code}`;
}

function interpreter(origin: string, program: string): Candidate {
  return { origin, program, isInterpreter: true };
}

function onSearchPath(around: Surroundings, exists: (file: string) => boolean): Candidate[] {
  const name = around.platform === "win32" ? "lintrain.exe" : "lintrain";
  const separator = around.platform === "win32" ? ";" : ":";
  const mayRun = (folder: string) => path.isAbsolute(folder) && (around.isTrusted || !isInside(folder, around.folders));
  const programs = around.searchPath.split(separator).filter(mayRun).map((folder) => path.join(folder, name));
  return programs.filter(exists).map((program) => ({ origin: "PATH", program, isInterpreter: false }));
}

function isInside(folder: string, workspace: string[]): boolean {
  return workspace.some((root) => {
    const relative = path.relative(root, folder);
    return !relative.startsWith("..") && !path.isAbsolute(relative);
  });
}

function isFile(file: string): boolean {
  try {
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}
