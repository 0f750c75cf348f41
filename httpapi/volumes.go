package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/web/access"
	"daybook/ledger"
)

// Volumes lists, seals and removes the volumes of the ledger.
type Volumes interface {
	// Volumes returns the volumes, oldest first.
	Volumes(ctx context.Context) ([]events.VolumeInfo, error)
	// SealVolume seals the active volume and returns it, or returns
	// events.ErrEmptyVolume.
	SealVolume(ctx context.Context, actor events.Actor) (events.VolumeInfo, error)
	// RemoveVolume removes the oldest volume. export is the SHA-256 of the file
	// events.ndjson of an export of the volume. If export does not match, or if there is
	// any other reason against the removal, it returns a *events.NotRemovableError.
	RemoveVolume(ctx context.Context, number events.Volume, export string, actor events.Actor) (events.Removal, error)
	// Removed returns the newest removal, or a zero one if no volume was removed.
	Removed() events.Removal
}

// nothingToSeal is the answer if the active volume holds only the event that opened it.
const nothingToSeal = "the active volume holds only its opening event; seal it after another event is recorded"

// Volume describes a volume of the ledger.
type Volume struct {
	Volume   int     `json:"volume" doc:"Number of the volume, from 1."`
	Stream   string  `json:"stream" doc:"JetStream stream of the volume. It does not exist if the volume is archived."`
	First    uint64  `json:"first" doc:"Position of the first event."`
	Last     uint64  `json:"last" doc:"Position of the last event; first - 1 while there is none."`
	Bytes    *uint64 `json:"bytes" nullable:"true" doc:"Size of the events of all tenants on disk in bytes; null if the caller is not the operator."`
	Sealed   bool    `json:"sealed" doc:"True if the volume is sealed: it takes no more events."`
	Archived bool    `json:"archived" doc:"True if the volume is an archive and no stream any more. bytes is then the size of the archive."`
	FirstAt  *string `json:"first_at" nullable:"true" doc:"Time when the first event was stored; null while there is none."`
	LastAt   *string `json:"last_at" nullable:"true" doc:"Time when the last event was stored; null while there is none, and if the caller is not the operator."`
}

const volumesPath = "/api/ledger/volumes"

func (a *api) volumeRoutes(r *router) {
	register(r, huma.Operation{
		OperationID: "list-volumes", Method: http.MethodGet, Path: volumesPath, Tags: []string{tagLedger},
		Summary:     "List the volumes of the ledger",
		Description: "The ledger is stored in volumes. Each starts where the one before it ends. Positions are counted over all volumes; only the newest one takes events. The newest ones are streams; older ones are archives, which NATS consumers cannot read. The size and the time of the last event are for operators: tokens of the tenant default with the scopes read and admin.",
	}, nil, a.listVolumes)
	register(r, huma.Operation{
		OperationID: "seal-volume", Method: http.MethodPost, Path: volumesPath + "/seal", Tags: []string{tagLedger},
		Summary:     "Seal the active volume and open the next one",
		Description: "Signs a closing checkpoint, seals the volume permanently and opens the next one. Concurrent writes wait for a short time. The response is the sealed volume. Requires a token of the tenant default with the scope admin.",
		Metadata:    map[string]any{scopeKey: access.Admin},
	}, []int{http.StatusConflict}, a.sealVolume)
	remove := huma.Operation{
		OperationID: "remove-volume", Method: http.MethodPost, Path: volumesPath + "/{volume}/remove", Tags: []string{tagLedger},
		Summary: "Remove the oldest volume",
		Description: "Removes a sealed volume that the caller has exported. The SHA-256 of the file events.ndjson of the export is computed again and compared. Events that later state depends on are kept. " +
			"A response with 409 lists all reasons against the removal. The removal cannot be undone; the response names the event that records it. Requires a token of the tenant default with the scope admin.",
		Metadata:    map[string]any{scopeKey: access.Admin},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": mediaOf[removeInputBody](r)}},
	}
	register(r, remove, []int{http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}, a.removeVolume)
	delete(remove.RequestBody.Content, "application/octet-stream")
}

type volumesAnswer struct {
	Body struct {
		Volumes []Volume       `json:"volumes" nullable:"false" doc:"All volumes, oldest first."`
		Removed *RemovedVolume `json:"removed,omitempty" doc:"The newest removed volume; all older ones are removed too. Absent if no volume was removed."`
	}
}

func (a *api) listVolumes(ctx context.Context, _ *struct{}) (*volumesAnswer, error) {
	if a.volumes == nil {
		return nil, absent("this server does not keep the ledger")
	}
	list, err := a.volumes.Volumes(ctx)
	if err != nil {
		return nil, err
	}
	out := &volumesAnswer{}
	out.Body.Volumes = make([]Volume, 0, len(list))
	for _, v := range list {
		shown := showVolume(v)
		if !isOperator(ctx) {
			shown.Bytes, shown.LastAt = nil, nil // they show the events of other tenants
		}
		out.Body.Volumes = append(out.Body.Volumes, shown)
	}
	if r := a.volumes.Removed(); r.UpTo() > 0 {
		shown := showRemoval(r)
		out.Body.Removed = &shown
	}
	return out, nil
}

type sealAnswer struct {
	Written
	Body Volume
}

