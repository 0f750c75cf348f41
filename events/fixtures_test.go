package events_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
)

var update = flag.Bool("update", false, "write the fixtures that are missing; existing ones never change")

// fixture is the stored wire form of an event. Ledgers contain it permanently, and the
// documentation shows it as the example.
type fixture struct {
	Subject string            `json:"subject"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// volume1 is the prefix that the store adds to the subjects of the first volume.
const volume1 = "ledger.0001."

func fixturePath(t events.Type) string { return filepath.Join("testdata", string(t)+".json") }

func (f fixture) message(t *testing.T) events.Message {
	t.Helper()
	m := events.Message{Subject: f.Subject, Header: map[string][]string{}}
	for k, v := range f.Headers {
		m.Header[k] = []string{v}
	}
	var body bytes.Buffer
	if err := json.Compact(&body, f.Body); err != nil {
		t.Fatal(err)
	}
	m.Body = body.Bytes()
	return m
}

// Ids of the examples. In them, a client submits an execution with a heap, a session and
// tags, and two runners make attempts at it.
const (
	execution = "019ab3c4-6a3e-7c51-8f0e-2b9d54e1a7f3"
	webhook   = "019ab3c4-6a3e-7d02-9a11-5f0c77e2b8d4"
	logical   = "9f2c4e6a8b0d1f3357799bbddff0123456789abcdef00112233445566778899a"
	heapIn    = "3f79bb7b435b05321651daefd374cdc681dc06faa65e374e38337b88ca046dea"
	heapOut   = "a665a45920422f9d417e4867efdc4fb8a04a1f3fff1fa07e998e86f7f7a27ae3"
	trace     = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

var (
	began   = time.Date(2026, 11, 21, 9, 30, 0, 125_000_000, time.UTC)
	session = events.SessionID(events.DefaultTenant, "trip-planner")
	editor  = events.Actor{Principal: "anonymous", Transport: "acp", Client: "example-editor 2.1"}
	client  = events.Actor{Principal: "anonymous", Transport: "mcp-http", Client: "example-agent 1.4", Address: "127.0.0.1:51122"}
	limits  = events.Limits{HeapMemoryMaxMB: 64, ExecutionTimeoutSecs: 30, OutputMaxBytes: 64 << 20}
	usage   = events.Usage{CPUMillis: 12, WallMillis: 40, PeakHeapBytes: 4 << 20}
	talk    = events.ContextRef{Key: events.ContextKey(events.DefaultTenant, events.ContextSession, "trip-planner"), SessionID: logical, Kind: events.ContextSession}
	totals  = events.OutputTotals{Lines: 2, Bytes: 17, SHA256: events.Hash([]byte("planning\n[WARN] 3"))}
)

// examples returns one event of each type. Each member is set in one of them.
func examples() []events.Data {
	failed := events.Ending{
		ExecutionID: execution, Attempt: 2, Runner: "runner-b", Reason: "exception",
		Content: events.Plain(events.EndingContent{Error: &events.Body{Text: "Error: no such city\n    at plan (main.ts:2:9)"}}),
		Heap:    &events.HeapRecord{SHA256: heapOut, Size: 1_204_224, EngineID: "e1b2c3", Parent: heapIn},
		Output:  &totals, TranspiledSHA256: events.Hash([]byte("plan()")), Usage: &usage, Warnings: []string{"a timer was left behind"},
	}
	completed := failed
	completed.Reason = ""
	completed.Content = events.Plain(events.EndingContent{
		Result:          &events.Body{Blob: &events.BlobRef{SHA256: heapIn, Size: 16 << 20, Preview: "[1,2,3"}},
		ResultTruncated: true,
	})
	timedOut := failed
	timedOut.Reason, timedOut.Heap, timedOut.Warnings = "timeout", nil, nil
	timedOut.Content = events.Plain(events.EndingContent{Error: &events.Body{Text: "Execution timed out"}})
	timedOut.Output = &events.OutputTotals{Lines: 9000, Bytes: 70 << 20, SHA256: heapIn, Truncated: true}
	return []events.Data{
		&events.ExecutionRequested{
			ExecutionID: execution, Pool: "default",
			Content:      events.Plain(events.RequestedContent{Source: events.Body{Text: "cities.push(\"Oslo\")\nplan(cities)"}, Tags: map[string]string{"env": "test", "model": "v2"}}),
			SourceSHA256: events.Hash([]byte("cities.push(\"Oslo\")\nplan(cities)")), FileName: "main.ts", Stateful: true, Heap: heapIn, Limits: limits,
			Session: "trip-planner", SessionID: session, RequestSHA256: events.Hash([]byte("request")), Idempotent: true, Actor: client,
			Warnings: []string{"heap_memory_max_mb was raised to 8, the least an isolate starts with"},
		},
		&events.ExecutionStarted{
			ExecutionID: execution, Attempt: 2, Runner: "runner-b",
			Engine: events.Engine{ID: "e1b2c3", V8Version: "13.6.233.10", Flags: "--random-seed=1", JIT: true, PreludeSHA256: heapOut, SnapshotFormat: 1},
			Seed:   "00112233445566778899aabbccddeeff", StartTime: events.Instant{Time: began.Add(time.Second)}, Limits: limits, InputHeap: heapIn,
			FirstLine: 2, FirstByte: 9, Layers: []string{"seccomp", "namespaces"}, Warnings: []string{"the input heap was not on record"},
		},
		&events.ExecutionOutput{
			ExecutionID: execution, Attempt: 2, FirstLine: 2, FirstByte: 9,
			Content: events.Plain(events.OutputContent{Lines: []events.Line{
				{Text: "planning", TimeMillis: 1795253401125},
				{Text: "[WARN] 3", Level: events.LevelWarn, TimeMillis: 1795253401130, Continued: true},
			}}),
		},
		&events.ExecutionOutputTruncated{ExecutionID: execution, Attempt: 2, FirstLine: 9000, FirstByte: 64 << 20, LimitBytes: 64 << 20},
		&events.ExecutionCancelRequested{ExecutionID: execution, Actor: client},
		&events.ExecutionHandedBack{ExecutionID: execution, Attempt: 1, Runner: "runner-a", Reason: "draining"},
		events.NewEnding(events.StatusCompleted, completed),
		events.NewEnding(events.StatusFailed, failed),
		events.NewEnding(events.StatusTimedOut, timedOut),
		events.NewEnding(events.StatusCancelled, events.Ending{
			ExecutionID: execution, Attempt: 2, Content: events.Plain(events.EndingContent{Error: &events.Body{Text: "Cancelled by user"}}), Actor: &client,
		}),
		&events.HeapTagged{
			Heap: heapOut, Content: events.Plain(events.TagContent{Tags: map[string]string{"env": "test", "model": "v2"}}),
			Edit: events.EditRun, ExecutionID: execution, AppliesAt: 1041, Actor: client,
		},
		&events.SessionEntryRecorded{
			SessionID: session, Session: "trip-planner", Index: 3, ExecutionID: execution, Status: events.StatusCompleted,
			InputHeap: heapIn, OutputHeap: heapOut, CompletedAt: events.Instant{Time: began.Add(2 * time.Second)}, TerminalSeq: 1041,
		},
		&events.WebhookRegistered{
			WebhookID: webhook, Content: events.Plain(events.WebhookContent{URL: "https://hooks.example.com/daybook"}),
			Types: []events.Type{events.TypeExecutionCompleted, events.TypeExecutionFailed}, Session: "trip-planner", ExecutionID: execution, After: 1042, Actor: client,
		},
		&events.WebhookDeleted{WebhookID: webhook, Actor: client},
		&events.WebhookDeadLettered{
			WebhookID: webhook, EventSeq: 1041, EventID: "019ab3c4-6a3e-7c51-8f0e-000000000006", EventKind: events.TypeExecutionCompleted,
			Attempts: 15, FirstAttemptAt: events.Instant{Time: began.Add(3 * time.Second)}, Reason: "the receiver answered 500 Internal Server Error", Status: 500,
		},
		&events.WebhookDisabled{WebhookID: webhook, EventSeq: 1041, Reason: "the receiver answered 410 Gone"},
		&events.WebhookRetryRequested{WebhookID: webhook, EventSeqs: []uint64{1041}, Actor: client},
		&events.WebhookRedelivered{WebhookID: webhook, EventSeq: 1041},
		&events.LedgerCheckpointed{
			LedgerID: webhook, Origin: "daybook/" + webhook, Size: 1042, RootHash: "n9vhZ1JWmoVxaLrOZ4ALUSQbI2kkZsQF6OQdVzhB1Vs=",
			Note: "daybook/" + webhook + "\n1042\nn9vhZ1JWmoVxaLrOZ4ALUSQbI2kkZsQF6OQdVzhB1Vs=\n\n\u2014 daybook/" + webhook + " AAAA\n",
		},
		&events.HeapCollected{
			Heap: heapOut, Rule: events.CollectionRule{OlderThanSecs: 2_592_000, KeepEntries: 100, Session: session}, Size: 1_204_224, MadeAt: 1041,
			LastUse: events.Instant{Time: began.Add(2 * time.Second)}, Decided: 2077, Actor: client,
		},
		&events.SessionNamed{IntentKey: events.IntentKey(events.DefaultTenant, "plan a trip"), SessionID: logical},
		&events.SessionOpened{
			SessionID: logical, Kind: events.SessionLogical, Content: events.Plain(events.SessionContent{Intent: "plan a trip"}),
			IntentSHA256: events.Hash([]byte("plan a trip")), Actor: client, Parent: heapIn, Head: heapOut,
		},
		&events.SessionExpanded{
			SessionID: logical, DomainRevision: 2, Binding: events.SessionBinding{Primary: "builtin", CatalogSHA256: heapIn, EngineID: "e1b2c3", Principal: "alice"},
			Added: []events.TaughtEntry{{ID: "builtin.console", SHA256: heapOut, Symbol: "t3"}},
			Next:  events.SessionNext{Turn: 4, ExecutionID: execution}, Actor: client,
		},
		&events.SessionTurnQueued{SessionID: logical, Number: 5, ExecutionID: execution, After: webhook, Reset: true, Heap: heapIn},
		&events.SessionTurnSkipped{SessionID: logical, Number: 4, ExecutionID: webhook, Next: events.SessionNext{Turn: 5, ExecutionID: execution}},
		&events.SessionRebound{
			SessionID: logical, Reason: "heap_lost", PreviousHeap: heapOut, PreviousExecutionID: execution,
			Next: events.SessionNext{Turn: 5, ExecutionID: execution, Reset: true, Heap: heapIn}, Actor: client,
		},
		&events.SessionRefAssigned{Holder: heapOut, Ref: "s0", SessionID: logical},
		&events.LedgerVolumeSealed{
			Volume: 1, First: 1, Reason: events.VolumeAged,
			Closing: &events.ClosingCheckpoint{
				Origin: "daybook/" + webhook, Size: 1042, RootHash: "n9vhZ1JWmoVxaLrOZ4ALUSQbI2kkZsQF6OQdVzhB1Vs=",
				Note: "daybook/" + webhook + "\n1042\nn9vhZ1JWmoVxaLrOZ4ALUSQbI2kkZsQF6OQdVzhB1Vs=\n\n\u2014 daybook/" + webhook + " AAAA\n",
			},
			Actor: events.Actor{Principal: "daybook", Transport: "embed"},
		},
		&events.LedgerVolumeOpened{
			Volume: 2, First: 1051, Predecessor: events.Predecessor{Volume: 1, First: 1, Last: 1043, LastID: execution},
			Reason: events.VolumeDamaged, Hole: &events.Hole{From: 1044, To: 1050}, Note: "the ledger ends at position 1043, but 1050 was recorded",
			Lost: events.Lost{
				{From: 12, To: 12, NamedAt: 1051, Hashes: []string{"n9vhZ1JWmoVxaLrOZ4ALUSQbI2kkZsQF6OQdVzhB1Vs="}}, {From: 1044, To: 1050, NamedAt: 1051},
			},
			LostBlobs: []events.LostBlob{{Tenant: "default", Kind: "heap", SHA256: heapOut}},
			Signed:    &events.CheckpointRef{Size: 1042, RootHash: "n9vhZ1JWmoVxaLrOZ4ALUSQbI2kkZsQF6OQdVzhB1Vs="},
			Kept:      "damaged-20261121T093002.625Z",
			Actor:     events.Actor{Principal: "daybook", Transport: "embed"},
		},
		&events.AgentSessionCreated{
			SessionID: logical, Content: events.Plain(events.AgentWorkspace{Cwd: "/home/user/project", AdditionalDirectories: []string{"/home/user/shared"}}),
			Config: events.AgentConfig{Mode: events.AgentModeAsk, HeapMemoryMaxMB: 128, ExecutionTimeoutSecs: 60}, Servers: []string{"filesystem"},
			Fork: &events.AgentFork{SessionID: heapIn, Position: 1041}, Actor: editor,
		},
		&events.AgentSessionAttached{
			SessionID: logical, Replayed: true, Content: events.Plain(events.AgentWorkspace{Cwd: "/home/user/project"}), Servers: []string{"filesystem"}, Actor: editor,
		},
		&events.AgentSessionConfigured{SessionID: logical, Config: events.AgentConfig{Mode: events.AgentModeAuto, ExecutionTimeoutSecs: 120}, Actor: editor},
		&events.AgentPrompted{
			SessionID: logical, PromptID: webhook, ExecutionID: execution, Actor: editor,
			Content: events.Plain(events.PromptContent{Blocks: events.Body{Text: `[{"type":"text","text":"1 + 1"}]`}, Title: "1 + 1"}),
		},
		&events.AgentAnswered{SessionID: logical, PromptID: webhook, Content: events.Plain(events.AnswerContent{Text: events.Body{Text: "The session has no heap yet."}}), Cleared: true},
		&events.AgentPermissionDecided{
			SessionID: logical, ExecutionID: execution, Server: "filesystem", Tool: "delete_file", Outcome: "rejected", Mode: events.AgentModeAsk, Actor: editor,
		},
		&events.AgentSessionClosed{SessionID: logical, Actor: editor},
		&events.AgentSessionDeleted{SessionID: logical, Actor: editor},
		&events.ContextUpdated{
			ContextRef: talk, Actor: client,
			Content: events.Plain(events.ContextContent{
				UserPreferences: events.UserPreferences{OutputFormat: "markdown", MaxResults: 20, Language: "pt-BR"},
				Custom:          map[string]json.RawMessage{"cities": json.RawMessage(`["Oslo"]`)},
			}),
		},
		&events.ContextCleared{ContextRef: talk, Actor: client},
		&events.ContextExpired{ContextRef: talk, LastUse: events.Instant{Time: began}, IdleSecs: 1800},
		&events.ContextNoted{
			ContextRef: talk, Since: events.Instant{Time: began}, UsedAt: events.Instant{Time: began.Add(time.Second)},
			Content: events.Plain(events.NotedContent{
				Calls: []events.NotedCall{{
					Tool: "query_heaps_by_tags", Arguments: map[string]json.RawMessage{"tags": json.RawMessage(`{"env":"test"}`)}, ArgumentsSHA256: heapIn, Times: 3,
					CalledAt: events.Instant{Time: began}, ResultSummary: "2 heaps", ResultSHA256: heapOut, Results: new(int64(2)),
				}},
				Resources: []events.NotedResource{{
					ResourceID: "session://trip-planner", ResourceType: "document", FetchedAt: events.Instant{Time: began.Add(time.Second)},
					ContentSHA256: heapOut, Summary: `{"entries":[`,
				}},
			}),
		},
		&events.HostCalled{
			ExecutionID: execution, Attempt: 2, Number: 1, Server: "geo", Tool: "locate", ArgumentsSHA256: events.Hash([]byte(`{"city":"Oslo"}`)),
			Content: events.Plain(events.HostCalledContent{Arguments: &events.Body{Text: `{"city":"Oslo"}`}}),
		},
		&events.HostReturned{
			ExecutionID: execution, Attempt: 2, Number: 1, Outcome: events.HostOK, DurationMillis: 84, AnsweredAt: events.Instant{Time: began.Add(1084 * time.Millisecond)},
			ResultSHA256: events.Hash([]byte(`{"lat":59.91,"lon":10.75}`)), Content: events.Plain(events.HostReturnedContent{Result: &events.Body{Text: `{"lat":59.91,"lon":10.75}`}}),
		},
		&events.SessionShredded{SessionID: session, Session: "trip-planner", KeyIDs: []string{"5f0c77e2b8d49a11-7d026a3e019ab3c4"}, Executions: 4, Actor: client},
		&events.LedgerVolumeRemoved{
			Volume: 1, First: 1, Last: 1043, Ended: events.Instant{Time: began}, RootHash: "n9vhZ1JWmoVxaLrOZ4ALUSQbI2kkZsQF6OQdVzhB1Vs=",
			Closing: events.ClosingCheckpoint{
				Origin: "daybook/" + webhook, Size: 1042, RootHash: "n9vhZ1JWmoVxaLrOZ4ALUSQbI2kkZsQF6OQdVzhB1Vs=",
				Note: "daybook/" + webhook + "\n1042\nn9vhZ1JWmoVxaLrOZ4ALUSQbI2kkZsQF6OQdVzhB1Vs=\n\n\u2014 daybook/" + webhook + " AAAA\n",
			},
			Export: events.VolumeExport{SHA256: heapIn, Bytes: 812345, Events: 1043}, Kept: events.KeptEvents{SHA256: heapOut, Events: 12}, Actor: client,
		},
		&events.SessionReset{
			SessionID: session, Kind: events.SessionLog, Session: "trip-planner", Heap: heapOut, Entries: 4, IdempotencySHA256: heapIn,
			Next: &events.SessionNext{Turn: 5, ExecutionID: execution, Reset: true, Heap: heapOut}, Actor: client,
		},
		&events.BlobsLost{
			Volume: 2, Blobs: []events.LostContent{{Kind: "heap", SHA256: heapOut}, {Kind: "text", SHA256: heapIn}},
			Actor: events.Actor{Principal: "daybook", Transport: "embed"},
		},
		&events.LedgerSignersChanged{
			LedgerID: webhook, Origin: "daybook/" + webhook + "/2", Number: 3, Action: "start", Key: "daybook/" + webhook + "/2+fa3ad126+AdIs2A3wGYwSG3cRzQ6b9ddoURBWW/yADJGNeXFGVpYd",
			Ended: &events.EndedOrigin{
				Origin: "daybook/" + webhook, Size: 1042, RootHash: "n9vhZ1JWmoVxaLrOZ4ALUSQbI2kkZsQF6OQdVzhB1Vs=", Reason: "the signing key was lost",
				Unconfirmed: &events.CheckpointRef{Size: 1044, RootHash: "n9vhZ1JWmoVxaLrOZ4ALUSQbI2kkZsQF6OQdVzhB1Vs="}, Missing: []events.Hole{{From: 1043, To: 1044}},
			},
			Note:  "daybook-signers-v1\ndaybook/" + webhook + "/2\n3\n…\n\n\u2014 daybook/" + webhook + "/2 AAAA\n",
			Actor: events.Actor{Principal: "daybook", Transport: "embed"},
		},
		&events.ExecutionReplayed{
			ExecutionID: execution, EndedAt: 1049, Verdict: events.ReplayDifferent, Stopped: true, Compared: []events.ReplayPart{events.ReplayOutput, events.ReplayCalls},
			Part: events.ReplayOutput, Line: 3, Call: 1, Reason: "timeout", Engine: events.Engine{ID: "e1b2c3", V8Version: "13.6.233.10", Flags: "--random-seed=1", PreludeSHA256: heapOut, SnapshotFormat: 1}, Heap: heapOut, WallMillis: 41, Actor: client,
			Content: events.Plain(events.ReplayedContent{Recorded: "Oslo 59.91", Replayed: "Oslo 59.92"}),
		},
		&events.ExecutionArtifactCreated{
			ExecutionID: execution, Attempt: 1, Number: 2, SHA256: heapIn, Size: 20481, Line: 4, TimeMillis: 1764158400250,
			Content: events.Plain(events.ArtifactContent{Name: "route.svg", MIME: "image/svg+xml", Blob: heapIn}),
		},
		&events.HeapMigrated{
			Heap: heapOut, EngineID: "e1b2c3", Engine: events.Engine{ID: "f4a5b6", V8Version: "14.2.231.5", Flags: "--random-seed=1", PreludeSHA256: heapIn, SnapshotFormat: 1},
			Verdict: events.MigrationDifferent, NewHeap: heapIn, Size: 1_204_224, Parent: heapIn, From: heapIn, Executions: 2, FirstExecutionID: webhook, LastExecutionID: execution,
			ExecutionsSHA256: heapOut, ExecutionID: execution, Part: events.ReplayOutput, Line: 3, Call: 1, Reason: "lineage_unknown", WallMillis: 41, Actor: client, RunID: execution,
			Content: events.Plain(events.ReplayedContent{Recorded: "Oslo 59.91", Replayed: "Oslo 59.92"}),
		},
		&events.ModuleAdmitted{
			Specifier: "npm:@trip/maps@^1", Registry: "https://registry.npmjs.org", Actor: client,
			Packages: []events.AdmittedPackage{{
				Name: "@trip/maps", Version: "1.2.0", Direct: true, SHA512: heapIn + heapOut, Tarball: events.BlobRef{SHA256: heapOut, Size: 812}, Unpacked: 2048, Files: 4, License: "MIT",
				Dependencies: []events.ModuleDependency{{Name: "geo", Package: "geo@2.0.1"}},
			}},
		},
		&events.ModuleRemoved{Packages: []string{"@trip/maps@1.2.0", "geo@2.0.1"}, Actor: client},
		&events.ExecutionModulesLoaded{
			ExecutionID: execution, Attempt: 2, BundleSHA256: heapOut,
			Content: events.Plain(events.ModulesContent{
				Specifiers: []string{"npm:@trip/maps@1"}, Packages: []events.LoadedPackage{{Name: "@trip/maps", Version: "1.2.0", SHA512: heapIn + heapOut}},
				Bundle: &events.Body{Blob: &events.BlobRef{SHA256: heapOut, Size: 512}}, Error: "none",
			}),
		},
		&events.LedgerProjectionsCopied{Volume: 1, Position: 1043, Schema: 33, SHA256: heapOut},
	}
}

// later returns payloads with the members that were added after the fixture of their type
// was written. Fixtures never change.
func later() []events.Data {
	return []events.Data{
		&events.ExecutionRequested{Interactive: true, Turn: &events.Turn{SessionID: logical, Number: 5, After: webhook, Reset: true, Heap: heapIn, QueuedSeq: 1040}, Context: &talk},
		&events.ExecutionRequested{Content: events.Plain(events.RequestedContent{Globals: &events.Body{Text: `{"prompt":{"resources":[]}}`}, FileName: "plan.ts", Files: &events.Body{Text: `{"util.ts":"1"}`}})},
		&events.SessionShredded{SessionID: logical, Kind: events.SessionLogical},
		&events.SessionReset{SessionID: logical, Kind: events.SessionLogical, IdempotencySHA256: heapIn, IdempotencyKeyID: "5f0c77e2b8d49a11-7d026a3e019ab3c4"},
		&events.ExecutionStarted{InputHeap: heapOut, MigratedFrom: heapIn},
		&events.ExecutionStarted{Callable: &events.Body{Text: `{"geo":["locate"]}`}, NodeGlobals: true, WASMModules: []events.WASMModule{{Name: "math", Module: events.BlobRef{SHA256: strings.Repeat("0a", 32), Size: 41}, HasImports: true}}},
		&events.ExecutionStarted{Engine: events.Engine{Locale: "en-US", TimeZone: "UTC", Build: "0f1e2d3c4b5a6978"}},
		&events.ExecutionFailed{Ending: events.Ending{TimersCancelled: 2}},
		&events.ExecutionCompleted{Ending: events.Ending{Pristine: new(false)}},
		&events.ExecutionCompleted{Ending: events.Ending{Nondeterministic: events.AllNondeterminism()}},
		&events.ExecutionOutput{Hidden: &events.OutputExtent{Lines: 1, Bytes: 17, Open: true}},
		&events.LedgerVolumeOpened{Lost: events.Lost{{From: 12, To: 12, NamedAt: 1051, Unreadable: true}}},
		&events.ExecutionReplayed{Artifact: 2, MigratedHeap: heapIn},
		&events.HeapMigrated{Artifact: 2},
		&events.HostReturned{
			Fetch: &events.FetchRecord{
				Decisions:   []events.FetchDecision{{Allowed: true, PolicySHA256: heapIn, Rule: "data.mcp.fetch.allow", AddedHeaders: []string{"authorization"}, Status: 302}, {PolicySHA256: heapIn, Rule: "data.mcp.fetch.allow"}},
				RequestBody: &events.FetchBody{SHA256: heapIn, Size: 12}, ResponseBody: &events.FetchBody{SHA256: heapOut, Size: 70000},
			},
			Content: events.Plain(events.HostReturnedContent{Requests: []events.FetchRequest{{Method: "GET", URL: "https://geo.example.com/"}, {Method: "GET", URL: "https://example.net/", Problem: "too slow"}}}),
		},
	}
}

// envelope returns example i as an event with an id and a time that never change.
func envelope(i int, d events.Data) events.Event {
	e := events.New(events.DefaultTenant, began.Add(time.Duration(i)*250*time.Millisecond), d)
	e.ID = "019ab3c4-6a3e-7c51-8f0e-0000000000" + string("0123456789abcdef"[i/16]) + string("0123456789abcdef"[i%16])
	e.Traceparent = trace
	switch e.Type {
	case events.TypeLedgerCheckpointed, events.TypeLedgerSignersChanged, events.TypeLedgerVolumeSealed, events.TypeLedgerVolumeOpened, events.TypeLedgerVolumeRemoved, events.TypeLedgerProjectionsCopied:
		e.Tenant = events.LedgerTenant
	}
	return e
}

// Every type is read and written in the form in which it was introduced.
func TestFixtures(t *testing.T) {
	t.Parallel()
	all := examples()
	if len(all) != len(events.Types()) {
		t.Fatalf("%d examples for %d types", len(all), len(events.Types()))
	}
	for i, typ := range events.Types() {
		t.Run(string(typ), func(t *testing.T) {
			want := envelope(i, all[i])
			if want.Type != typ {
				t.Fatalf("example %d is %s", i, want.Type)
			}
			if *update {
				writeMissing(t, want)
			}
			m := readFixture(t, typ).message(t)
			if m.Header["ce-recordversion"] == nil {
				want.RecordVersion = 1 // written before version 2
			}
			got, err := events.Decode(0, m)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the stored event decodes to something else:\n%s", diff)
			}
			again, err := events.Encode(got)
			if err != nil {
				t.Fatal(err)
			}
			again.Subject = volume1 + again.Subject
			if diff := cmp.Diff(m, again); diff != "" {
				t.Errorf("the stored event encodes to something else:\n%s", diff)
			}
		})
	}
}

func readFixture(t *testing.T, typ events.Type) fixture {
	t.Helper()
	raw, err := os.ReadFile(fixturePath(typ))
	if err != nil {
		t.Fatalf("%v: run the test with -update to write it", err)
	}
	var f fixture
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func writeMissing(t *testing.T, e events.Event) {
	t.Helper()
	if _, err := os.Stat(fixturePath(e.Type)); err == nil {
		return
	}
	m, err := events.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{Subject: volume1 + m.Subject, Headers: map[string]string{}, Body: m.Body}
	for k, v := range m.Header {
		f.Headers[k] = v[0]
	}
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fixturePath(e.Type), append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Members that were added to a type are stored and read.
func TestLaterMembers(t *testing.T) {
	t.Parallel()
	for i, d := range later() {
		want := envelope(i, d)
		m, err := events.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := events.Decode(0, m)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s decodes to something else:\n%s", events.TypeOf(d), diff)
		}
	}
}

// A fixture without a type means that a type was removed or renamed. Stored events of the
// type could then not be decoded.
func TestNoStrayFixtures(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, typ := range events.Types() {
		known[fixturePath(typ)] = true
	}
	for _, p := range paths {
		if !known[p] {
			t.Errorf("%s belongs to no type", p)
		}
	}
	if len(paths) != len(known) {
		t.Errorf("%d fixtures of %d types", len(paths), len(known))
	}
}

// Each member of a payload is set in one of the examples, which the documentation shows.
func TestExamplesSetEverything(t *testing.T) {
	t.Parallel()
	set := map[string]bool{}
	var fields []string
	// Four types share Ending, so its members are named after Ending.
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[time.Time]() {
				return
			}
			for i := range v.NumField() {
				name := v.Type().Name() + "." + v.Type().Field(i).Name
				if v.Type().Field(i).Name == "Sealed" {
					continue // the examples have plain content
				}
				fields = append(fields, name)
				if !v.Field(i).IsZero() {
					set[name] = true
				}
				walk(v.Field(i))
			}
		}
	}
	for _, d := range slices.Concat(examples(), later()) {
		walk(reflect.ValueOf(d))
	}
	for _, f := range fields {
		if !set[f] {
			t.Errorf("%s is set in no example", f)
		}
	}
}

// Every type, also a future one, has a name of the usual form and at most one status.
func TestTypes(t *testing.T) {
	t.Parallel()
	seen := map[events.Type]bool{}
	statuses := map[events.Status]bool{}
	for i, typ := range events.Types() {
		d := examples()[i]
		if seen[typ] {
			t.Errorf("%s is listed twice", typ)
		}
		seen[typ] = true
		if events.TypeOf(d) != typ {
			t.Errorf("the payload of %s has the type %s", typ, events.TypeOf(d))
		}
		parts := strings.Split(string(typ), ".")
		if len(parts) != 4 || parts[0] != "daybook" || parts[3] != "v1" {
			t.Errorf("%s does not have the form daybook.<subject>.<fact>.v<N>", typ)
		}
		status, terminal := typ.Status()
		if terminal != (events.EndingOf(d) != nil) || terminal != typ.Terminal() || terminal != status.Terminal() {
			t.Errorf("%s: status %q, terminal %t, ending %t", typ, status, typ.Terminal(), events.EndingOf(d) != nil)
		}
		if terminal {
			if statuses[status] {
				t.Errorf("%s: a second type for status %s", typ, status)
			}
			statuses[status] = true
			if string(status) != parts[2] {
				t.Errorf("%s leads to status %s", typ, status)
			}
			if got := events.TypeOf(events.NewEnding(status, events.Ending{})); got != typ {
				t.Errorf("status %s makes %s, not %s", status, got, typ)
			}
		}
	}
	if len(statuses) != 4 {
		t.Errorf("%d final statuses", len(statuses))
	}
	if events.NewEnding(events.StatusRunning, events.Ending{}) != nil {
		t.Error("NewEnding returns a payload for the status running")
	}
}
