// Build the playground into a folder: `node build.mjs SITE/playground PYTHON`, where PYTHON holds a folder for each archive.
// Nothing is fetched.

import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";
import { loadPyodide } from "pyodide";

const HERE = dirname(fileURLToPath(import.meta.url));
const [SITE, PYTHON] = process.argv.slice(2);
const COPIED = {
  pyodide: ["pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json"],
  "@astral-sh/ruff-wasm-web": ["ruff_wasm.js", "ruff_wasm_bg.wasm"],
};
const COMPILE = `
import compileall, py_compile, shutil
ok = compileall.compile_dir("/packages", quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
shutil.make_archive("/packages-compiled", "zip", "/packages")
`;

await bundle();
copy();
for (const name of readdirSync(PYTHON)) await archive(name);

/** The page's script, with the editor in it, and the worker's beside the runtimes that it loads. */
async function bundle() {
  const { metafile } = await build({
    absWorkingDir: HERE,
    entryPoints: { playground: "src/page.js", worker: "src/worker.js" },
    outdir: SITE,
    bundle: true,
    format: "esm",
    target: "es2022",
    external: ["./pyodide/*", "./ruff/*"],
    minify: true,
    legalComments: "none", // they stand in the file of notices
    metafile: true,
  });
  for (const file of ["playground.css"]) copyFileSync(join(HERE, "src", file), join(SITE, file));
  copyFileSync(join(HERE, "src", "page.html"), join(SITE, "index.html"));
  const folders = Object.keys(metafile.inputs).map((file) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]);
  const packages = [...new Set(folders.filter(Boolean)), ...Object.keys(COPIED).map((name) => `node_modules/${name}`)];
  writeFileSync(join(SITE, "notices.txt"), packages.sort().map(notice).join("\n"));
}

/** What the licence of a package asks to be said. */
function notice(folder) {
  const path = join(HERE, folder);
  const { name, version, license } = JSON.parse(readFileSync(join(path, "package.json"), "utf8"));
  const file = readdirSync(path).find((each) => /^licen[cs]e/i.test(each));
  return `${name} ${version} (${license})\n\n${file ? readFileSync(join(path, file), "utf8") : ""}\n`;
}

function copy() {
  for (const [name, files] of Object.entries(COPIED)) {
    const folder = join(SITE, name.startsWith("@") ? "ruff" : name);
    mkdirSync(folder, { recursive: true });
    for (const file of files) copyFileSync(join(HERE, "node_modules", name, file), join(folder, file));
  }
}

/** An archive of packages with their bytecode: a browser compiles 700 files in ten seconds. */
async function archive(name) {
  const python = await loadPyodide();
  for (const file of readdirSync(join(PYTHON, name), { recursive: true, withFileTypes: true })) {
    const inside = join("/packages", relative(join(PYTHON, name), file.parentPath));
    python.FS.mkdirTree(inside);
    if (file.isFile()) python.FS.writeFile(join(inside, file.name), readFileSync(join(file.parentPath, file.name)));
  }
  await python.runPythonAsync(COMPILE);
  writeFileSync(join(SITE, `${name}.zip`), python.FS.readFile("/packages-compiled.zip"));
}
