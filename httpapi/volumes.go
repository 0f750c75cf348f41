package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/access"
	"daybook/ledger"
)

// Volumes are the stretches that the ledger is kept in.
type Volumes interface {
	// Volumes describes them, oldest first.
	Volumes(ctx context.Context) ([]Volume, error)
	// SealVolume ends the one that is written and returns it, or ErrNothingToSeal.
	SealVolume(ctx context.Context, actor events.Actor) (Volume, error)
}

// ErrNothingToSeal is returned while a volume holds nothing yet but its opening.
var ErrNothingToSeal = errors.New("the volume that is written holds nothing yet, so there is nothing to seal; seal it when something was recorded")

// Volume is a stretch of the ledger.
type Volume struct {
	Volume  int     `json:"volume" doc:"Its number, from 1."`
	Stream  string  `json:"stream" doc:"The JetStream stream that holds it."`
	First   uint64  `json:"first" doc:"Position of its first event."`
	Last    uint64  `json:"last" doc:"Position of its last event; first - 1 while there is none."`
	Bytes   uint64  `json:"bytes" doc:"What its events take on disk."`
	Sealed  bool    `json:"sealed" doc:"Whether it is complete: nothing is written to it any more."`
	FirstAt *string `json:"first_at" nullable:"true" doc:"When its first event was stored; null while there is none."`
	LastAt  *string `json:"last_at" nullable:"true" doc:"When its last event was stored; null while there is none."`
}

const volumesPath = "/api/ledger/volumes"

func (a *api) volumeRoutes(r *router) {
	register(r, huma.Operation{
		OperationID: "list-volumes", Method: http.MethodGet, Path: volumesPath, Tags: []string{tagLedger},
		Summary:     "List the volumes of the ledger",
		Description: "The ledger is kept in volumes, each a stream that begins where the one before it ends. Positions are counted over all of them; only the last one is written.",
	}, nil, a.listVolumes)
	register(r, huma.Operation{
		OperationID: "seal-volume", Method: http.MethodPost, Path: volumesPath + "/seal", Tags: []string{tagLedger},
		Summary:     "Seal the volume that is written",
		Description: "Signs what it holds, ends it for good and opens the next one. Who records events meanwhile notices nothing but a short wait. The answer is the volume that was sealed.",
		Metadata:    map[string]any{needs: access.Admin},
	}, []int{http.StatusConflict}, a.sealVolume)
}

type volumesAnswer struct {
	Body struct {
		Volumes []Volume `json:"volumes" nullable:"false" doc:"All volumes, oldest first."`
	}
}

func (a *api) listVolumes(ctx context.Context, _ *struct{}) (*volumesAnswer, error) {
	if a.volumes == nil {
		return nil, unavailable("this server does not keep the ledger")
	}
	list, err := a.volumes.Volumes(ctx)
	if err != nil {
		return nil, err
	}
	out := &volumesAnswer{}
	out.Body.Volumes = list
	return out, nil
}

type sealAnswer struct {
	Written
	Body Volume
}

func (a *api) sealVolume(ctx context.Context, _ *struct{}) (*sealAnswer, error) {
	if a.volumes == nil {
		return nil, unavailable("this server does not keep the ledger")
	}
	v, err := a.volumes.SealVolume(ctx, requestOf(ctx).actor)
	switch {
	case errors.Is(err, ErrNothingToSeal):
		return nil, fail(http.StatusConflict, string(ledger.CodeConflict), "", "%s", err)
	case err != nil:
		return nil, err
	}
	return &sealAnswer{Written: a.wroteAt(v.Last + 1), Body: v}, nil
}
