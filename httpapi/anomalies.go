package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"daybook/projections"
)

// maxAnomalies bounds the anomalies that a report lists.
const maxAnomalies = 100

func (a *api) anomalyRoutes(r *router) {
	register(r, huma.Operation{
		OperationID: "get-anomalies", Method: http.MethodGet, Path: "/api/ledger/anomalies", Tags: []string{tagLedger},
		Summary: "Get the anomalies of the ledger",
		Description: "An anomaly is an intact event whose effect is missing from executions, heaps and sessions: it breaks a rule, or its type is unknown to this version. " +
			"With --auth a token of the tenant default with the scopes read and admin sees those of all tenants; any other token sees those of its tenant.",
	}, nil, a.anomalies)
}

// AnomalyReport is the response of GET /api/ledger/anomalies.
type AnomalyReport struct {
	RuleBroken  int64     `json:"rule_broken" doc:"Number of events that break a rule, such as a second end of an execution."`
	UnknownType int64     `json:"unknown_type" doc:"Number of events of types that this version does not know."`
	Newest      []Anomaly `json:"newest" nullable:"false" doc:"Newest anomalies of both kinds, newest first, at most 100."`
	Advice      string    `json:"advice,omitempty" doc:"Recommended action; left out when there are no anomalies."`
}

// Anomaly is an event whose effect is missing from the projections.
type Anomaly struct {
	Sequence uint64    `json:"sequence" doc:"Position of the event."`
	Kind     string    `json:"kind" enum:"rule_broken,unknown_type" doc:"Reason: the event breaks a rule, or this version does not know its type."`
	Type     string    `json:"type" doc:"Type of the event, at most 200 bytes of it."`
	Time     time.Time `json:"time" doc:"Time of the event."`
	Tenant   string    `json:"tenant" doc:"Tenant of the event; @ledger for events about the ledger itself."`
	Detail   string    `json:"detail,omitempty" doc:"The rule that the event breaks, at most 500 bytes; left out for an unknown type."`
}

// Recommended actions.
const (
	ruleAdvice = "if damage was accepted, this is expected: the events around the lost ones do not fit together; otherwise find out which program besides Daybook can write to the ledger, and if there is none, report a bug with these events"
	typeAdvice = "start the version of Daybook that recorded the unknown types, or a newer one"
)

type anomalyAnswer struct{ Body AnomalyReport }

func (a *api) anomalies(ctx context.Context, _ *struct{}) (*anomalyAnswer, error) {
	tenant := a.visibleTenant(ctx)
	if isOperator(ctx) {
		tenant = ""
	}
	found, err := a.q.Anomalies(ctx, tenant, maxAnomalies)
	if err != nil {
		return nil, err
	}
	report := AnomalyReport{RuleBroken: found.RuleBroken, UnknownType: found.UnknownType, Newest: []Anomaly{}}
	for _, n := range found.Newest {
		report.Newest = append(report.Newest, Anomaly{Sequence: n.Seq, Kind: string(n.Kind), Type: string(n.Type), Time: n.Time, Tenant: n.Tenant, Detail: n.What})
	}
	report.Advice = anomalyAdvice(found)
	return &anomalyAnswer{Body: report}, nil
}

func anomalyAdvice(found projections.Anomalies) string {
	switch {
	case found.RuleBroken > 0 && found.UnknownType > 0:
		return typeAdvice + "; " + ruleAdvice
	case found.UnknownType > 0:
		return typeAdvice
	case found.RuleBroken > 0:
		return ruleAdvice
	}
	return ""
}
