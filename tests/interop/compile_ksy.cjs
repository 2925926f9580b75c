// Compiles Kaitai Struct files to Python: node compile_ksy.cjs OUT_FOLDER FILE.ksy ...
//
// The compiler on npm is a library that takes parsed YAML, so this reads the files for it. Both
// packages come from .cache/node, which `make node` fills. Exit code 1: a file does not compile.

"use strict";

const fs = require("node:fs");
const path = require("node:path");

const packages = path.join(__dirname, "..", "..", ".cache", "node", "node_modules");
const compiler = require(path.join(packages, "kaitai-struct-compiler"));
const yaml = require(path.join(packages, "yaml"));

const noImports = {
  importYaml(name) {
    return Promise.reject(new Error(`the file imports ${name}; it must stand alone`));
  },
};

async function compile(out, file) {
  const description = yaml.parse(fs.readFileSync(file, "utf8"));
  const wanted = path.basename(file, ".ksy");
  if (description.meta.id !== wanted) {
    throw new Error(`meta/id is ${description.meta.id}, the file is called ${wanted}`);
  }
  const modules = await compiler.compile("python", description, noImports, false);
  for (const [name, text] of Object.entries(modules)) {
    fs.writeFileSync(path.join(out, name), text);
  }
}

async function main([out, ...files]) {
  for (const file of files) {
    try {
      await compile(out, file);
    } catch (error) {
      console.error(`${path.basename(file)}: ${error}`);
      process.exitCode = 1;
    }
  }
}

main(process.argv.slice(2));
