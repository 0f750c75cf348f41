// Package policy decides with Rego policies what scripts may do. It compiles the files of an
// operator with the library of Open Policy Agent, and evaluates one rule for each input.
//
// A decision is a function of the policy and of the input alone: built-in functions that
// read a clock, the network, random numbers or this process are refused when the policy is
// compiled. Whatever goes wrong in an evaluation is a denial.
//
// The package knows no requests, executions or events. internal/tools/fetcher builds inputs
// and enforces decisions.
//
// The files, in reading order:
//
//   - load.go: reads and compiles the files of a policy, and computes its hash
//   - builtins.go: decides which built-in functions policies may call
//   - evaluate.go: Policy: evaluates the rule within a time limit
//   - chain.go: Chain: one policy, or several of which all or any must allow
//   - explain.go: says which expressions of a policy decided
package policy
