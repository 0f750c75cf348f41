package client

import (
	"context"
	"net/http"
	"strconv"

	"daybook/httpapi"
)

// Volume is a volume of the ledger.
type Volume = httpapi.Volume

// RemovedVolume is a volume that was removed.
type RemovedVolume = httpapi.RemovedVolume

// Damage is the known damage of the ledger.
type Damage = httpapi.DamageReport

// Scrub is the progress of the scrub.
type Scrub = httpapi.ScrubReport

// Anomalies are the intact events whose effect is missing from answers.
type Anomalies = httpapi.AnomalyReport

const volumesPath = "/api/ledger/volumes"

// Volumes are the volumes of the ledger, oldest first.
type Volumes struct {
	Volumes []Volume `json:"volumes"`
	// Removed is the newest removed volume; all volumes before it are removed too. nil means
	// that no volume was removed.
	Removed *RemovedVolume `json:"removed,omitempty"`
}

// Volumes returns the volumes of the ledger.
func (c *Client) Volumes(ctx context.Context) (Answer[Volumes], error) {
	return call[Volumes](ctx, c, http.MethodGet, volumesPath, nil)
}

// Seal seals the active volume and opens the next one.
func (c *Client) Seal(ctx context.Context) (Answer[Volume], error) {
	return call[Volume](ctx, c, http.MethodPost, volumesPath+"/seal", nil)
}

// Remove removes the oldest volume. exportSHA256 is the SHA-256 of the file events.ndjson of
// an export of exactly this volume, in 64 lowercase hex characters.
func (c *Client) Remove(ctx context.Context, volume int, exportSHA256 string) (Answer[RemovedVolume], error) {
	return call[RemovedVolume](ctx, c, http.MethodPost, volumesPath+"/"+strconv.Itoa(volume)+"/remove", map[string]string{"export_sha256": exportSHA256})
}

// Damage returns the known damage of the ledger.
func (c *Client) Damage(ctx context.Context) (Answer[Damage], error) {
	return call[Damage](ctx, c, http.MethodGet, "/api/ledger/damage", nil)
}

// Scrub returns the progress of the scrub. A server that does not scrub answers 503.
func (c *Client) Scrub(ctx context.Context) (Answer[Scrub], error) {
	return call[Scrub](ctx, c, http.MethodGet, "/api/ledger/scrub", nil)
}

// Anomalies returns the intact events whose effect is missing from answers.
func (c *Client) Anomalies(ctx context.Context) (Answer[Anomalies], error) {
	return call[Anomalies](ctx, c, http.MethodGet, "/api/ledger/anomalies", nil)
}
