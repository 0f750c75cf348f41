// Package bundle turns the modules that scripts import into a bundle: the modules with their
// code in a form that the prelude of a heap evaluates, and what each import statement in them
// means. It runs in worker processes, because packages are hostile text.
//
// A bundle keeps modules apart. A heap evaluates each module once, however many bundles and
// runs bring it, so two packages that use a third one share it. The same inputs give the same
// bytes.
//
// The files, in reading order:
//
//   - bundle.go: Bundle, its encoding, and Request, what a bundle is made of
//   - build.go: Build: finds the modules that the entries need, and converts them with esbuild
//   - resolve.go: which file an import names: exports, imports, main, extensions
//   - files.go: Files: the bundle of the files of one run
//   - link.go: checks the names that these files import from each other
//   - specifier.go: takes the specifiers of imports apart
package bundle
