# The commands for developers. "make" lists the targets.
GOLANGCI = go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The files with tests that depend on the tier, also by a variable of another file, without those that run alone.
NIGHTLY = $$(grep -rlE --include='*_test.go' 'tier\.(NightlyOnly|Nightly|Choose)|\*(editCount|consumerKills)\b' . | grep -v internal/dev/attack/)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

build: ## build ./bin/daybook
	go build -o bin/daybook .

test: ## run every test of the normal tier; under three minutes on two idle cores
	go test ./...

nightly: ## run the tests that do more in the nightly tier; those with promised times alone
	DAYBOOK_TEST_TIER=nightly go test -timeout 30m ./internal/dev/attack
	DAYBOOK_TEST_TIER=nightly go test -timeout 30m -run "^($$(grep -hoE '^func Test[A-Za-z0-9_]+' $(NIGHTLY) | sed 's/^func //' | sort -u | paste -sd'|'))$$" $$(dirname $(NIGHTLY) | sort -u)

race: ## run the tests of the concurrent packages under the race detector
	go test -short -race ./acp ./audit ./internal/contextstore ./internal/lifecycle/damage ./events ./ledger ./projections ./proof ./internal/translog ./internal/lifecycle/retention ./runner ./internal/tools/toolserver ./internal/webhook ./internal/link ./httpapi ./mcp ./internal/store/... ./internal/resources/... ./internal/web/...

vet: ## run go vet, also on the program that only a nightly test builds
	go vet ./... ./internal/exec/worker/testdata/foreign

lint: ## format, vet and lint
	test -z "$$(gofmt -l .)" && $(MAKE) --no-print-directory vet && $(GOLANGCI) run

check: ## check formatting, vet, and test the import rules, the documents and the phrases; takes seconds, for each commit
	test -z "$$(gofmt -l .)" && $(MAKE) --no-print-directory vet && go test ./internal/dev/arch

words: ## lower the counts of internal/dev/arch/testdata/old-words.txt after replacing old phrases
	go test -count=1 -run TestWords ./internal/dev/arch -args -update

fuzz: ## run every fuzz target for 20 seconds
	@for p in $$(go list ./...); do for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
		echo "$$p $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime 20s $$p || exit 1; done; done

generate: ## write the generated reference under docs/
	go run ./internal/dev/docgen

freeze: ## replace the data directory and the answers of internal/dev/frozen by those of this version
	go test -count=1 -v -run TestFreeze ./internal/dev/frozen -args -freeze
	go test -count=1 ./internal/dev/frozen -args -update

torture: ## kill -9 the server 1,000 times under load, and consumers and webhooks 100 times; about half an hour
	go test -count=1 -timeout 3h -v -run TestKill ./internal/dev/torture -args -kills=1000 -consumer-kills=100

torture-faults: ## put 2,000 single faults into copies of a store, one each; about half an hour
	go test -count=1 -timeout 3h -v -run 'TestFaults$$' ./internal/dev/torture -args -faults=2000 -fault-table

torture-proofs: ## attack the proof: 10,000 edits of exports, 10,000 of data directories, 1,000 crash states; about half an hour
	go test -count=1 -timeout 1h -v -run TestEditedExports ./examples/verify-python -args -edits=10000 -edit-table
	go test -count=1 -timeout 1h -v -run 'TestEditedDataDirectories|TestAttacks|TestTwoHistories|TestCrashStates' ./internal/dev/torture -args -data-edits=10000 -crash-states=1000 -proof-tables

torture-power: ## as root, cut the power of the server's disk 20 times under load; about five minutes
	go test -count=1 -timeout 1h -v -run TestPowerCut ./internal/dev/torture -args -power-cuts=20

torture-workers: ## start 10,000 workers and have each run an honest script; about ten minutes
	go test -count=1 -timeout 3h -v -run 'TestTortureWorkers|TestManyRunsLeaveNothing' ./internal/exec/worker -args -starts=10000

torture-jit: ## compare 50,000 runs with and without the optimizing compiler; some hours
	go test -count=1 -timeout 12h -v -run 'TestJIT$$' ./internal/exec/worker -args -jit-rounds=180

torture-limits: ## run the attacks of one client on the server and its other clients, in full size; about half an hour
	go test -count=1 -timeout 3h -v ./internal/dev/attack -args -attack=full

torture-soak: ## share a server between three honest tenants and a hostile one for an hour, with a kill every 10 minutes
	go test -count=1 -timeout 3h -v -run TestSoak ./internal/dev/attack -args -soak=1h

module-path: ## change the path of the module in all files: make module-path PATH=example.org/you/daybook
	@$(if $(filter command line,$(origin PATH)),,echo "usage: make module-path PATH=example.org/you/daybook" >&2; exit 2;) \
	PATH="$$(/bin/sed -zn 's/^PATH=//p' /proc/$$PPID/environ | /usr/bin/tr -d '\0')" && go run ./internal/dev/modpath '$(PATH)'

bench: ## measure, and write docs/benchmarks.md
	go run ./internal/dev/bench -out docs/benchmarks.md

bench-peers: ## measure beside other servers, which npm installs, and write docs/benchmarks-peers.md; about five minutes
	go run ./internal/dev/peers -out docs/benchmarks-peers.md

bench-growth: ## measure ledgers of up to two million executions, and write docs/benchmarks-growth.md; about an hour
	go run ./internal/dev/growth -out docs/benchmarks-growth.md

.PHONY: help build test nightly race vet lint check words fuzz generate freeze torture torture-faults torture-proofs torture-power torture-workers torture-jit torture-limits torture-soak module-path bench bench-peers bench-growth
.DEFAULT_GOAL := help
