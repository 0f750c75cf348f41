package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// errLines is wrapped by errors about files whose lines are not those of a finished export.
var errLines = errors.New("the lines are incomplete")

// lineReader reads a file of lines, each of which MUST end with a newline.
type lineReader struct {
	file *os.File
	in   *bufio.Reader
	long []byte
}

func openLineReader(path string) (*lineReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &lineReader{file: f, in: bufio.NewReaderSize(f, 256<<10)}, nil
}

func (r *lineReader) close() { r.file.Close() }

// next returns the next line without its end, or nil at the end of the file. The line is valid
// until the next call.
func (r *lineReader) next() ([]byte, error) {
	line, err := nextLine(r.in, &r.long)
	if errors.Is(err, io.EOF) && len(line) == 0 {
		return nil, nil
	}
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: the last line of %s has no end", errLines, filepath.Base(r.file.Name()))
	}
	return line, err
}

// nextLine reads a line and returns it without its newline. At the end of the input the error is
// io.EOF, and the line is empty or has no newline. The line is valid until the next call.
func nextLine(in *bufio.Reader, long *[]byte) ([]byte, error) {
	*long = (*long)[:0]
	for {
		part, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if *long = append(*long, part...); len(*long) > maxLineBytes {
				return nil, fmt.Errorf("%w: a line is longer than %d bytes", errLines, maxLineBytes)
			}
			continue
		}
		if len(*long) > 0 {
			*long = append(*long, part...)
			part = *long
		}
		if err != nil {
			return part, err
		}
		line := bytes.TrimSuffix(part, []byte("\n"))
		if line == nil {
			line = []byte{}
		}
		return line, nil
	}
}

// ExportedEvents calls fn with every stored event of an export, in order. It verifies nothing; see
// VerifyExport.
func ExportedEvents(dir string, fn func(events.Stored) error) error {
	path := filepath.Join(dir, proof.EventsFile)
	err := eachLine(path, func(line []byte) error {
		m, err := proof.ParseLine(line)
		if err != nil {
			return err
		}
		return fn(eventproof.StoredOf(m))
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
