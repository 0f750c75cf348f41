// Package otherwitness tests witnesses against programs of other authors: the client of package translog against
// litewitness (filippo.io/torchwood), and daybook witness against a log of transparency-dev/tessera.
// testdata/tools is a module of its own that pins these programs; the tests build them through the Go module
// cache. It has only tests.
package otherwitness
