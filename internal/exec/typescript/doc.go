// Package typescript turns TypeScript into JavaScript without changing what the
// source does or where it does it.
//
// Erase replaces types by white space in place: statements, their values, lines
// and columns stay. What has no JavaScript of the same layout (enums, namespaces
// with values, parameter properties, decorators, using declarations) Lower
// rewrites with esbuild, keeps the value of the last expression statement and
// returns a source map. JavaScript tries the one and then the other.
// SplitLiterals cuts literals that are too long for V8.
//
// Functions take UTF-8 without NUL bytes and return new slices. They hold no
// state and are safe for concurrent use. Sources are hostile: a source can make
// the parsers use memory and time in proportion to its length, so the caller
// MUST bound both.
package typescript
