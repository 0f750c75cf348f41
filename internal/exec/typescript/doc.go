// Package typescript turns TypeScript into JavaScript that does the same and has the same
// positions, or a source map of them.
//
// The function JavaScript first tries to erase the types: it replaces them by white space,
// so statements, their values, lines and columns stay the same. Some constructs have no
// JavaScript of the same layout: enums, namespaces with values, parameter properties,
// decorators and using declarations. A source with one of them is lowered: esbuild rewrites
// the source, the value of the last expression statement is kept, and the result has a
// source map. SplitLiterals cuts literals that are too long for V8.
//
// Functions take UTF-8 without NUL bytes and return new slices. They have no state and are
// safe for concurrent use. Sources are hostile: a source can make the parsers use memory and
// time in proportion to its length, so the caller MUST limit both.
//
// The files, in reading order:
//
//   - lower.go: JavaScript: decides whether a source is erased, lowered or refused; lowers it
//     with esbuild
//   - tree.go: parses a source into its syntax tree; limits its nesting
//   - repair.go: changes a source that the grammar of the parser reads wrongly or not at all,
//     and parses it again
//   - erase.go: replaces types by white space; decides what cannot be erased
//   - mark.go: keeps the value of statements through the lowering
//   - literal.go: splits literals that are too long for V8
//   - imports.go: finds the imports of a script, and removes its import statements
//   - links.go: finds the names that a module takes from others
//   - sourcemap.go: changes source maps as their sources were changed
package typescript
