package client

import (
	"context"
	"net/http"
	"net/url"

	"daybook/events"
)

// Modules are packages that scripts can import.
type Modules struct {
	Modules []events.AdmittedPackage `json:"modules"`
}

// Modules lists the admitted packages.
func (c *Client) Modules(ctx context.Context) (Answer[Modules], error) {
	return call[Modules](ctx, c, http.MethodGet, "/api/modules", nil)
}

// newModule is a package to admit.
type newModule struct {
	Specifier string `json:"specifier"`
}

// AdmitModule admits a package and its dependencies. It returns those that were not admitted
// before.
func (c *Client) AdmitModule(ctx context.Context, specifier string) (Answer[Modules], error) {
	return call[Modules](ctx, c, http.MethodPost, "/api/modules", newModule{specifier})
}

// RemovedModules are the packages that were removed, as NAME@VERSION.
type RemovedModules struct {
	Removed []string `json:"removed"`
}

// RemoveModule removes a package, NAME@VERSION, and dependencies that nothing else needs.
func (c *Client) RemoveModule(ctx context.Context, id string) (Answer[RemovedModules], error) {
	return call[RemovedModules](ctx, c, http.MethodDelete, "/api/modules?package="+url.QueryEscape(id), nil)
}
