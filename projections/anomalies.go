package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"daybook/events"
)

// AnomalyKind is the reason why the effect of an event was left out.
type AnomalyKind string

// Kinds of anomalies.
const (
	// AnomalyRuleBroken is an event that breaks a rule that the write side keeps.
	AnomalyRuleBroken AnomalyKind = "rule_broken"
	// AnomalyUnknownType is an event of a type that this version does not know.
	AnomalyUnknownType AnomalyKind = "unknown_type"
)

// Bounds of the texts of an Anomaly, in bytes.
const (
	maxAnomalyText = 500
	maxAnomalyType = 200
)

// Anomaly is an event whose effect, if any, was left out of the read models.
type Anomaly struct {
	Seq    uint64
	Kind   AnomalyKind
	Tenant string
	// Type is the event's type, at most 200 bytes of it.
	Type events.Type
	// Time is the event's time, in UTC with a precision of 1 ms.
	Time time.Time
	// What names the rule that the event breaks, in at most 500 bytes. It is empty for
	// AnomalyUnknownType.
	What string
}

// Anomalies are counts of the anomalies and the newest of them.
type Anomalies struct {
	RuleBroken, UnknownType int64
	// Newest lists the newest anomalies of both kinds, the newest first.
	Newest []Anomaly
}

// Anomalies counts the anomalies of a tenant, or of all tenants if tenant is empty, and
// returns up to limit of the newest ones, as of one moment. Those of removed volumes do
// not count.
func (s *Store) Anomalies(ctx context.Context, tenant string, limit int) (Anomalies, error) {
	where, args := "", []any{}
	if tenant != "" {
		where, args = " WHERE tenant = ?1", []any{tenant}
	}
	var a Anomalies
	if err := s.readAnomalies(ctx, &a, where, args, limit); err != nil {
		return Anomalies{}, fmt.Errorf("read anomalies: %w", err)
	}
	return a, nil
}

func (s *Store) readAnomalies(ctx context.Context, a *Anomalies, where string, args []any, limit int) error {
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	counts := fmt.Sprintf(`SELECT (SELECT count(*) FROM anomalies%[1]s), (SELECT count(*) FROM unknown_events%[1]s)`, where)
	if err := tx.QueryRowContext(ctx, counts, args...).Scan(&a.RuleBroken, &a.UnknownType); err != nil {
		return err
	}
	newest := fmt.Sprintf(`SELECT seq, tenant, type, at, what, '%[1]s' FROM anomalies%[3]s UNION ALL SELECT seq, tenant, type, at, '', '%[2]s' FROM unknown_events%[3]s ORDER BY seq DESC LIMIT ?`,
		AnomalyRuleBroken, AnomalyUnknownType, where)
	rows, err := tx.QueryContext(ctx, newest, append(args, limit)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var n Anomaly
		var at int64
		if err := rows.Scan(&n.Seq, &n.Tenant, &n.Type, &at, &n.What, &n.Kind); err != nil {
			return err
		}
		n.Type, n.Time = events.Type(cutText(string(n.Type), maxAnomalyType)), time.UnixMilli(at).UTC()
		a.Newest = append(a.Newest, n)
	}
	return errors.Join(rows.Err(), rows.Close())
}

// recordAnomaly notes an event that broke a rule.
func (a *applier) recordAnomaly(e *events.Event, format string, args ...any) error {
	return a.exec(a.s.anomaly, e.Seq, e.Tenant, string(e.Type), e.Time.UnixMilli(), cutText(fmt.Sprintf(format, args...), maxAnomalyText))
}

// unknownType keeps an event of a type that this version does not know.
func (a *applier) unknownType(e *events.Event, d *events.Unknown) error {
	return a.exec(a.s.unknown, e.Seq, e.Tenant, string(d.Type), e.Time.UnixMilli(), d.StoredSubject, append([]byte{}, d.Body...))
}

// cutText shortens a text to most bytes of valid UTF-8.
func cutText(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}
