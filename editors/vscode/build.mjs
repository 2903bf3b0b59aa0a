// Bundles the extension into one file, with the licences of what is bundled; nothing is fetched.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));

if (process.argv.includes("--package") && !existsSync(join(HERE, "server", "run.py"))) {
  throw new Error("the folder `server` is missing: `python -m tools.bundle WHEEL editors/vscode` writes it");
}

const { metafile } = await build({
  absWorkingDir: HERE,
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.cjs",
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode"],
  minify: true,
  legalComments: "none", // they stand in the file of notices
  metafile: true,
});
writeFileSync(join(HERE, "THIRD-PARTY-NOTICES.txt"), bundled(Object.keys(metafile.inputs)).map(notice).join("\n"));

/** The folders of the packages that files come from. */
function bundled(files) {
  const folders = files.map((file) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]);
  return [...new Set(folders.filter(Boolean))].sort();
}

function notice(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(HERE, folder, "package.json"), "utf8"));
  const file = readdirSync(join(HERE, folder)).find((each) => /^licen[cs]e/i.test(each));
  if (!file || !existsSync(join(HERE, folder, file))) throw new Error(`${name} has no licence text`);
  const line = "-".repeat(80);
  return `${line}\n${name} ${version} (${license})\n${line}\n\n${readFileSync(join(HERE, folder, file), "utf8").trim()}\n`;
}
