// Package verdicts helps tests that ask verifiers for many verdicts: it runs verify.py as one
// process, counts verdicts, and keeps their table in a document.
//
// The files, in reading order:
//
//   - python.go: runs verify.py on many exports
//   - forge.go: signs the tree of changed events, with another key or the genuine one
//   - tally.go: counts verdicts by kind of attack
//   - table.go: reads and writes the table of a test in docs/reliability.md
package verdicts
