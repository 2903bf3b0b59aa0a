// An environment of the extension's own with lintrain in it, made when the user asks for it.

import { spawn } from "node:child_process";
import * as path from "node:path";

import { interpreterIn, type Run, runProgram } from "./finding.ts";

export const REQUIREMENT = "lintrain[lsp]";
/** What the line of a step begins with that is started; the others are what it says. */
export const COMMAND = "$ ";
const OLDEST = [3, 11] as const;
const QUESTION = "import sys; print(*sys.version_info[:2])";

/** Run a step whose lines are shown as they come; rejects when it fails or is cancelled. */
export type Step = (program: string, given: string[]) => Promise<void>;

/** The first Python that lintrain runs on, of those at hand. */
export async function findPython(
  interpreters: string[],
  platform: NodeJS.Platform,
  run: Run = runProgram,
): Promise<string | undefined> {
  const named = platform === "win32" ? ["py", "python"] : ["python3.14", "python3.13", "python3.12", "python3.11", "python3"];
  for (const program of [...interpreters, ...named]) {
    const answer = await run(program, ["-c", QUESTION]);
    const [major = 0, minor = 0] = answer.stdout.trim().split(" ").map(Number);
    if (answer.code === 0 && (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]))) return program;
  }
  return undefined;
}

/** Make the environment, anew where it is there, and install the newest server into it. */
export async function install(python: string, environment: string, platform: NodeJS.Platform, step: Step): Promise<void> {
  await step(python, ["-m", "venv", "--clear", environment]);
  const own = interpreterIn(environment, platform);
  await step(own, ["-m", "pip", "install", "--disable-pip-version-check", REQUIREMENT]);
}

/** Runs steps; each line goes to `log`, and the signal ends the one that is under way. */
export function stepsWith(log: (line: string) => void, signal: AbortSignal): Step {
  return (program, given) =>
    new Promise((resolve, reject) => {
      log(`${COMMAND}${program} ${given.join(" ")}`);
      const child = spawn(program, given, { signal, windowsHide: true, stdio: ["ignore", "pipe", "pipe"] });
      for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding("utf8");
        stream.on("data", (text: string) => text.split(/\r?\n/).filter(Boolean).forEach(log));
      }
      child.on("error", reject);
      child.on("close", (code) => {
        if (code === 0) resolve();
        else reject(new Error(`\`${path.basename(program)} ${given.slice(0, 3).join(" ")}\` ended with ${code}`));
      });
    });
}