// volumesOfAll says why only the operator may change volumes. The reasons against the
// removal of a volume may reveal events of other tenants.
const volumesOfAll = "volumes hold events of all tenants"

// isOperator reports whether the caller may read about the events of all tenants: without
// authentication every caller may.
func isOperator(ctx context.Context) bool {
	id, ok := access.From(ctx)
	return ok && id.Tenant == events.DefaultTenant && id.Scopes.Has(access.Admin)
}

// notOperator is the refusal of a caller of another tenant, with the reason and the default tenant.
const notOperator = "%s: send a token of the tenant %s with the scope admin"

// checkOperator refuses callers of other tenants than the default one. why is the reason.
func checkOperator(ctx context.Context, why string) error {
	if requestOf(ctx).tenant == events.DefaultTenant {
		return nil
	}
	return fail(http.StatusForbidden, codeForbidden, "Authorization", notOperator, why, events.DefaultTenant)
}

func (a *api) sealVolume(ctx context.Context, _ *struct{}) (*sealAnswer, error) {
	if err := checkOperator(ctx, volumesOfAll); err != nil {
		return nil, err
	}
	if a.volumes == nil {
		return nil, absent("this server does not keep the ledger")
	}
	v, err := a.volumes.SealVolume(ctx, requestOf(ctx).actor)
	switch {
	case errors.Is(err, events.ErrEmptyVolume):
		return nil, fail(http.StatusConflict, string(ledger.CodeConflict), "", nothingToSeal)
	case err != nil:
		return nil, err
	}
	return &sealAnswer{Written: a.noteWrite(v.Last + 1), Body: showVolume(v)}, nil
}

func showVolume(v events.VolumeInfo) Volume {
	shown := Volume{Volume: int(v.Number), Stream: v.Number.Stream(), First: v.First, Last: v.Last, Bytes: &v.Bytes, Sealed: v.Sealed, Archived: v.Archived}
	if !v.Began.IsZero() {
		began, ended := events.FormatTime(v.Began), events.FormatTime(v.Ended)
		shown.FirstAt, shown.LastAt = &began, &ended
	}
	return shown
}

// RemovedVolume describes a removed volume.
type RemovedVolume struct {
	Volume       int    `json:"volume" doc:"Number of the volume. All volumes before it are removed too."`
	First        uint64 `json:"first" doc:"Position of the first event."`
	Last         uint64 `json:"last" doc:"Position of the last event."`
	RemovedAt    string `json:"removed_at" doc:"Time of the removal."`
	Sequence     uint64 `json:"sequence" doc:"Position of the event that records the removal."`
	ExportSHA256 string `json:"export_sha256" doc:"SHA-256 of the file events.ndjson of the export."`
	RootHash     string `json:"root_hash" doc:"Tree hash of all events up to the last one of the volume, in base64."`
	KeptEvents   int    `json:"kept_events" doc:"Number of kept events of this and earlier volumes."`
}

func showRemoval(r events.Removal) RemovedVolume {
	return RemovedVolume{
		Volume: int(r.Volume), First: r.First, Last: r.Last, RemovedAt: events.FormatTime(r.At), Sequence: r.Seq,
		ExportSHA256: r.Export.SHA256, RootHash: r.RootHash, KeptEvents: r.Kept.Events,
	}
}

// removeInputBody documents the request body; removeVolume decodes it.
type removeInputBody struct {
	ExportSHA256 string `json:"export_sha256" doc:"SHA-256 of the file events.ndjson of an export of the volume, 64 lowercase hex characters."`
}

type removeInput struct {
	Volume  int `path:"volume" doc:"Number of the volume."`
	RawBody []byte
}

type removeAnswer struct {
	Written
	Body RemovedVolume
}

func (a *api) removeVolume(ctx context.Context, in *removeInput) (*removeAnswer, error) {
	if err := checkOperator(ctx, volumesOfAll); err != nil {
		return nil, err
	}
	if a.volumes == nil {
		return nil, absent("this server does not keep the ledger")
	}
	if f := requireJSON(requestOf(ctx), in.RawBody, `curl -H 'Content-Type: application/json' --data '{"export_sha256":"..."}' ...`); f != nil {
		return nil, f
	}
	var export string
	if f := decodeObject(in.RawBody, map[string]member{"export_sha256": text(&export, nil)}); f != nil {
		return nil, f
	}
	if !events.ValidHash(export) {
		return nil, invalid("export_sha256", "export_sha256 must be a SHA-256 in 64 lowercase hex characters, that of the file events.ndjson of an export")
	}
	r, err := a.volumes.RemoveVolume(ctx, events.Volume(in.Volume), export, requestOf(ctx).actor)
	if why, ok := errors.AsType[*events.NotRemovableError](err); ok {
		return nil, fail(http.StatusConflict, string(ledger.CodeConflict), "", "%s", why)
	}
	if err != nil {
		return nil, err
	}
	return &removeAnswer{Written: a.noteWrite(r.Seq), Body: showRemoval(r)}, nil
}

// removal returns the newest removal of a volume, or a zero one if there is none.
func (a *api) removal() events.Removal {
	if a.volumes == nil {
		return events.Removal{}
	}
	return a.volumes.Removed()
}
