package link

import "io"

// WriteLine sends a line as a client does.
func WriteLine(to io.Writer, number uint64, line string) error {
	return writeFrame(to, frame{header: header{Line: number}, message: []byte(line)})
}

// ErrOwnerEnded is returned by Run if several owners in a row ended without an answer.
var ErrOwnerEnded = errOwnerEnded
