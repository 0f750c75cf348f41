package audit

import (
	"strings"
	"testing"
	"time"

	"daybook/events"
)

// day is the time of the events before a loss in these tests.
var day = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

// step is an event of a test: its position, the days since day, and its payload.
type step struct {
	seq   uint64
	after float64
	data  events.Data
}

// minted returns an id that was minted some days after day.
func minted(days float64) string { return events.NewID(daysLater(days)) }

func daysLater(days float64) time.Time { return day.Add(time.Duration(days * 24 * float64(time.Hour))) }

func asked(id string) events.Data {
	return &events.ExecutionRequested{ExecutionID: id, Pool: events.DefaultPool}
}

func startedAs(id string, attempt int, line, offset int64) events.Data {
	return &events.ExecutionStarted{ExecutionID: id, Attempt: attempt, FirstLine: line, FirstByte: offset}
}

// printed returns output of one line of one character.
func printed(id string, attempt int, line int64) events.Data {
	return &events.ExecutionOutput{
		ExecutionID: id, Attempt: attempt, FirstLine: line, FirstByte: 2 * (line - 1),
		Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: "a"}}}),
	}
}

// finished returns the end of a run that printed some lines, all in this attempt.
func finished(id string, attempt int, lines int64) events.Data {
	return events.NewEnding(events.StatusCompleted, events.Ending{ExecutionID: id, Attempt: attempt, Output: &events.OutputTotals{
		Lines: lines, Bytes: 2 * lines, SHA256: events.Hash([]byte(strings.Repeat("a\n", int(lines)))),
	}})
}

func left(id, heap string) events.Data {
	return events.NewEnding(events.StatusFailed, events.Ending{ExecutionID: id, Heap: &events.HeapRecord{SHA256: heap}})
}

func collected(heap string) events.Data { return &events.HeapCollected{Heap: heap} }

func handed(id string, attempt int) events.Data {
	return &events.ExecutionHandedBack{ExecutionID: id, Attempt: attempt}
}

func calls(id string, attempt, number int) events.Data {
	return &events.HostCalled{ExecutionID: id, Attempt: attempt, Number: number, Server: "s", Tool: "t"}
}

func answers(id string, number int) events.Data {
	return &events.HostReturned{ExecutionID: id, Attempt: 1, Number: number}
}

func logged(id string, index int64, terminal uint64) events.Data {
	return &events.SessionEntryRecorded{SessionID: "s", Session: "s", Index: index, ExecutionID: id, Status: events.StatusCompleted, TerminalSeq: terminal}
}

func covering(size uint64) events.Data { return &events.LedgerCheckpointed{Size: size} }

// opening names the loss in the tests below.
func opening() events.Data {
	return &events.LedgerVolumeOpened{Volume: 2, First: 100, Reason: events.VolumeDamaged}
}

