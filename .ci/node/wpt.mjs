// Runs the conformance tests of the web platform in Node, and compares the verdicts with the
// recorded ones:
//
//   node wpt.mjs DIRECTORY [--update]
//
// DIRECTORY is internal/exec/v8/testdata/wpt, which has a directory for each interface. With
// --update, the verdicts are written to node.json in the directory of the interface. Each file
// runs in a process of its own.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import vm from "node:vm";

const [directory, option] = process.argv.slice(2);

// runFile prints the verdicts of one file.
const runFile = async (file) => {
  const harness = readFileSync(join(directory, "harness.js"), "utf8");
  process.on("uncaughtException", () => {}); // an error of a listener; it fails no other subtest
  process.on("unhandledRejection", () => {});
  try {
    vm.runInThisContext(`${harness}\n${readFileSync(file, "utf8")}`, { filename: file });
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
  // A subtest that waits for nothing ends at once.
  process.on("beforeExit", () => {
    vm.runInThisContext("give_up_test()");
    setImmediate(() => {});
  });
  const text = await vm.runInThisContext("finish_tests()");
  process.stdout.write(text, () => process.exit(0));
};

const verdictsOf = (file) => new Promise((resolve, reject) => {
  const self = fileURLToPath(import.meta.url);
  const options = { timeout: 120_000, maxBuffer: 64 << 20 };
  execFile(process.execPath, ["--no-warnings", self, directory, file], options, (error, stdout, stderr) => {
    if (error) reject(new Error(`${file}: ${stderr || error.message}`));
    else resolve(JSON.parse(stdout));
  });
});

// record returns the verdicts about an interface. The hash shows whether they are those of the
// files as they are. Without the interface, all subtests fail.
const record = async (name) => {
  const files = readdirSync(join(directory, name)).filter((file) => file.endsWith(".js")).sort();
  const hash = createHash("sha256");
  let subtests = 0;
  const failed = {};
  for (const file of files) {
    hash.update(`${file}\n`).update(readFileSync(join(directory, name, file)));
    for (const result of await verdictsOf(join(directory, name, file))) {
      subtests++;
      if ("message" in result) failed[result.name] = result.message;
    }
  }
  const isMissing = /^[A-Za-z]+$/.test(name) && !(name in globalThis);
  return { node: process.version.split(".")[0], files: hash.digest("hex"), subtests, ...(isMissing ? { missing: true, failed: {} } : { failed }) };
};

// compare returns how the verdicts differ. Messages of errors may change with a version.
const compare = (name, got) => {
  let recorded;
  try {
    recorded = JSON.parse(readFileSync(join(directory, name, "node.json"), "utf8"));
  } catch {
    return ["no verdicts are recorded"];
  }
  const differences = [];
  for (const member of ["node", "files", "subtests", "missing"]) {
    if (got[member] !== recorded[member]) differences.push(`${member}: ${got[member]}, recorded ${recorded[member]}`);
  }
  for (const test of Object.keys(got.failed)) if (!(test in recorded.failed)) differences.push(`fails: ${test}: ${got.failed[test]}`);
  for (const test of Object.keys(recorded.failed)) if (!(test in got.failed)) differences.push(`no longer fails: ${test}`);
  return differences;
};

const main = async () => {
  if (!process.version.startsWith("v20.")) throw new Error(`Node 20 is the reference, not ${process.version}`);
  const queue = readdirSync(directory, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map((entry) => entry.name).sort();
  let differ = false;
  await Promise.all(Array.from({ length: availableParallelism() }, async () => {
    for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
      const got = await record(name);
      if (option === "--update") {
        writeFileSync(join(directory, name, "node.json"), `${JSON.stringify(got, null, 2)}\n`);
        continue;
      }
      for (const difference of compare(name, got)) {
        console.log(`${name}: ${difference}`);
        differ = true;
      }
    }
  }));
  if (differ) {
    console.log("the verdicts of Node differ from the recorded ones: run .ci/wpt --update and look at the changes");
    process.exit(1);
  }
};

if (option !== undefined && option !== "--update") await runFile(option);
else await main();
