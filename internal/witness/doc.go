// Package witness is a witness of transparency logs: it receives the checkpoints of logs, verifies that
// each extends the one before, and cosigns it (C2SP tlog-witness, tlog-cosignature).
//
// A cosignature leaves the witness only after the checkpoint that it signs is durable. Of one origin the
// witness never cosigns two checkpoints that contradict each other, also after a crash at any point. A state
// directory that is damaged or incomplete is an error: the witness never starts from scratch with a key that has signed. It
// cannot notice that an operator set its whole state directory back to an earlier copy.
//
// The memory that it uses does not depend on the sizes of the logs or the number of requests: one
// checkpoint for each log, and the bodies of a fixed number of requests.
//
// Files, in reading order:
//
//	witness.go      Witness: decides about a checkpoint
//	state.go        the state directory: key, list of origins, newest checkpoint of each
//	http.go         the HTTP interface, with its limits
//	connections.go  the bound of its connections
package witness
