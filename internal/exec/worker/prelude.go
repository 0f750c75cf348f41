package worker

import "context"

type preludeKey struct{}

// WithPrelude returns a context under which a server is started with Options.Prelude, so that
// tests have a second engine. No option of a server and no request can set it.
func WithPrelude(ctx context.Context, source string) context.Context {
	return context.WithValue(ctx, preludeKey{}, source)
}

// PreludeOf returns the source of WithPrelude; empty for none.
func PreludeOf(ctx context.Context) string {
	source, _ := ctx.Value(preludeKey{}).(string)
	return source
}
