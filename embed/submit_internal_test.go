package embed

import (
	"testing"

	"daybook/events"
	"daybook/ledger"
)

// BenchmarkSubmit measures submissions with and without the limits of tenants.
func BenchmarkSubmit(b *testing.B) {
	for name, limits := range map[string]Limits{"unlimited": {}, "limited": {Runs: 1 << 30}} {
		b.Run(name, func(b *testing.B) {
			d, err := Start(b.Context(), Options{DataDir: b.TempDir(), HTTP: HTTPOptions{Addr: "127.0.0.1:0"}, NATS: NATSOptions{Addr: "127.0.0.1:0"}, Runs: RunOptions{Elsewhere: true}, Access: AccessOptions{Limits: limits}})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			for b.Loop() {
				if _, err := d.ledger.Submit(b.Context(), ledger.Submission{Tenant: events.DefaultTenant, Code: "1"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
