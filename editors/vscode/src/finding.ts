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
  /** The program of the server that this extension brings, which any Python runs. */
  bundle: string;
  /** In an untrusted workspace, no program of the workspace is run. */
  isTrusted: boolean;
  /** The variable PATH. */
  searchPath: string;
  platform: NodeJS.Platform;
}

/** A possible server; `isInterpreter` tells a Python from the program itself, which then runs `bundle` if there is one. */
export interface Candidate {
  origin: string;
  program: string;
  isInterpreter: boolean;
  bundle?: string;
}

/** A server that can be started; `missing` are the packages that it lacks. */
export interface Server extends Candidate {
  version: string;
  missing: string[];
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

/** Where the server of this extension is from, as messages name it. */
export const BUNDLED = "the extension itself";
const PYTHONS = ["python3.14", "python3.13", "python3.12", "python3.11", "python3", "python"];
const OLDEST = [3, 11] as const;
const VERSION = /^lintrain (\S+)\s*$/;

export type Run = (program: string, given: string[]) => Promise<Answer>;

/** The command line of a candidate's server, or of another lintrain command. */
export function commandOf(candidate: Candidate, ...given: string[]): { command: string; args: string[] } {
  // With -P, no module of the workspace is imported instead of lintrain's.
  const lintrain = candidate.bundle ? [candidate.bundle] : ["-m", "lintrain"];
  return { command: candidate.program, args: candidate.isInterpreter ? ["-P", ...lintrain, ...given] : given };
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
  found.push(...onSearchPath(around, exists, "lintrain").map((program) => ({ origin: "PATH", program, isInterpreter: false })));
  if (exists(around.bundle)) {
    const selected = around.isTrusted ? around.interpreters : [];
    const pythons = [...selected, ...PYTHONS.flatMap((name) => onSearchPath(around, exists, name))];
    found.push(...pythons.map((program) => ({ ...interpreter(BUNDLED, program), bundle: around.bundle })));
  }
  const same = (one: Candidate, other: Candidate) => one.program === other.program && one.bundle === other.bundle;
  return found.filter((each, at) => found.findIndex((other) => same(each, other)) === at);
}

/** Try the candidates in turn; the first that can serve is the server. */
export async function findServer(tried: Candidate[], run: Run = runProgram): Promise<Search> {
  const misses: Miss[] = [];
  for (const candidate of tried) {
    const ask = candidate.bundle ? askBundle : candidate.isInterpreter ? askInterpreter : askProgram;
    const { version, missing, reason } = await ask(candidate, run);
    if (version) return { server: { ...candidate, version, missing: missing ?? [] }, misses };
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
import importlib.metadata as metadata, importlib.util, json
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
missing = [name for name in ("libcst", "pydantic", "ruff") if importlib.util.find_spec(name) is None]
found = {"python": sys.version_info[:2], "lintrain": version("lintrain"), "pygls": version("pygls"), "missing": missing}
print(json.dumps(found))
`;

interface Installed {
  python: [number, number];
  lintrain: string | null;
  pygls: string | null;
  missing: string[];
}

type Verdict = { version?: string; missing?: string[]; reason?: string };

async function askInterpreter({ program }: Candidate, run: Run): Promise<Verdict> {
  const installed = await packagesOf(program, run);
  if ("reason" in installed) return installed;
  if (!installed.lintrain) return { reason: "it has no lintrain" };
  if (!installed.pygls) return { reason: `it has lintrain but not pygls; \`${program} -m pip install pygls\` brings that` };
  return { version: installed.lintrain, missing: installed.missing };
}

/** The server of this extension, which runs on any Python that is new enough. */
async function askBundle(candidate: Candidate, run: Run): Promise<Verdict> {
  const installed = await packagesOf(candidate.program, run);
  if ("reason" in installed) return installed;
  const [major, minor] = installed.python;
  if (major !== OLDEST[0] || minor < OLDEST[1]) return { reason: `it is Python ${major}.${minor}; 3.11 is needed` };
  const { command, args } = commandOf(candidate, "--version");
  const answer = await run(command, args);
  const version = VERSION.exec(answer.stdout)?.[1];
  return version ? { version, missing: installed.missing } : { reason: `it does not start (${lastLine(answer)})` };
}

async function packagesOf(program: string, run: Run): Promise<Installed | { reason: string }> {
  const answer = await run(program, ["-c", QUESTION]);
  if (answer.code !== 0) return { reason: `it cannot be run (${lastLine(answer)})` };
  try {
    return JSON.parse(answer.stdout) as Installed;
  } catch {
    return { reason: "it is no Python" };
  }
}

/** A server ends at once if its input is closed: a program whose server does so can serve. */
async function askProgram({ program }: Candidate, run: Run): Promise<Verdict> {
  const [about, served] = await Promise.all([run(program, ["--version"]), run(program, ["server"])]);
  const version = VERSION.exec(about.stdout)?.[1];
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

/** The programs of a name on PATH; in a workspace that is not trusted, none of the workspace. */
function onSearchPath(around: Surroundings, exists: (file: string) => boolean, program: string): string[] {
  const name = around.platform === "win32" ? `${program}.exe` : program;
  const separator = around.platform === "win32" ? ";" : ":";
  const mayRun = (folder: string) => path.isAbsolute(folder) && (around.isTrusted || !isInside(folder, around.folders));
  const programs = around.searchPath.split(separator).filter(mayRun).map((folder) => path.join(folder, name));
  return programs.filter(exists);
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
