// Package fetcher sends the HTTP requests of scripts. A policy decides about each request
// and each redirect. Below it is a floor that no policy can loosen: only http and https,
// only public addresses, and limits of sizes and times.
//
// A Fetcher adds headers with secrets of the operator after the policy has decided, only
// for the host that a secret is bound to, and removes the secrets from what the script
// gets. Secrets appear in no error, log line or String of this package.
//
// Requests come from scripts, and responses from any server: both are hostile. The package
// records nothing and knows no executions or events: runner/hostcallbroker.go records a
// request before it is sent, and its answer before the script gets it.
//
// The files, in reading order:
//
//   - request.go: decodes the request of a script, and refuses headers that would change how
//     it is sent
//   - target.go: brings a URL into the one form that the policy sees and that is requested
//   - fetcher.go: Fetcher: decides about each request with the policy, and follows redirects
//   - floor.go: refuses addresses when they are dialed
//   - inject.go: reads the rules for added headers, and decides which of them a request gets
//   - oauth.go: reads the rules for headers with access tokens
//   - tokensource.go: has the access tokens of a rule, and asks for one at a time
//   - tokenclient.go: sends the requests to a token endpoint
//   - hide.go: removes secrets from texts
//   - exchange.go: sends one request, and reads its response within the limits
//   - answer.go: writes the answer as JSON for scripts
//   - failure.go: words why a request failed, without addresses
package fetcher
