// Package torture holds the tests that kill a loaded server, or its disk, over
// and over, and then check from the ledger what was promised to clients. It
// has no code of its own besides tests.
package torture
