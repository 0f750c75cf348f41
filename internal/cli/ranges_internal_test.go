package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Values out of range are refused with the name of the flag, the value, the range and an example.
// Values at the ends of a range are accepted.
func TestRanges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args    string
		refused string // empty: accepted
	}{
		{"--memory-budget=1", "--memory-budget is 1: the range is 64 to 1048576 MiB; for example --memory-budget 512"},
		{"--memory-budget=64", ""},
		{"--memory-budget=1073741824", "--memory-budget is 1073741824: the range is 64 to"},
		{"--memory-budget=9223372036854775807", "--memory-budget is 9223372036854775807: the range"},
		{"--heap-memory-max=0", "--heap-memory-max is 0: the range is 1 to 1048576 MB; for example --heap-memory-max 64"},
		{"--heap-memory-max=1", ""},
		{"--heap-memory-max=1048576", ""},
		{"--heap-memory-max=100000000", "--heap-memory-max is 100000000: the range is 1 to 1048576 MB"},
		{"--heap-memory-ceiling=100000000", "--heap-memory-ceiling is 100000000: the range is 1 to 1048576 MB; for example --heap-memory-ceiling 256"},
		{"--output-max-bytes=-1", "--output-max-bytes is -1: it must be 0 or more, 0 is unlimited; for example --output-max-bytes 67108864"},
		{"--output-max-bytes=0", ""},
		{"--heap-retention-entries=-1", "--heap-retention-entries is -1: it must be 0 or more, 0 is none; for example --heap-retention-entries 100"},
		{"--heap-retention-entries=0", ""},
		{"--fetch-request-max-bytes=0", "--fetch-request-max-bytes is 0: the range is 1 to 655360 bytes; for example --fetch-request-max-bytes 524288"},
		{"--fetch-request-max-bytes=655360", ""},
		{"--fetch-request-max-bytes=655361", "--fetch-request-max-bytes is 655361: the range"},
		{"--fetch-response-max-bytes=11534336", ""},
		{"--fetch-response-max-bytes=11534337", "--fetch-response-max-bytes is 11534337: the range is 1 to 11534336 bytes; for example --fetch-response-max-bytes 4194304"},
		{"--fetch-response-max-bytes=1", ""},
		{"--fetch-header-max-bytes=1023", "--fetch-header-max-bytes is 1023: the range is 1024 to 262144 bytes; for example --fetch-header-max-bytes 65536"},
		{"--fetch-header-max-bytes=1024", ""},
		{"--fetch-header-max-bytes=262144", ""},
		{"--fetch-timeout=0s", "--fetch-timeout is 0s: the range"},
		{"--fetch-timeout=5m", ""},
		{"--fetch-timeout=5m1s", "--fetch-timeout is 5m1s: the range"},
		{"--fetch-allow-network=10.0.0.0/8", "--fetch-policy: missing: without a policy, scripts send no requests"},
		{"--min-client-rate=0", ""},
		{"--min-client-rate=1", ""},
		{"--min-client-rate=1000000000000", "--min-client-rate is 1000000000000: the range is 0 to 1073741824 bytes in 30 s, 0 requires any progress; for example --min-client-rate 65536"},
		{"--min-client-rate=-1", "--min-client-rate is -1: it must be 0 or more"},
		{"--disk-reserve=9999999999999999", "--disk-reserve is 9999999999999999: the range is 0 to 1073741824 MiB"},
		{"--disk-reserve=-17592186044416", "--disk-reserve is -17592186044416: it must be 0 or more"},
		{"--http-port=0", ""},
		{"--http-port=65536", "--http-port is 65536: the range is 0 to 65535, 0 is a free port; for example --http-port 8080"},
		{"--sse-port=-1", "--sse-port is -1: the range is 0 to 65535"},
		{"--http-addr=127.0.0.1:65536", "--http-addr 127.0.0.1:65536: the port is 65536, and the range is 0 to 65535; for example --http-addr 127.0.0.1:8080"},
		{"--nats-addr=127.0.0.1:65536", "--nats-addr 127.0.0.1:65536: the port is 65536, and the range is 0 to 65535; for example --nats-addr 127.0.0.1:4222"},
		{"--limit-requests=NaN", "--limit-requests is NaN: the range is 0.001 to 1000000 a second, 0 is unlimited; for example --limit-requests 50"},
		{"--limit-requests=+Inf", "--limit-requests is +Inf: the range"},
		{"--limit-requests=1e300", "--limit-requests is 1e+300: the range"},
		{"--limit-requests=1e-300", "--limit-requests is 1e-300: the range"},
		{"--limit-requests=-1", "--limit-requests is -1: the range"},
		{"--limit-requests=0.001", ""},
		{"--limit-runs=9223372036854775807", "--limit-runs is 9223372036854775807: the range is 0 to 1000000000, 0 is unlimited; for example --limit-runs 10000"},
		{"--limit-runs=0", ""},
		{"--limit-output-bytes=-1", "--limit-output-bytes is -1: the range"},
		{"--limit-heap-bytes=9223372036854775807", "--limit-heap-bytes is 9223372036854775807: the range"},
		{"--limit-sessions=-1", "--limit-sessions is -1: the range is 0 to 1000000000, 0 is unlimited; for example --limit-sessions 100000"},
		{"--limit-tagged-heaps=-1", "--limit-tagged-heaps is -1: the range is 0 to 1000000000, 0 is unlimited; for example --limit-tagged-heaps 100000"},
		{"--limit-connections=-1", "--limit-connections is -1: the range"},
		{"--limit-connections-per-address=-5", "--limit-connections-per-address is -5: the range"},
		{"--limit-session-turns=-1", "--limit-session-turns is -1: it must be 0 or more"},
		{"--limit-streams=-1", "--limit-streams is -1: the range"},
		{"--limit-slots=999999999999", "--limit-slots is 999999999999: the range is 0 to 10000"},
		{"--extra-slots=99999999999", "--extra-slots is 99999999999: the range is 0 to 10000"},
		{"--max-concurrent-executions=0", "--max-concurrent-executions is 0: the range is 1 to 10000"},
		{"--fair-after=-1s", "--fair-after is -1s: it must be 0s or more, 0 is no wait; for example --fair-after 500ms"},
		{"--fair-after=99999h", "--fair-after is 99999h0m0s: the range"},
		{"--fair-after=1ns", ""},
		{"--max-concurrent-executions=10000", ""},
		{"--execution-timeout=0", "--execution-timeout is 0: the range is 1 to 300; for example --execution-timeout 30"},
		{"--execution-timeout=301", "--execution-timeout is 301: the range is 1 to 300"},
		{"--worker-max-runs=0", "--worker-max-runs is 0: it must be 1 or more; for example --worker-max-runs 1000"},
		{"--worker-max-age=0s", "--worker-max-age is 0s: it must be more than 0; for example --worker-max-age 1h"},
		{"--context-idle=-1s", "--context-idle is -1s: it must be more than 0; for example --context-idle 30m"},
		{"--context-memory=0", "--context-memory is 0: the range is 1 to 1048576 MB; for example --context-memory 64"},
		{"--scrub-rate=0", ""},
		{"--scrub-rate=9223372036854775807", "--scrub-rate is 9223372036854775807: the range is 0 to 4611686018427387903, 0 turns the scrub off; for example --scrub-rate 2000"},
		{"--context-memory=9223372036854775807", "--context-memory is 9223372036854775807: the range is 1 to 1048576 MB"},
		{"--seal-bytes=-1", "--seal-bytes is "},
		{"--projection-copies=-1", "--projection-copies is -1: it must be 0 or more, 0 makes none; for example --projection-copies 2"},
		{"--projection-copies=0", ""},
		{"--projection-copies=1", ""},
		{"--projection-copies=9223372036854775808", "--projection-copies"},
		{"--scrub-rate=-1", "--scrub-rate is -1: it must be 0 or more, 0 turns the scrub off; for example --scrub-rate 2000"},
		{"--drain-wait=0s", ""},
		{"--drain-wait=-1s", "--drain-wait is -1s: it must be 0s or more, 0 is no wait; for example --drain-wait 10s"},
		{"--heap-memory-ceiling=32", "--heap-memory-ceiling is 32: it must not be below --heap-memory-max, which is 64"},
		{"--disk-reserve=0", ""},
		{"--disk-reserve=1073741824", ""},
		{"--tls-cert=x", "--tls-cert and --tls-key belong together: give both or none"},
		{"--tenant-weights=acme=0", "--tenant-weights acme=0: the range is 1 to 1000; for example --tenant-weights acme=2"},
		{"--tenant-weights=acme=99999999999999999999", "is not a weight: give TENANT=N with N from 1 to 1000"},
	} {
		var serve struct {
			Serve serveCmd `cmd:""`
		}
		parser, err := kong.New(&serve, kong.Vars{"datadir": t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = parser.Parse([]string{"serve", test.args})
		switch {
		case test.refused == "" && err != nil:
			t.Errorf("%s: %v", test.args, err)
		case test.refused != "" && (err == nil || !strings.Contains(rewriteParserText(err.Error()), test.refused)):
			t.Errorf("%s: %v, want %s", test.args, err, test.refused)
		}
	}
}

// By default the number of runs of a tenant is limited.
func TestDefaultLimitOfRuns(t *testing.T) {
	t.Parallel()
	var serve struct {
		Serve serveCmd `cmd:""`
	}
	parser, err := kong.New(&serve, kong.Vars{"datadir": t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"serve"}); err != nil {
		t.Fatal(err)
	}
	if opts, err := serve.Serve.options(io.Discard); err != nil || opts.Access.Limits.Runs != 10_000 {
		t.Errorf("the limit of runs is %d, %v", opts.Access.Limits.Runs, err)
	}
}

// Port 0 is a free port, not the default.
func TestFreePort(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--http-port=0", "--sse-port=0"} {
		var serve struct {
			Serve serveCmd `cmd:""`
		}
		parser, err := kong.New(&serve, kong.Vars{"datadir": t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse([]string{"serve", flag}); err != nil {
			t.Fatal(err)
		}
		if opts, err := serve.Serve.options(io.Discard); err != nil || opts.HTTP.Addr != "127.0.0.1:0" || opts.HTTP.Fallback {
			t.Errorf("%s: %+v, %v", flag, opts.HTTP, err)
		}
	}
}

// The variables of both ports may be set. Then that of the legacy transport applies.
func TestBothPorts(t *testing.T) {
	t.Parallel()
	http, sse := 8081, 8082
	for range 20 {
		if opts, err := (httpFlags{HTTPPort: &http, SSEPort: &sse}).options(); err != nil || opts.Addr != "127.0.0.1:8082" {
			t.Fatalf("the address is %s, %v", opts.Addr, err)
		}
	}
}
