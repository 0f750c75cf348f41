package connections

import "bytes"

// maxLines bounds the lines of a request header: the request line, the fields and the
// lines of folded fields. Each field, however short, costs net/http some hundred bytes
// of map.
const maxLines = 128

// part is the element of HTTP/1 that the next byte of a connection belongs to.
type part int

const (
	inHeader part = iota
	// afterHeader means that the header is complete and the handler of the request has not
	// started yet.
	afterHeader
	inBody // with a known length
	inChunkSize
	inChunkPadding
	inChunkExtension
	atChunkSizeEnd
	inChunk
	atChunkEnd
	atChunkEnd2
	inTrailer
	// malformed means that the body is malformed. net/http refuses it and closes the
	// connection.
	malformed
)

// framing finds the requests in the bytes of an HTTP/1 connection, to count the lines
// of their headers. It takes the length of a body from net/http, so that the two never
// interpret a header differently.
type framing struct {
	part part
	// State of a header or a trailer: the number of complete lines, whether one of them
	// was not empty, the length of the incomplete line in bytes, and whether its first
	// byte is a CR.
	lines   int
	started bool
	column  int
	firstCR bool
	// left is the number of unread bytes of the body or the chunk.
	left   uint64
	digits int // of the size of the chunk
}

// body starts the body of the request whose header is complete. length is as in
// http.Request.
func (f *framing) body(length int64) {
	switch {
	case length > 0:
		f.part, f.left = inBody, uint64(length)
	case length < 0:
		f.part, f.left, f.digits = inChunkSize, 0, 0
	default:
		*f = framing{}
	}
}

// take consumes bytes of p up to the end of a header or of a request, and returns their
// number. ok is false if the header has too many lines.
func (f *framing) take(p []byte) (used int, ok bool) {
	for used < len(p) {
		switch f.part {
		case inHeader, inTrailer:
			n, end := f.line(p[used:])
			used += n
			switch {
			case end && f.part == inTrailer:
				*f = framing{}
				return used, true
			case end:
				f.part = afterHeader
				return used, true
			case f.part == inHeader && f.lines >= maxLines:
				return used, false
			}
		case afterHeader:
			return used, true
		case inBody:
			n := int(min(f.left, uint64(len(p)-used)))
			used += n
			if f.left -= uint64(n); f.left == 0 {
				*f = framing{}
				return used, true
			}
		case inChunk:
			n := int(min(f.left, uint64(len(p)-used)))
			used += n
			if f.left -= uint64(n); f.left == 0 {
				f.part = atChunkEnd
			}
		case malformed:
			return len(p), true
		default:
			f.chunkByte(p[used])
			used++
		}
	}
	return used, true
}

// line consumes a line or a part of one. end is true for the empty line that ends the
// header.
func (f *framing) line(p []byte) (used int, end bool) {
	i := bytes.IndexByte(p, '\n')
	piece := p
	if i >= 0 {
		piece = p[:i]
	}
	if f.column == 0 && len(piece) > 0 {
		f.firstCR = piece[0] == '\r'
	}
	f.column += len(piece)
	if i < 0 {
		return len(p), false
	}
	empty := f.column == 0 || f.column == 1 && f.firstCR
	f.column = 0
	f.lines++
	if !empty {
		f.started = true
	}
	// net/http skips empty lines before a request.
	return i + 1, empty && (f.started || f.part == inTrailer)
}

// chunkByte consumes a byte between the contents of chunks. It accepts no more than
// net/http does.
func (f *framing) chunkByte(b byte) {
	next := malformed
	switch f.part {
	case inChunkSize:
		digit, isDigit := hexDigit(b)
		switch {
		case isDigit && f.digits < 16:
			f.left, f.digits, next = f.left<<4|digit, f.digits+1, inChunkSize
		case isDigit || f.digits == 0:
		case b == ';':
			next = inChunkExtension
		case b == ' ' || b == '\t':
			next = inChunkPadding
		case b == '\r':
			next = atChunkSizeEnd
		}
	case inChunkPadding:
		switch b {
		case ' ', '\t':
			next = inChunkPadding
		case '\r':
			next = atChunkSizeEnd
		}
	case inChunkExtension:
		switch b {
		case '\r':
			next = atChunkSizeEnd
		case '\n':
		default:
			next = inChunkExtension
		}
	case atChunkSizeEnd:
		switch {
		case b != '\n':
		case f.left > 0:
			next = inChunk
		default:
			*f = framing{}
			next = inTrailer
		}
	case atChunkEnd:
		if b == '\r' {
			next = atChunkEnd2
		}
	case atChunkEnd2:
		if b == '\n' {
			f.digits, next = 0, inChunkSize
		}
	}
	f.part = next
}

func hexDigit(b byte) (value uint64, ok bool) {
	switch {
	case '0' <= b && b <= '9':
		return uint64(b - '0'), true
	case 'a' <= b && b <= 'f':
		return uint64(b-'a') + 10, true
	case 'A' <= b && b <= 'F':
		return uint64(b-'A') + 10, true
	}
	return 0, false
}
