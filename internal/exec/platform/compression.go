package platform

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
)

// maxDecompressed is the most bytes that decompression makes.
const maxDecompressed = 64 << 20

// The functions of compressed content.
var compressionFunctions = map[string]function{
	"compress":   {2, func(in [][]byte) (Result, error) { return compress(string(in[0]), in[1]) }},
	"decompress": {2, func(in [][]byte) (Result, error) { return decompress(string(in[0]), in[1], maxDecompressed) }},
}

// compress compresses content in a format of the Compression standard: gzip, deflate, deflate-raw.
func compress(format string, content []byte) (Result, error) {
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch format {
	case "gzip":
		w = gzip.NewWriter(&out) // without a time: the same content has the same output
	case "deflate":
		w = zlib.NewWriter(&out)
	case "deflate-raw":
		w, err = flate.NewWriter(&out, flate.DefaultCompression)
	default:
		err = unknownFormat(format)
	}
	if err != nil {
		return Result{}, err
	}
	if _, err := w.Write(content); err != nil {
		return Result{}, err
	}
	if err := w.Close(); err != nil {
		return Result{}, err
	}
	return Result{Bytes: out.Bytes()}, nil
}

// decompress returns the content of one compressed member that ends where in ends, of at most
// limit bytes.
func decompress(format string, in []byte, limit int64) (Result, error) {
	rest := bytes.NewReader(in) // an io.ByteReader, of which nothing after the end is read
	var r io.ReadCloser
	var err error
	switch format {
	case "gzip":
		var z *gzip.Reader
		if z, err = gzip.NewReader(rest); err == nil {
			z.Multistream(false)
			r = z
		}
	case "deflate":
		r, err = zlib.NewReader(rest)
	case "deflate-raw":
		r = flate.NewReader(rest)
	default:
		return Result{}, unknownFormat(format)
	}
	if err != nil {
		return Result{}, damaged(err)
	}
	var out bytes.Buffer
	n, err := io.Copy(&out, io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return Result{}, damaged(err)
	case n > limit:
		return Result{}, &Error{"RangeError", fmt.Sprintf("The decompressed content is larger than %d bytes; split it before compressing it", limit)}
	case rest.Len() > 0:
		return Result{}, &Error{"TypeError", fmt.Sprintf("%d bytes follow the end of the compressed content", rest.Len())}
	}
	return Result{Bytes: out.Bytes()}, nil
}

func damaged(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{"TypeError", "The compressed content ends too early"}
	}
	return &Error{"TypeError", "The compressed content is damaged: " + err.Error()}
}

func unknownFormat(format string) error {
	return &Error{"TypeError", fmt.Sprintf("no compression format %q", format)}
}
