package fetcher

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const dialTimeout = 10 * time.Second

const (
	// smallBody is the length in bytes up to which a response takes no memory from the
	// budget.
	smallBody = 64 << 10
	// bodyCopies is the number of copies of a body in memory while it is encoded.
	bodyCopies = 4
)

func newTransport(o Options, local func() ([]net.Addr, error)) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, ControlContext: floor{o.AllowNetworks, local}.check, Resolver: o.Resolver}
	return &http.Transport{
		Proxy:                  nil, // a proxy would dial without the check of the address
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots},
		TLSHandshakeTimeout:    dialTimeout,
		DisableKeepAlives:      true,
		DisableCompression:     true, // readBody decompresses within the limits
		MaxResponseHeaderBytes: int64(o.MaxHeaderBytes),
		ForceAttemptHTTP2:      true,
	}
}

// send sends one request. The caller MUST close the body of the response.
func (f *Fetcher) send(ctx context.Context, r *request, headers []header) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	for _, h := range headers {
		req.Header.Add(h.name, h.value)
	}
	for name, value := range map[string]string{"User-Agent": f.opts.UserAgent, "Accept": "*/*"} {
		if req.Header[name] == nil {
			req.Header.Set(name, value)
		}
	}
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := f.transport.RoundTrip(req)
	if err != nil {
		return nil, err //nolint:wrapcheck // package fetcher words it for the script
	}
	if resp.StatusCode < 200 {
		_ = resp.Body.Close()
		return nil, messagef(codeResponse, "the server answered with status %d", resp.StatusCode)
	}
	return resp, nil
}

var errTooLong = errors.New("the body is too long")

// readBody reads a body and decompresses it. It takes memory for a body that is not small.
// It returns errTooLong for a body that is longer than the limit, before or after
// decompression. held may be nil.
func (f *Fetcher) readBody(ctx context.Context, tenant string, resp *http.Response) (body []byte, held Held, err error) {
	limit := int64(f.opts.MaxResponseBytes)
	source := &endReader{from: resp.Body}
	var in io.Reader = &limitedReader{source, limit}
	expected := limit
	switch encoding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ","))); encoding {
	case "", "identity":
		if resp.ContentLength >= 0 {
			expected = resp.ContentLength
		}
		if expected > limit {
			return nil, nil, errTooLong
		}
	case "gzip", "x-gzip":
		first := make([]byte, 1)
		if _, err := io.ReadFull(in, first); errors.Is(err, io.EOF) { // as for HEAD
			return nil, nil, nil
		} else if err != nil {
			return nil, nil, err //nolint:wrapcheck // package fetcher words it for the script
		}
		unzipped, err := gzip.NewReader(io.MultiReader(bytes.NewReader(first), in))
		if err != nil {
			return nil, nil, encodingError(err, source)
		}
		in = &limitedReader{unzipped, limit}
	default:
		return nil, nil, messagef(codeResponse, "the body of the response has the content encoding %.40q, which was not asked for", encoding)
	}
	var buf bytes.Buffer
	n, err := io.CopyN(&buf, in, smallBody)
	if err == nil && n == smallBody {
		if f.opts.Memory != nil {
			if held, err = f.opts.Memory.Take(ctx, tenant, expected*bodyCopies); err != nil {
				return nil, nil, messagef(codeMemory, "%s", err)
			}
		}
		_, err = io.Copy(&buf, in)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		if held != nil {
			held.Release()
		}
		return nil, nil, encodingError(err, source)
	}
	return buf.Bytes(), held, nil
}

// encodingError returns err, with other words for errors of the gzip format: also if the body
// arrived, but its gzip has no end.
func encodingError(err error, body *endReader) error {
	isCut := body.hasEnded && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
	if isCut || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || strings.HasPrefix(err.Error(), "flate: ") {
		return messagef(codeResponse, "the body of the response is not the gzip that its header announces")
	}
	return err
}

// endReader notes whether its source was read to the end.
type endReader struct {
	from     io.Reader
	hasEnded bool
}

func (r *endReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.hasEnded = r.hasEnded || err == io.EOF
	return n, err //nolint:wrapcheck // io.EOF must stay as it is
}

// limitedReader returns errTooLong after n bytes, if more follow.
type limitedReader struct {
	from io.Reader
	n    int64
}

func (r *limitedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > r.n+1 {
		p = p[:r.n+1]
	}
	n, err := r.from.Read(p)
	if int64(n) > r.n {
		return int(max(r.n, 0)), errTooLong
	}
	r.n -= int64(n)
	return n, err //nolint:wrapcheck // io.EOF must stay as it is
}
