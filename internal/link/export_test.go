package link

import "io"

// WriteLine sends a line as a client does.
func WriteLine(to io.Writer, number uint64, line string) error {
	return writeFrame(to, frame{header: header{Line: number}, message: []byte(line)})
}