// What was lost explains only what can have been in it. Positions 11 to 13 and 21 are lost, and the
// event at 100 names both.
func TestALossExplainsWhatItCanHold(t *testing.T) {
	t.Parallel()
	a, b := minted(0), minted(0)
	derived := events.DerivedID(events.DefaultTenant, "key")
	heap := events.Hash([]byte("heap"))
	for _, tt := range []struct {
		name  string
		steps []step
		lost  int    // number of rules that cannot be checked
		finds string // part of the only finding; empty for none
	}{
		{"nothing is missing", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {14, 0, printed(a, 1, 1)}, {15, 0, finished(a, 1, 1)}}, 0, ""},

		// Requests.
		{"a lost request", []step{{14, 0, startedAs(a, 1, 1, 0)}, {15, 0, printed(a, 1, 1)}, {16, 0, finished(a, 1, 1)}}, 1, ""},
		{"a lost request and start", []step{{14, 0, printed(a, 1, 1)}, {15, 0, finished(a, 1, 1)}}, 2, ""},
		{"a request before the loss", []step{{1, 0, asked(b)}, {2, 0, startedAs(a, 1, 1, 0)}}, 0, "never requested"},
		{"an id from after the checkpoint that covers the loss", []step{{14, 0, asked(b)}, {15, 0.1, covering(14)}, {16, 3, startedAs(minted(3), 1, 1, 0)}}, 0, "never requested"},
		{"an id from after the opening", []step{{100, 2, opening()}, {101, 2.5, startedAs(minted(2.5), 1, 1, 0)}}, 0, "never requested"},
		{"an id from before the loss, first seen long after it", []step{{100, 2, opening()}, {101, 30, startedAs(a, 1, 1, 0)}}, 0, "never requested"},
		{"a derived id, first seen long after the loss", []step{{100, 2, opening()}, {101, 30, startedAs(derived, 1, 1, 0)}}, 0, "never requested"},
		{"a derived id, seen before the loss was accepted", []step{{14, 0, startedAs(derived, 1, 1, 0)}, {100, 2, opening()}, {101, 2, finished(derived, 1, 0)}}, 1, ""},
		{"more requests than positions", []step{
			{14, 0, startedAs(minted(0), 1, 1, 0)}, {15, 0, startedAs(minted(0), 1, 1, 0)}, {16, 0, startedAs(minted(0), 1, 1, 0)}, {17, 0, startedAs(minted(0), 1, 1, 0)},
		}, 3, "never requested"},
		{"a lost request, sent again", []step{{14, 0, startedAs(derived, 1, 1, 0)}, {100, 1, opening()}, {101, 1, asked(derived)}, {102, 1, startedAs(derived, 2, 1, 0)}, {103, 1, finished(derived, 2, 0)}}, 2, ""},
		{"a lost request of an ended run, sent again", []step{{14, 0, startedAs(derived, 1, 1, 0)}, {15, 0, finished(derived, 1, 0)}, {101, 1, asked(derived)}}, 2, ""},
		{"a lost request, sent again twice", []step{{14, 0, startedAs(derived, 1, 1, 0)}, {101, 1, asked(derived)}, {102, 1, asked(derived)}}, 2, "requested a second time"},
		{"a lost request of a run without a key, sent again", []step{{14, 0, startedAs(a, 1, 1, 0)}, {101, 1, asked(a)}}, 1, "requested a second time"},
		{"requested again after the loss", []step{{1, 0, asked(a)}, {14, 0, asked(a)}}, 0, "requested a second time"},

		// Runs that begin after the loss.
		{"a later run that ends twice", []step{{14, 0, asked(a)}, {15, 0, startedAs(a, 1, 1, 0)}, {16, 0, finished(a, 1, 0)}, {17, 0, finished(a, 1, 0)}}, 0, "ends a second time"},
		{"a later run that leaves an attempt out", []step{{30, 0, asked(a)}, {31, 0, startedAs(a, 2, 1, 0)}}, 0, "but 1 is next"},
		{"a later run that lacks output", []step{{30, 0, asked(a)}, {31, 0, startedAs(a, 1, 1, 0)}, {32, 0, printed(a, 1, 2)}}, 0, "continues at line 2"},
		{"a later run that lacks its last output", []step{{30, 0, asked(a)}, {31, 0, startedAs(a, 1, 1, 0)}, {32, 0, finished(a, 1, 1)}}, 0, "its end counts"},
		{"a later run that lacks a call", []step{{30, 0, asked(a)}, {31, 0, startedAs(a, 1, 1, 0)}, {32, 0, calls(a, 1, 2)}}, 0, "but 1 is next"},

		// Attempts.
		{"a lost start", []step{{1, 0, asked(a)}, {14, 0, printed(a, 1, 1)}, {15, 0, finished(a, 1, 1)}}, 1, ""},
		{"a lost second attempt", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {14, 0, startedAs(a, 3, 1, 0)}, {15, 0, finished(a, 3, 0)}}, 1, ""},
		{"a lost attempt, but not in the loss", []step{{1, 0, asked(a)}, {14, 0, startedAs(a, 1, 1, 0)}, {15, 0, startedAs(a, 3, 1, 0)}}, 0, "but 2 is next"},
		{"more attempts than positions", []step{{14, 0, asked(a)}, {15, 0, startedAs(a, 1, 1, 0)}, {22, 0, startedAs(a, 4, 1, 0)}}, 0, "but 2 is next"},
		{"an attempt that goes back", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {3, 0, startedAs(a, 2, 1, 0)}, {14, 0, startedAs(a, 1, 1, 0)}}, 0, "but 3 is next"},
		{"a lost hand-back", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {14, 0, startedAs(a, 1, 1, 0)}}, 1, ""},
		{"a start again without a hand-back", []step{{1, 0, asked(a)}, {14, 0, startedAs(a, 1, 1, 0)}, {15, 0, startedAs(a, 1, 1, 0)}}, 0, "but 2 is next"},
		{"a lost start of an attempt that is handed back", []step{{1, 0, asked(a)}, {14, 0, handed(a, 1)}, {15, 0, startedAs(a, 1, 1, 0)}}, 1, ""},
		{"a lost start after a hand-back", []step{
			{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {3, 0, printed(a, 1, 1)}, {4, 0, handed(a, 1)}, {14, 0, printed(a, 1, 2)},
			{15, 0, events.NewEnding(events.StatusCompleted, events.Ending{ExecutionID: a, Attempt: 1, Output: &events.OutputTotals{Lines: 2, Bytes: 4, SHA256: events.Hash([]byte("a\n"))}})},
		}, 1, ""},
		{"an end of a lost attempt", []step{{1, 0, asked(a)}, {14, 0, finished(a, 1, 3)}}, 1, ""},
		{"an end of an attempt that never was", []step{{1, 0, asked(a)}, {14, 0, startedAs(a, 1, 1, 0)}, {15, 0, finished(a, 2, 0)}}, 0, "attempt 2"},

		// Output.
		{"lost output", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {14, 0, printed(a, 1, 2)}, {15, 0, printed(a, 1, 3)}, {16, 0, finished(a, 1, 3)}}, 1, ""},
		{"lost output, and a gap after it", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {14, 0, printed(a, 1, 2)}, {15, 0, printed(a, 1, 4)}}, 1, "continues at line 4"},
		{"lost output, and an end that counts less", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {14, 0, printed(a, 1, 3)}, {15, 0, finished(a, 1, 1)}}, 1, "its end counts"},
		{"lost output, and an end that counts more", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {14, 0, printed(a, 1, 3)}, {15, 0, finished(a, 1, 4)}}, 1, "its end counts"},
		{"lost output at the end", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {14, 0, finished(a, 1, 3)}}, 1, ""},
		{"other output than the end says", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {3, 0, printed(a, 1, 1)}, {14, 0,
			events.NewEnding(events.StatusCompleted, events.Ending{ExecutionID: a, Attempt: 1, Output: &events.OutputTotals{Lines: 1, Bytes: 2, SHA256: events.Hash([]byte("b\n"))}}),
		}}, 0, "its end says"},

		// Calls.
		{"a lost call", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {3, 0, calls(a, 1, 1)}, {4, 0, answers(a, 1)}, {14, 0, calls(a, 1, 3)}, {15, 0, answers(a, 2)}, {16, 0, answers(a, 3)}}, 1, ""},
		{"a lost call with its answer", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {14, 0, answers(a, 1)}, {15, 0, calls(a, 1, 2)}}, 1, ""},
		{"a lost call that is answered twice", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {14, 0, answers(a, 1)}, {15, 0, answers(a, 1)}}, 1, "not pending"},
		{"a call that was answered before the loss", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {3, 0, calls(a, 1, 1)}, {4, 0, answers(a, 1)}, {14, 0, answers(a, 1)}}, 0, "not pending"},
		{"a call number again", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {3, 0, calls(a, 1, 1)}, {14, 0, calls(a, 1, 1)}}, 0, "but 2 is next"},
		{"more calls than positions", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {14, 0, calls(a, 1, 5)}}, 0, "but 1 is next"},
		{"a lost attempt that calls and prints", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {22, 0, calls(a, 2, 1)}, {23, 0, printed(a, 2, 5)}, {24, 0, finished(a, 2, 5)}}, 1, ""},

		// Ends.
		{"a second end after the loss", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {3, 0, finished(a, 1, 0)}, {14, 0, finished(a, 1, 0)}}, 0, "ends a second time"},
		{"a start after the end and the loss", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {3, 0, finished(a, 1, 0)}, {14, 0, startedAs(a, 2, 1, 0)}}, 0, "after its end"},

		// Entries.
		{"a lost end with an entry", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {14, 0, logged(a, 0, 12)}}, 1, ""},
		{"an entry of an end that is elsewhere", []step{{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {14, 0, logged(a, 0, 14)}}, 0, "not recorded"},
		{"lost entries", []step{{14, 0, logged(a, 3, 12)}, {15, 0, logged(b, 4, 13)}}, 3, ""},
		{"more lost entries than positions", []step{{14, 0, logged(a, 4, 12)}}, 1, "but 0 is next"},
		{"an entry again", []step{
			{1, 0, asked(a)}, {2, 0, startedAs(a, 1, 1, 0)}, {3, 0, finished(a, 1, 0)}, {4, 0, logged(a, 0, 3)}, {14, 0, logged(a, 0, 3)},
		}, 0, "but 1 is next"},
		{"a gap in the entries after the loss", []step{{14, 0, logged(a, 2, 12)}, {15, 0, logged(b, 4, 13)}}, 3, "but 3 is next"},

		// Heaps.
		{"a heap of a lost end", []step{{14, 0, collected(heap)}}, 1, ""},
		{"a heap of a lost end, collected twice", []step{{14, 0, collected(heap)}, {15, 0, collected(heap)}}, 1, "collected before"},
		{"a heap that was collected before the loss and left in it", []step{{1, 0, asked(a)}, {2, 0, left(a, heap)}, {3, 0, collected(heap)}, {14, 0, collected(heap)}}, 1, ""},
		{"a heap that was collected twice after the loss", []step{{14, 0, asked(a)}, {15, 0, left(a, heap)}, {16, 0, collected(heap)}, {17, 0, collected(heap)}}, 0, "collected before"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			report := &Report{}
			r := newRules(report, false)
			r.losses = newLosses(events.Lost{{From: 11, To: 13, NamedAt: 100}, {From: 21, To: 21, NamedAt: 100}})
			for _, s := range tt.steps {
				tenant := events.DefaultTenant
				if strings.HasPrefix(string(events.TypeOf(s.data)), "daybook.ledger.") {
					tenant = events.LedgerTenant
				}
				e := events.New(tenant, daysLater(s.after), s.data)
				e.Seq = s.seq
				r.apply(&e)
			}
			switch {
			case tt.finds == "" && report.Found > 0, tt.finds != "" && (report.Found != 1 || !strings.Contains(report.Findings[0].What, tt.finds)):
				t.Errorf("found %v, want %q", report.Findings, tt.finds)
			case report.Affected != tt.lost:
				t.Errorf("%d rules cannot be checked, want %d: %v", report.Affected, tt.lost, report.LostEffects)
			}
		})
	}
}
